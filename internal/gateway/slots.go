package gateway

import (
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"reprise/internal/gateway/credential"
	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// slotKey identifies the user of a connection. The zero value means all sessions.
type slotKey struct {
	session *mcphttp.Session
	// pool are the clients without sessions that share a connection; see poolKey.
	pool string
}

// poolProbe is the pool of a connection that is opened to determine the versions of the upstream.
const poolProbe = "probe"

// sessionKey returns the key of the connection of a session.
func (g *Gateway) sessionKey(s *mcphttp.Session) slotKey {
	if g.up.Shared {
		return slotKey{}
	}
	return slotKey{session: s}
}

// poolKey returns the key of the connection of a client without a session, which it shares with the clients of the same
// principal that have the same capabilities and for whom the upstream is called with the same.
func (g *Gateway) poolKey(x *mcphttp.Exchange, filled *credential.Filled) slotKey {
	era := g.versions.known()
	switch {
	case g.up.Shared && era == eraSessions:
		return slotKey{}
	case g.up.Shared:
		return slotKey{pool: "shared"}
	}
	digest := filled.Digest()
	key := string(wire.Compact(string(x.Tenant))) + string(wire.Compact(x.Principal)) + hex.EncodeToString(digest[:])
	if era != eraStateless { // else each request declares the capabilities
		key += string(wire.Edit(capabilitiesOf(x), func(map[string]json.RawMessage) {}))
	}
	return slotKey{pool: key}
}

// capabilitiesOf returns the capabilities that a client without a session declares.
func capabilitiesOf(x *mcphttp.Exchange) json.RawMessage {
	return wire.Meta(x.Messages[0].Params)[wire.MetaCapabilities]
}

// slot returns the slot of a key, and creates it if there is none.
func (g *Gateway) slot(key slotKey) *slot {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.slots[key]
	if s == nil {
		s = &slot{g: g, key: key}
		g.slots[key] = s
	}
	return s
}

// dropSlot closes the slot of a key, if there is one, and forgets it.
func (g *Gateway) dropSlot(key slotKey) {
	g.mu.Lock()
	s := g.slots[key]
	delete(g.slots, key)
	g.mu.Unlock()
	if s != nil {
		s.close()
	}
}

// live returns the connection of a key, or nil if there is none.
func (g *Gateway) live(key slotKey) *connection {
	g.mu.Lock()
	s := g.slots[key]
	g.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.live()
}

// connections returns the connections of a key: the current one, and those with another credential and calls under way.
func (g *Gateway) connections(key slotKey) []*connection {
	g.mu.Lock()
	s := g.slots[key]
	g.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.connections()
}

func (g *Gateway) allSlots() []*slot {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Values(g.slots))
}

// Calls returns the number of unanswered requests of clients.
func (g *Gateway) Calls() (n int) {
	for _, s := range g.allSlots() {
		for _, c := range s.connections() {
			n += c.calls.waiting()
		}
	}
	return n
}

// closeIdlePools closes idle connections of pools until the Gateway is closed.
func (g *Gateway) closeIdlePools() {
	tick := time.NewTicker(max(g.up.Idle/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-g.life.Done():
			return
		}
		for _, s := range g.allSlots() {
			if s.key.pool != "" && s.closeIfIdle(g.up.Idle) {
				g.mu.Lock()
				delete(g.slots, s.key)
				g.mu.Unlock()
			}
		}
	}
}

// makeRoom closes the connection that was unused the longest if the maximum number is reached and that connection was
// unused for at least Upstream.Idle. Its session gets another one when needed.
func (g *Gateway) makeRoom() {
	g.mu.Lock()
	full := g.links >= g.up.MaxConnections && !g.up.KeepsState
	g.mu.Unlock()
	if !full {
		return
	}
	var oldest *connection
	unused := time.Now().Add(-g.up.Idle)
	for _, s := range g.allSlots() {
		c := s.live()
		if c == nil {
			continue
		}
		if since, idle := c.calls.idleSince(); idle && !since.After(unused) {
			oldest, unused = c, since
		}
	}
	if oldest == nil {
		return
	}
	oldest.link.Close()
	select {
	case <-oldest.ended:
	case <-g.life.Done():
	}
}
