package gateway

import (
	"context"
	"fmt"
	"sync"
	"time"

	"reprise"
	"reprise/mcphttp"
)

// slotKey says whose connection it is. The zero value is that which all share.
type slotKey struct {
	session *mcphttp.Session
	// pool is who shares a connection without a session; see poolKey.
	pool string
}

// slot is a place for a connection, which is made when it is needed and again when it has ended.
type slot struct {
	g   *Gateway
	key slotKey

	mu         sync.Mutex
	peer       *peer
	connecting *connecting
	closed     bool
	// fails counts connections that have come to nothing, or have ended soon; the next is not made before notBefore.
	fails     int
	notBefore time.Time
}

// errSlotClosed: no connection is made here any more.
var errSlotClosed = &failure{codeInternal, "the session has ended", "upstream_unavailable"}

// connecting is a connection that is being made.
type connecting struct {
	done chan struct{}
	peer *peer
	err  error
}

const (
	// soon is the age before which the end of a connection counts as a failure.
	soon = 5 * time.Second
	// pauseFirst is the time after the second failure, pauseMax the longest.
	pauseFirst, pauseMax = 250 * time.Millisecond, 30 * time.Second
)

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

// live is the connection that there is, or nil.
func (s *slot) live() *peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peer
}

// connect returns the connection, which it makes with open if there is none. It is not undone when ctx ends: others
// may wait for it.
func (s *slot) connect(ctx context.Context, open func(context.Context) (*peer, error)) (*peer, error) {
	s.mu.Lock()
	for s.peer != nil && s.peer.link.ending() {
		p := s.peer
		s.mu.Unlock()
		select {
		case <-p.gone:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		s.mu.Lock()
	}
	switch {
	case s.peer != nil:
		defer s.mu.Unlock()
		return s.peer, nil
	case s.closed:
		defer s.mu.Unlock()
		return nil, errSlotClosed
	case s.connecting == nil:
		if wait := time.Until(s.notBefore); wait > 0 {
			defer s.mu.Unlock()
			return nil, &failure{codeInternal, fmt.Sprintf("the upstream does not stay; it is tried again in %v", wait.Round(time.Millisecond)), "upstream_unavailable"}
		}
		c := &connecting{done: make(chan struct{})}
		s.connecting = c
		if !s.g.begin(func() { s.make(c, open) }) {
			s.connecting = nil
			defer s.mu.Unlock()
			return nil, errClosed
		}
	}
	c := s.connecting
	s.mu.Unlock()
	select {
	case <-c.done:
		return c.peer, c.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *slot) make(c *connecting, open func(context.Context) (*peer, error)) {
	ctx, cancel := context.WithTimeoutCause(s.g.life, s.g.up.StartTimeout, &failure{
		codeInternal, "the upstream was not initialized within " + s.g.up.StartTimeout.String(), "upstream_unavailable",
	})
	defer cancel()
	began := time.Now()
	p, err := open(ctx)
	s.mu.Lock()
	s.connecting = nil
	if err == nil && s.closed {
		p.link.close()
		err = reprise.ErrEnded
	}
	if err != nil {
		s.failed()
		s.g.opts.Logger.Warn("no connection to an MCP upstream", "upstream", s.g.up.Name, "error", err)
	} else {
		s.peer = p
		s.g.begin(func() { s.watch(p, began) })
	}
	s.mu.Unlock()
	c.peer, c.err = p, err
	close(c.done)
}

// failed notes that a connection came to nothing. The first one is tried again at once.
func (s *slot) failed() {
	s.fails++
	if s.fails > 1 {
		s.notBefore = time.Now().Add(min(pauseFirst<<min(s.fails-2, 10), pauseMax))
	}
}

// watch waits for the end of a connection.
func (s *slot) watch(p *peer, began time.Time) {
	<-p.link.done()
	s.mu.Lock()
	lost := p.link.lost()
	s.peer = nil
	if lost && time.Since(began) < soon {
		s.failed()
	} else {
		s.fails = 0
	}
	s.mu.Unlock()
	if lost {
		s.g.opts.Logger.Warn("an MCP upstream has ended", "upstream", s.g.up.Name, "error", p.link.why())
	}
	p.end(p.link.why())
	close(p.gone)
}

// close ends the connection, and lets none be made.
func (s *slot) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.peer != nil {
		s.peer.link.close()
	}
}
