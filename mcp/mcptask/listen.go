package mcptask

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/mcp/mcphttp"
)

// The SDK neither reads the taskIds of a subscriptions/listen nor sends notifications that it does not know. So the
// request is read, and notifications are written, where the messages are: at the mcphttp.Exchange, or on the
// connection of Transport.

// maxListened is how many tasks one subscriptions/listen may name.
const maxListened = 1000

type listenKey struct{}

// listening is a subscriptions/listen that names tasks.
type listening struct {
	out   outlet
	id    json.RawMessage // of the request
	tasks []*listened
	acked chan struct{}
	once  sync.Once
}

// listened is a task whose changes a client wants.
type listened struct {
	id     string
	stream *reprise.Stream
}

// outlet is where notifications are written.
type outlet interface {
	notify(ctx context.Context, message []byte) error
}

type exchangeKey struct{}

// exchangeOutlet writes to an mcphttp.Exchange.
type exchangeOutlet struct{ *mcphttp.Exchange }

func (o exchangeOutlet) notify(_ context.Context, message []byte) error { return o.Notify(message) }

// backend makes the Exchange known to handlers.
type backend struct{ mcphttp.Backend }

// Serve implements mcphttp.Backend.
func (b backend) Serve(ctx context.Context, x *mcphttp.Exchange) error {
	return b.Backend.Serve(context.WithValue(ctx, exchangeKey{}, x), x)
}

// Backend wraps a backend made by mcphttp.Server, for servers with tasks. It lets Tasks know the principal of a
// request, and send notifications of tasks to listening clients. It may also be used for servers without tasks.
func Backend(server mcphttp.Backend) mcphttp.Backend { return backend{server} }

// Exchange returns the exchange of mcphttp for a handler with ctx, or nil if its server is not behind Backend.
func Exchange(ctx context.Context) *mcphttp.Exchange {
	x, _ := ctx.Value(exchangeKey{}).(*mcphttp.Exchange)
	return x
}

// Identify is the default of Options.Identify.
func Identify(ctx context.Context, req mcp.Request) (reprise.Tenant, string, error) {
	if x := Exchange(ctx); x != nil {
		return x.Tenant, x.Principal, nil
	}
	var token *auth.TokenInfo
	if extra := req.GetExtra(); extra != nil {
		token = extra.TokenInfo
	}
	if token == nil {
		token = auth.TokenInfoFromContext(ctx)
	}
	if token == nil {
		return reprise.DefaultTenant, "", nil
	}
	return reprise.DefaultTenant, token.UserID, nil
}

// listenParams is what of a subscriptions/listen is ours.
type listenParams struct {
	Notifications struct {
		TaskIDs []string `json:"taskIds"`
	} `json:"notifications"`
}

// listen answers subscriptions/listen.
func (t *Tasks) listen(ctx context.Context, next mcp.MethodHandler, req *mcp.SubscriptionsListenRequest) (
	mcp.Result, error,
) {
	l, ids := t.heard(ctx, req)
	if len(ids) == 0 {
		return next(ctx, methodListen, req)
	}
	if !declares(req) {
		return nil, missing()
	}
	if len(ids) > maxListened {
		return nil, invalid("too many taskIds")
	}
	who, err := t.identify(ctx, req)
	if err != nil {
		return nil, err
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		task, err := t.find(ctx, who.tenant, who.principal, id)
		if err != nil {
			continue // what is not acknowledged is not told of
		}
		l.tasks = append(l.tasks, &listened{id, task.stream})
	}
	l.acked = make(chan struct{})
	ctx = context.WithValue(ctx, listenKey{}, l)
	var telling sync.WaitGroup
	telling.Go(func() { t.tell(ctx, l) })
	result, err := next(ctx, methodListen, req)
	if err == nil && len(l.tasks) > 0 {
		select {
		case <-ctx.Done():
		case <-t.running.Done():
		}
	}
	l.once.Do(func() { close(l.acked) })
	telling.Wait()
	return result, err
}

