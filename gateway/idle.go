package gateway

import (
	"maps"
	"slices"
	"time"
)

// endIdle ends the connections without a session that nobody uses.
func (g *Gateway) endIdle() {
	tick := time.NewTicker(max(g.up.Idle/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-g.life.Done():
			return
		}
		g.mu.Lock()
		pools := map[slotKey]*slot{}
		for key, s := range g.slots {
			if key.pool != "" {
				pools[key] = s
			}
		}
		g.mu.Unlock()
		for key, s := range pools {
			if s.endIfIdle(g.up.Idle) {
				g.mu.Lock()
				delete(g.slots, key)
				delete(g.schemas, key)
				g.mu.Unlock()
			}
		}
	}
}

// endIfIdle ends the connection if nobody has used it for so long, and reports whether the slot may be forgotten.
func (s *slot) endIfIdle(idle time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.connecting != nil:
		return false
	case s.peer == nil:
		if time.Now().Before(s.notBefore) {
			return false
		}
	case !s.peer.idle(idle):
		return false
	default:
		s.peer.link.close()
	}
	s.closed = true
	return true
}

// idle reports whether no call has been under way for so long.
func (p *peer) idle(d time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		if c.f != nil {
			return false
		}
	}
	return time.Since(time.Unix(0, p.used.Load())) >= d
}

// dismiss ends a connection that has served its purpose.
func (s *slot) dismiss() {
	s.close()
	s.g.mu.Lock()
	delete(s.g.slots, s.key)
	s.g.mu.Unlock()
}

// makeRoom ends the connection of a session that was unused the longest, if there are as many connections as there may be and it
// was unused for Upstream.Idle. The session gets another one when it needs it.
func (g *Gateway) makeRoom() {
	g.mu.Lock()
	full := g.links >= g.up.MaxConnections && !g.up.KeepsState
	slots := slices.Collect(maps.Values(g.slots))
	g.mu.Unlock()
	if !full {
		return
	}
	var oldest *peer
	for _, s := range slots {
		p := s.live()
		if p != nil && p.idle(g.up.Idle) && (oldest == nil || p.used.Load() < oldest.used.Load()) {
			oldest = p
		}
	}
	if oldest == nil {
		return
	}
	oldest.link.close()
	select {
	case <-oldest.freed:
	case <-g.life.Done():
	}
}
