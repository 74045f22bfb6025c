package gateway

import (
	"context"
	"encoding/json"

	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// serveStateless serves an exchange of version 2026-07-28.
func (g *Gateway) serveStateless(ctx context.Context, x *mcphttp.Exchange) error {
	d := g.newDelivery(x)
	if len(d.requests) == 0 {
		return nil // no notification of this version is for the upstream
	}
	if p := g.takeParked(x); p != nil {
		return p.resume(ctx, d)
	}
	c, err := g.poolConnection(ctx, x)
	if err == nil && !c.stateless() && wire.Text(x.Messages[0].Params, "requestState") != "" {
		if why := d.repeatParked(ctx, c); why != nil {
			err = why
		}
	}
	switch {
	case err != nil:
		d.refuse(failureOf(err))
	case d.given == nil && g.tasks.takes(x, c):
		return g.tasks.backend.Serve(ctx, x)
	default:
		d.start(ctx, c)
	}
	return d.run(ctx)
}

// poolConnection returns the connection for an exchange without a session.
func (g *Gateway) poolConnection(ctx context.Context, x *mcphttp.Exchange) (*connection, error) {
	if g.up.Shared && g.versions.known() == eraUnknown {
		if err := g.learnEra(ctx); err != nil {
			return nil, err
		}
	}
	capabilities := capabilitiesOf(x)
	if g.up.Shared {
		capabilities = json.RawMessage("{}")
	}
	for {
		u, err := g.poolUser(x)
		if err != nil {
			return nil, err
		}
		c, err := g.slot(u.key).connect(ctx, u, func(ctx context.Context) (*connection, error) {
			return g.connectPool(ctx, u, capabilities)
		})
		if err != errSlotClosed { //nolint:errorlint // never wrapped
			return c, err
		} // it was closed because it was idle, and there will be another one
	}
}

// learnEra determines the versions of the upstream. It must not open the connection of the sessions, which clients
// without sessions may share, for that.
func (g *Gateway) learnEra(ctx context.Context) error {
	u := user{slotKey{pool: poolProbe}, g.fixed} // a shared connection uses the same values for all
	_, err := g.slot(u.key).connect(ctx, u, func(ctx context.Context) (*connection, error) { return g.probe(ctx, u) })
	if err != nil && g.versions.known() == eraUnknown {
		return err
	}
	g.dropSlot(u.key)
	return nil
}

// connectPool opens a connection on version 2026-07-28, or on an older version if the upstream does not support that.
func (g *Gateway) connectPool(ctx context.Context, u user, capabilities json.RawMessage) (*connection, error) {
	if g.versions.known() != eraSessions {
		c, err := g.probe(ctx, u)
		if err == nil || g.versions.known() != eraSessions {
			return c, err
		}
	}
	c, err := g.greetAsGateway(ctx, u, capabilities)
	if err != nil && g.versions.known() == eraSessions {
		g.versions.learn(eraUnknown) // it may have been too slow to answer server/discover
	}
	return c, err
}
