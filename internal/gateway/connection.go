package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"reprise/internal/gateway/credential"
	"reprise/internal/gateway/link"
	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

const (
	// cancelPatience is the time in which the upstream may still answer a cancelled request itself.
	cancelPatience = 2 * time.Second
	// replyTimeout limits the time in which an upstream must accept the answer to its question.
	replyTimeout = 4 * time.Second
	// asideTimeout limits the time in which an upstream must accept a message that is optional.
	asideTimeout = time.Second
)

// connection is a connection to an upstream: a link, the agreement over it, and the calls under way.
type connection struct {
	g            *Gateway
	key          slotKey            // its user
	credential   *credential.Filled // the headers or variables for the upstream
	link         link.Link
	opened       time.Time
	ended        chan struct{} // closed when the link has ended and is no longer counted
	calls        callTable
	subscription subscription
	agreement    atomic.Pointer[agreement]
	initialized  atomic.Bool // notifications/initialized was sent
	attached     atomic.Bool // a client listens to the session as a whole, or did

	mu       sync.Mutex
	sessions map[*mcphttp.Session]bool // that use a connection which all share
	level    string                    // of the log, as clients without sessions have set it last
}

// agreement is the negotiated state between an upstream and the gateway.
type agreement struct {
	greeting json.RawMessage // the result of initialize or of server/discover
	version  string
}

// agree sets the agreement.
func (c *connection) agree(greeting json.RawMessage, version string) {
	c.agreement.Store(&agreement{greeting, version})
	c.link.Agree(version)
}

// stateless reports whether the upstream speaks the version without sessions.
func (c *connection) stateless() bool {
	a := c.agreement.Load()
	return a != nil && a.version == wire.Version20260728
}

// translates reports whether the clients have sessions and the upstream has none.
func (c *connection) translates() bool { return c.key.pool == "" && c.stateless() }

// capability returns a member of the upstream's capabilities, nil if it has none of that name.
func (c *connection) capability(name string) json.RawMessage {
	return wire.Members(wire.Members(c.agreement.Load().greeting)["capabilities"])[name]
}

// call sends a request of a client. The error is link.ErrEnded, if nothing was sent, or why the request cannot be sent.
func (c *connection) call(ctx context.Context, r *clientRequest, params json.RawMessage, header http.Header) error {
	k := &call{method: r.method, conn: c, request: r, token: wire.ProgressToken(params)}
	if err := c.calls.add(k, c.g.up.MaxCalls); err != nil {
		return err
	}
	r.call = k
	err := c.send(ctx, k, params, header)
	if err != nil && !c.calls.remove(k) {
		return nil // the end of the link has answered it
	}
	return err
}

// send sends a call, with its id in place of the client's progress token.
func (c *connection) send(ctx context.Context, k *call, params json.RawMessage, header http.Header) error {
	if k.token != nil {
		params = wire.WithProgressToken(params, wire.ID(k.id))
	}
	raw := wire.Request(wire.ID(k.id), k.method, params)
	m := link.Message{Raw: raw, ID: k.id, Method: k.method, Params: params, Header: header}
	if k.request != nil {
		m.At = k.request.at
	}
	return c.link.Send(ctx, m)
}

// ask sends a request of the gateway's own and waits for the response.
func (c *connection) ask(ctx context.Context, method string, params json.RawMessage) (mcphttp.Message, error) {
	k := &call{method: method, conn: c, answer: make(chan ownAnswer, 1)}
	if err := c.calls.add(k, c.g.up.MaxCalls); err != nil {
		return mcphttp.Message{}, err
	}
	defer c.calls.remove(k)
	if err := c.send(ctx, k, params, nil); err != nil {
		return mcphttp.Message{}, err
	}
	select {
	case a := <-k.answer:
		return a.m, a.err
	case <-c.link.Done():
		select {
		case a := <-k.answer: // the last that the upstream said
			return a.m, a.err
		default:
			return mcphttp.Message{}, c.link.Err()
		}
	case <-ctx.Done():
		return mcphttp.Message{}, context.Cause(ctx)
	}
}

// notify sends a notification to the upstream.
func (c *connection) notify(ctx context.Context, method string, params json.RawMessage) error {
	return c.link.Send(ctx, link.Message{Raw: wire.Request("", method, params), Method: method, Params: params})
}

// sendAside sends a message in the background. If the upstream does not read it, it is dropped.
func (c *connection) sendAside(raw []byte, method string) {
	c.g.background(func() {
		ctx, cancel := context.WithTimeout(c.g.life, asideTimeout)
		defer cancel()
		_ = c.link.Send(ctx, link.Message{Raw: raw, Method: method})
	})
}

// reply sends a client's response to a question of the upstream.
func (c *connection) reply(response []byte) {
	ctx, cancel := context.WithTimeout(c.g.life, replyTimeout)
	defer cancel()
	_ = c.link.Send(ctx, link.Message{Raw: response}) // an upstream that has ended does not wait for it
}

// refuse answers a question of the upstream with an error.
func (c *connection) refuse(id mcphttp.ID, code int, reason, message string) {
	e := wire.Failure{Code: code, Reason: reason, Message: message}
	c.sendAside(wire.Response(id, nil, e.JSON()), "")
}

// refuseNoClient answers a question of the upstream that no client can be asked.
func (c *connection) refuseNoClient(id mcphttp.ID, message string) {
	c.refuse(id, wire.CodeMethodNotFound, wire.ReasonNoClient, message)
}

// cancel notifies the upstream that the response to a call is not needed.
func (c *connection) cancel(k *call, reason string) {
	if c.stateless() && c.g.up.URL != "" {
		return // the end of the HTTP request tells it
	}
	params := map[string]any{"requestId": k.id}
	if reason != "" {
		params["reason"] = reason
	}
	c.sendAside(wire.Request("", wire.NoteCancelled, wire.Compact(params)), wire.NoteCancelled)
}

// cancelForClient passes on that a client has cancelled its request. It answers the request if the upstream does not.
func (c *connection) cancelForClient(k *call, reason string) {
	c.cancel(k, reason)
	c.g.background(func() {
		select {
		case <-time.After(cancelPatience):
		case <-c.link.Done():
		case <-c.g.life.Done():
		}
		if c.calls.remove(k) {
			k.request.fail(Cancelled, wire.Internal(wire.ReasonCancelled, "the request was cancelled"))
		}
	})
}

// abandon cancels a call, if it is still under way, and drops its response.
func (c *connection) abandon(k *call, reason string) {
	if !c.calls.remove(k) {
		return
	}
	c.link.Drop(k.id)
	if k.method != wire.MethodInitialize && !c.calls.isListening(k) {
		c.cancel(k, reason)
	}
}

// leaveRunning drops a call, which goes on at the upstream in its session.
func (c *connection) leaveRunning(k *call) {
	if l, ok := c.link.(*link.HTTP); ok && c.calls.remove(k) {
		l.Keep()
		l.Drop(k.id)
	}
}

// failCalls answers the calls of a link that has ended.
func (c *connection) failCalls() {
	for _, k := range c.calls.end() {
		k.request.fail(Lost, link.Interrupted(c.link.Err()))
	}
}
