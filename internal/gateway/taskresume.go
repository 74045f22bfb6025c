package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/gateway/credential"
	"reprise/internal/gateway/link"
	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
	"reprise/mcp/mcptask"
)

// The upstream of a task goes on when its gateway ends, if it is at a URL and has sessions: on these versions a broken
// connection cancels nothing. If it sends event ids, the next gateway, or another replica, reads the rest of its
// answer. The note of the task says where. Questions that have no answer are asked again.

// callNote is the note of a task whose answer can be resumed.
type callNote struct {
	Principal string     `json:"principal"`
	Place     link.Place `json:"place"`
}

// noteEvery is the time between two notes of a task whose upstream asks nothing. The upstream must keep its events for
// as long.
const noteEvery = 10 * time.Second

// reach notes a place in the answer of the upstream.
func (t *taskClient) reach(at link.Place) {
	t.mu.Lock()
	first := t.place == link.Place{}
	t.place = at
	due := first || time.Since(t.noted) >= noteEvery
	t.mu.Unlock()
	if due {
		t.note()
	}
}

// reply counts a question that has been answered, so that it is not asked again.
func (t *taskClient) reply() {
	t.mu.Lock()
	t.replied++
	t.mu.Unlock()
	t.note()
}

// note stores the place, unless a question before it has no answer. If that fails, the place before it is still good.
func (t *taskClient) note() {
	t.mu.Lock()
	at, asks := t.place, t.place.Questions > t.replied
	if !asks {
		t.noted = time.Now()
	}
	t.mu.Unlock()
	if !asks && at != (link.Place{}) {
		_ = mcptask.Note(t.ctx, callNote{t.principal, at})
	}
}

// stays reports whether the call goes on without this process, which gives up for a cause: a task that another one
// resumes.
func (t *taskClient) stays(cause error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return (errors.Is(cause, reprise.ErrClosed) || errors.Is(cause, reprise.ErrFenced)) &&
		t.place != link.Place{} && mcptask.FromContext(t.ctx) != nil
}

// resume reads the rest of the answer to a call whose process has ended.
func (t *taskServer) resume(ctx context.Context, tenant reprise.Tenant, note json.RawMessage) (
	*mcp.CallToolResult, error,
) {
	from, ok := parseNote(note)
	if !ok || t.g.up.URL == "" {
		return nil, nil // it cannot be resumed
	}
	who := &credential.Principal{Tenant: string(tenant), Name: from.Principal}
	filled, err := t.g.templates.Fill(who, t.g.opts.Secrets)
	if lacks, ok := errors.AsType[*credential.MissingError](err); ok {
		return failedCall(missing(t.g.up.Name, lacks))
	}
	endpoint := link.Endpoint{URL: t.g.up.URL, Header: filled.Values[0].Header}
	r := &resumedCall{
		g: t.g, link: link.OpenHTTP(endpoint, t.g.opts.Logger.With("upstream", t.g.up.Name)), id: from.Place.ID,
		to: &taskClient{ctx: ctx, principal: from.Principal, place: from.Place}, answered: make(chan struct{}),
	}
	return r.run(ctx, from.Place)
}

// parseNote returns the note of a call. Another version may have written it in a form that is not understood here.
func parseNote(text json.RawMessage) (n callNote, ok bool) {
	if len(text) == 0 {
		return callNote{}, false
	}
	err := json.Unmarshal(text, &n)
	return n, err == nil
}

// resumedCall receives the rest of the answer to a call.
type resumedCall struct {
	g    *Gateway
	link *link.HTTP
	id   int64 // of the request
	to   *taskClient

	once     sync.Once
	answered chan struct{} // closed when to has the response, or failed is set
	failed   *wire.Failure
}

// run waits for the response. The session stays at the upstream, where other calls may be under way in it.
func (r *resumedCall) run(ctx context.Context, from link.Place) (*mcp.CallToolResult, error) {
	began := time.Now()
	r.link.Start(r)
	defer func() {
		r.link.Keep()
		r.link.Close()
		<-r.link.Done()
	}()
	if err := r.link.Resume(from, r.to.reach); err != nil {
		return nil, err
	}
	select {
	case <-r.answered:
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), mcptask.ErrCancelled) {
			r.cancel()
		}
		r.count(Cancelled, began)
		return nil, context.Cause(ctx)
	}
	if r.failed != nil {
		r.count(Lost, began)
		return failedCall(r.failed)
	}
	r.count(Answered, began)
	return r.to.result()
}

// failedCall is the outcome of a call that the upstream has not answered.
func failedCall(why *wire.Failure) (*mcp.CallToolResult, error) {
	return (&taskClient{response: mcphttp.Message{Err: why.JSON()}}).result()
}

func (r *resumedCall) count(result CallResult, began time.Time) {
	if hook := r.g.opts.Hooks.Called; hook != nil {
		hook(r.g.up.Name, result, time.Since(began))
	}
}

// cancel notifies the upstream that the response is not needed.
func (r *resumedCall) cancel() {
	params := wire.Compact(map[string]any{"requestId": r.id})
	r.send(asideTimeout, wire.Request("", wire.NoteCancelled, params))
}

func (r *resumedCall) send(timeout time.Duration, raw []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_ = r.link.Send(ctx, link.Message{Raw: raw}) // an upstream that has ended does not wait for it
}

// Receive implements link.Receiver.
func (r *resumedCall) Receive(m mcphttp.Message, _ int64) {
	switch {
	case m.Method == "" && wire.ParseID([]byte(m.ID)) == r.id:
		r.once.Do(func() {
			r.to.response = m
			close(r.answered)
		})
	case m.Method == "":
	case m.ID == "":
		if err := r.to.Notify(m.Raw); err != nil {
			r.g.opts.Logger.Debug("a message of an MCP upstream is not delivered",
				"upstream", r.g.up.Name, "method", m.Method, "error", err)
		}
	default:
		err := r.to.Ask(m.ID, m.Raw, func(answer []byte) { r.send(replyTimeout, answer) })
		if err != nil {
			why := wire.Failure{
				Code: wire.CodeMethodNotFound, Reason: wire.ReasonNoClient,
				Message: "the client cannot be asked: " + err.Error(),
			}
			r.send(asideTimeout, wire.Response(m.ID, nil, why.JSON()))
		}
	}
}

// Fail implements link.Receiver.
func (r *resumedCall) Fail(_ int64, why *wire.Failure) {
	r.once.Do(func() {
		r.failed = why
		close(r.answered)
	})
}

// Unsent implements link.Receiver. Resume sends no request.
func (r *resumedCall) Unsent(int64) {}

// Garbage implements link.Receiver.
func (r *resumedCall) Garbage() {
	if hook := r.g.opts.Hooks.Garbage; hook != nil {
		hook(r.g.up.Name)
	}
}