// heard is what a client listens to, as it was on the wire.
func (t *Tasks) heard(ctx context.Context, req *mcp.SubscriptionsListenRequest) (*listening, []string) {
	if x := Exchange(ctx); x != nil {
		var params listenParams
		if len(x.Messages) != 1 || json.Unmarshal(x.Messages[0].Params, &params) != nil {
			return nil, nil
		}
		return &listening{out: exchangeOutlet{x}, id: json.RawMessage(x.Messages[0].ID)}, params.Notifications.TaskIDs
	}
	if req.Params == nil {
		return nil, nil
	}
	return t.heardOn(req.Params.Meta)
}

// send is the middleware of what the server sends: it adds the tasks to the acknowledgement, which the SDK does not
// know.
func (t *Tasks) send(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		l, _ := ctx.Value(listenKey{}).(*listening)
		if l == nil || method != notificationAck {
			return next(ctx, method, req)
		}
		defer l.once.Do(func() { close(l.acked) })
		return nil, l.acknowledge(ctx, req.GetParams())
	}
}

// acknowledge sends params with the tasks whose changes the client will get.
func (l *listening) acknowledge(ctx context.Context, params mcp.Params) error {
	text, err := json.Marshal(params)
	if err != nil {
		return err
	}
	var all, notifications map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	if err := json.Unmarshal(all["notifications"], &notifications); err != nil {
		return err
	}
	ids := make([]string, 0, len(l.tasks))
	for _, task := range l.tasks {
		ids = append(ids, task.id)
	}
	if notifications["taskIds"], err = json.Marshal(ids); err != nil {
		return err
	}
	if all["notifications"], err = json.Marshal(notifications); err != nil {
		return err
	}
	return l.notify(ctx, notificationAck, all)
}

func (l *listening) notify(ctx context.Context, method string, params any) error {
	message, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
	if err != nil {
		return err
	}
	return l.out.notify(ctx, message)
}

// tell reports changes of all tasks until ctx is done, after the acknowledgement.
func (t *Tasks) tell(ctx context.Context, l *listening) {
	select {
	case <-l.acked:
	case <-ctx.Done():
		return
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	unlink := context.AfterFunc(t.running, func() { stop(reprise.ErrClosed) })
	defer unlink()
	var each sync.WaitGroup
	for _, task := range l.tasks {
		each.Go(func() { t.tellOf(ctx, l, task) })
	}
	each.Wait()
}

// tellOf reports the state of a task, and each change, until it has ended.
func (t *Tasks) tellOf(ctx context.Context, l *listening, task *listened) {
	reader, err := task.stream.Reader(ctx, reprise.Earliest())
	if err == nil {
		defer reader.Close()
		err = l.follow(ctx, reader, task.id)
	}
	if err != nil && ctx.Err() == nil {
		t.opts.Logger.Warn("a client gets no more notifications of an MCP task", "task", task.id, "error", err)
	}
}

func (l *listening) follow(ctx context.Context, reader *reprise.Reader, id string) error {
	info := reader.Info()
	v, err := newView(id, &info)
	if err != nil {
		return err
	}
	for news := true; ; { // how it is now is news
		changed := reader.Changed()
		more, err := v.poll(ctx, reader, &news)
		if isEpochChanged(err) {
			// The store has lost events that v is made of: what is left of the task is news.
			if err = reader.Seek(reprise.Earliest()); err == nil {
				v, err = newView(id, &info)
			}
			more, news = true, true
		}
		switch {
		case err != nil:
			return err
		case more:
			continue // of the kept changes only the last one is reported
		}
		if news {
			news = false
			if err := l.notify(ctx, notificationTask, notified(v.wire(), l.id)); err != nil {
				return nil //nolint:nilerr // the client has gone
			}
		}
		if v.end != nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// notifiedTask is the params of notifications/tasks.
type notifiedTask struct {
	Meta map[string]json.RawMessage `json:"_meta"`
	wireTask
}

func notified(w wireTask, id json.RawMessage) notifiedTask {
	return notifiedTask{map[string]json.RawMessage{mcp.MetaKeySubscriptionID: id}, w}
}
