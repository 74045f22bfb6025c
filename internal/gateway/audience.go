package gateway

import (
	"maps"
	"slices"

	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// tellCaller sends a notification to the client of the call during which it arrived. If that is unknown, the client is
// the one of the only call under way or, on the connection of one session, the session as a whole. On a connection that
// all sessions share, such a notification is dropped.
func (c *connection) tellCaller(m mcphttp.Message, during *call) {
	if during != nil && during.request != nil {
		during.request.in.push(arrival{m: m})
		return
	}
	if c.g.up.Shared {
		return
	}
	s := c.key.session
	r, several := c.calls.newest()
	wanted := s != nil || m.Method != wire.NoteLog || r != nil && r.wantsLogs
	if r != nil && !several && wanted && r.in.push(arrival{m: m}) {
		return
	}
	if s != nil {
		c.tellSession(s, m)
	}
}

// tellAll sends a notification about the server to all that use the connection and want to know.
func (c *connection) tellAll(m mcphttp.Message) {
	switch s := c.key.session; {
	case s == nil:
		c.tellSharing(m)
		c.tellListeners(m)
	case !c.stateless() || wants(s, m): // an upstream with sessions knows itself what the session wants
		c.tellSession(s, m)
	}
}

// tellSession sends a notification on the stream of a session as a whole.
func (c *connection) tellSession(s *mcphttp.Session, m mcphttp.Message) {
	if err := s.Notify(m.Raw); err != nil { // a session that has ended misses nothing
		c.g.opts.Logger.Debug("a notification of an MCP upstream is not delivered",
			"upstream", c.g.up.Name, "method", m.Method, "error", err)
	}
}

// tellSharing sends a notification to the sessions that share the connection and want it.
func (c *connection) tellSharing(m mcphttp.Message) {
	c.mu.Lock()
	sessions := slices.Collect(maps.Keys(c.sessions))
	c.mu.Unlock()
	for _, s := range sessions {
		if wants(s, m) {
			c.tellSession(s, m)
		}
	}
}

// wants reports whether a session wants a notification. It wants news of a resource only if it has subscribed to it.
func wants(s *mcphttp.Session, m mcphttp.Message) bool {
	return m.Method != wire.NoteUpdated || slices.Contains(s.Subscriptions(), wire.Text(m.Params, "uri"))
}

// tellListeners sends a notification to the clients without sessions that have subscribed to it.
func (c *connection) tellListeners(m mcphttp.Message) {
	for _, k := range c.calls.listeners(&m) {
		k.request.tellSubscribed(m)
	}
}

// tellSubscribed sends a notification to a client whose subscription is r.
func (r *clientRequest) tellSubscribed(m mcphttp.Message) {
	r.in.push(notification(m.Method, wire.WithSubscription(m.Params, r.id)))
}
