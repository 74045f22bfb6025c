package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// serveSession serves the messages of a session after its initialize request.
func (g *Gateway) serveSession(ctx context.Context, x *mcphttp.Exchange) error {
	if !slices.ContainsFunc(x.Messages, func(m mcphttp.Message) bool { return m.ID != "" }) {
		u, err := g.sessionUser(x.Session, x.Request)
		if c := g.live(u.key); c != nil && err == nil && c.isFor(u) { // they are no reason to make a connection
			for _, m := range x.Messages {
				c.passNotification(ctx, m)
			}
		}
		return nil
	}
	d := g.newDelivery(x)
	c, err := g.sessionConnection(ctx, x.Session, x.Request)
	if err != nil {
		d.refuse(failureOf(err))
		return d.run(ctx)
	}
	d.start(ctx, c)
	return d.run(ctx)
}

// serveInitialize answers the first request of a session.
func (g *Gateway) serveInitialize(ctx context.Context, x *mcphttp.Exchange) error {
	d := g.newDelivery(x)
	r := d.requests[0]
	c, err := g.firstConnection(ctx, x, r)
	if refused, ok := errors.AsType[*refusedGreeting](err); ok {
		r.in.push(arrival{request: r, m: mcphttp.Message{ID: r.id, Err: refused.response.Err}, result: Answered})
	} else if err != nil {
		r.fail(Refused, failureOf(err))
	} else {
		if g.up.Shared {
			c.join(x.Session)
		}
		r.succeed(c.greetingFor(wire.Text(r.params, "protocolVersion")))
	}
	return d.run(ctx)
}

// firstConnection returns the connection of a session that begins with r.
func (g *Gateway) firstConnection(ctx context.Context, x *mcphttp.Exchange, r *clientRequest) (*connection, error) {
	u, err := g.sessionUser(x.Session, x.Request)
	if err != nil {
		return nil, err
	}
	return g.slot(u.key).connect(ctx, u, func(ctx context.Context) (*connection, error) {
		return g.greetSession(ctx, u, func(ctx context.Context) (*connection, error) {
			return g.greet(ctx, u, r.params)
		})
	})
}

// sessionConnection returns the connection of the session of request r. It repeats the agreements of the session on a
// new connection.
func (g *Gateway) sessionConnection(ctx context.Context, s *mcphttp.Session, r *http.Request) (*connection, error) {
	u, err := g.sessionUser(s, r)
	if err != nil {
		return nil, err
	}
	c, err := g.slot(u.key).connect(ctx, u, func(ctx context.Context) (*connection, error) {
		return g.reconnect(ctx, u, s)
	})
	if err == nil && g.up.Shared {
		c.join(s)
	}
	return c, err
}

// reconnect opens a connection for a session that was initialized before.
func (g *Gateway) reconnect(ctx context.Context, u user, s *mcphttp.Session) (*connection, error) {
	if g.up.KeepsState && !g.up.Shared {
		message := "the upstream of this session has ended, with what it knew; begin a new session"
		return nil, wire.Internal(wire.ReasonLost, message)
	}
	c, err := g.greetSession(ctx, u, func(ctx context.Context) (*connection, error) {
		return g.greetAgain(ctx, u, s)
	})
	if err != nil {
		return nil, startFailure(err)
	}
	if c.translates() {
		c.subscription.add(everyList)
		c.subscription.add(filter{URIs: s.Subscriptions()})
	}
	return c, nil
}

// greetSession makes the connection of a session with greet or, if all share one, as the gateway. An upstream that
// has no sessions is connected to on version 2026-07-28.
func (g *Gateway) greetSession(ctx context.Context, u user, greet connector) (*connection, error) {
	if g.versions.lackSessions() {
		return g.probe(ctx, u)
	}
	if g.up.Shared {
		greet = func(ctx context.Context) (*connection, error) {
			return g.greetAsGateway(ctx, u, json.RawMessage("{}"))
		}
	}
	c, err := greet(ctx)
	if _, ok := errors.AsType[*refusedGreeting](err); !ok {
		return c, err
	}
	c, failed := g.probe(ctx, u)
	if failed != nil {
		return nil, err
	}
	g.versions.learnNoSessions()
	return c, nil
}

// greetingFor returns the result of initialize for a client that wants a version.
func (c *connection) greetingFor(wanted string) json.RawMessage {
	greeting := c.agreement.Load().greeting
	switch {
	case c.translates():
		return withVersion(initializeResult(greeting), wanted)
	case c.g.up.Shared:
		return withVersion(greeting, wanted)
	}
	return greeting
}

// withVersion returns a result of initialize for a client whose version may differ from the upstream's.
func withVersion(greeting json.RawMessage, wanted string) json.RawMessage {
	if !slices.Contains(mcphttp.Versions, wanted) || wanted >= wire.Version20260728 {
		wanted = wire.Version20251125
	}
	return wire.Edit(greeting, func(m map[string]json.RawMessage) { m["protocolVersion"] = wire.Compact(wanted) })
}

// passNotification passes on a notification of a session, if it is for the upstream.
func (c *connection) passNotification(ctx context.Context, m mcphttp.Message) {
	if c.translates() && m.Method == wire.NoteInitialized {
		c.subscription.add(everyList)
	}
	if m.Method == wire.MethodCall { // without an id: some servers would run the tool, offered or not
		return
	}
	if c.g.up.Shared || c.translates() || m.Method == wire.NoteInitialized && c.initialized.Swap(true) {
		return
	}
	if err := c.notify(ctx, m.Method, m.Params); err != nil && ctx.Err() == nil {
		c.g.opts.Logger.Debug("a notification of an MCP client is not delivered",
			"upstream", c.g.up.Name, "method", m.Method, "error", err)
	}
}
