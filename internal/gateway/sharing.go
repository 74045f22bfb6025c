package gateway

import (
	"context"
	"slices"

	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// join notes that a session uses a connection which all share.
func (c *connection) join(s *mcphttp.Session) {
	c.mu.Lock()
	again := c.sessions[s]
	c.sessions[s] = true
	c.mu.Unlock()
	switch {
	case again:
	case c.translates():
		c.subscription.add(filter{URIs: s.Subscriptions()})
	default:
		for _, uri := range s.Subscriptions() {
			c.askAside(wire.MethodSubscribe, uri)
		}
	}
}

// leave removes a session, and the subscriptions that no other session has.
func (c *connection) leave(s *mcphttp.Session) {
	c.mu.Lock()
	delete(c.sessions, s)
	c.mu.Unlock()
	if c.translates() {
		return // tellAll leaves out what no session has subscribed to
	}
	for _, uri := range s.Subscriptions() {
		c.unsubscribe(s, uri)
	}
}

// unsubscribe ends the subscription of a session, at the upstream too if no other session has it.
func (c *connection) unsubscribe(s *mcphttp.Session, uri string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other := range c.sessions {
		if other != s && slices.Contains(other.Subscriptions(), uri) {
			return
		}
	}
	c.askAside(wire.MethodUnsubscribe, uri)
}

// askAside subscribes to a resource or unsubscribes in the background. A resource that is not there has no news.
func (c *connection) askAside(method, uri string) {
	c.g.background(func() {
		ctx, cancel := context.WithTimeout(c.g.life, c.g.up.StartTimeout)
		defer cancel()
		_, _ = c.ask(ctx, method, wire.Compact(map[string]string{"uri": uri}))
	})
}
