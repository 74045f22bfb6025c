package gateway

import (
	"sync"
	"time"

	"reprise/internal/gateway/wire"
)

// subscription is the set of notifications that an upstream of version 2026-07-28 is asked to send. A connection has
// one subscriptions/listen for all clients, because a server may let a second one replace the first.
type subscription struct {
	conn     *connection
	changing sync.Mutex // held while another subscriptions/listen is sent

	mu     sync.Mutex
	filter filter
	call   *call
}

// resubscribePause is the time before an upstream that has ended a subscription is asked again.
const resubscribePause = time.Second

// add extends the subscriptions of the upstream by f's. It does not wait.
func (s *subscription) add(f filter) {
	s.mu.Lock()
	changed := s.filter.merge(f)
	s.mu.Unlock()
	if changed {
		s.conn.g.background(s.renew)
	}
}

// renew ends the subscription and begins another one with the filter of now.
func (s *subscription) renew() {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	before, wanted := s.call, s.filter
	s.call = nil
	s.mu.Unlock()
	if before != nil {
		s.end(before)
	}
	c := s.conn
	k := &call{method: wire.MethodListen, conn: c, answer: make(chan ownAnswer, 1)}
	if err := c.calls.add(k, c.g.up.MaxCalls); err != nil {
		return // the upstream has ended
	}
	s.mu.Lock()
	s.call = k
	s.mu.Unlock()
	params := wire.Compact(map[string]any{"notifications": wanted, "_meta": ownMeta()})
	if err := c.send(c.g.life, k, params, nil); err != nil {
		c.calls.remove(k)
		return
	}
	c.g.background(func() { s.awaitEnd(k) })
}

// end ends a subscription, and waits a moment for the confirmation of the upstream.
func (s *subscription) end(k *call) {
	s.conn.link.Drop(k.id)
	s.conn.cancel(k, "")
	select {
	case <-k.answer:
	case <-s.conn.link.Done():
	case <-time.After(asideTimeout):
	}
	s.conn.calls.remove(k)
}

// awaitEnd begins the subscription again if the upstream ends it, unless it refuses it.
func (s *subscription) awaitEnd(k *call) {
	select {
	case a := <-k.answer:
		k.answer <- a // end may wait for it
		if a.m.Err != nil {
			return
		}
	case <-s.conn.link.Done():
		return
	case <-s.conn.g.life.Done():
		return
	}
	select {
	case <-time.After(resubscribePause):
	case <-s.conn.link.Done():
		return
	case <-s.conn.g.life.Done():
		return
	}
	s.mu.Lock()
	still := s.call == k
	s.mu.Unlock()
	if still {
		s.renew()
	}
}
