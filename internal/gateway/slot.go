package gateway

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"reprise"
	"reprise/internal/gateway/wire"
)

// slot is a place for one connection, which is made when it is needed, and again after it has ended.
type slot struct {
	g     *Gateway
	key   slotKey
	tools toolSchemas

	mu      sync.Mutex
	conn    *connection // nil if there is none
	attempt *attempt    // the attempt to open one, or nil
	closed  bool
	// retired are connections with another credential, which end when their last call has.
	retired []*connection
	// fails counts the attempts in a row that failed, and the connections that ended soon. No attempt begins before
	// notBefore.
	fails     int
	notBefore time.Time
}

// attempt is an attempt to make a connection. done is closed when conn and err are set.
type attempt struct {
	user user
	done chan struct{}
	conn *connection
	err  error
}

// connector opens a connection.
type connector func(context.Context) (*connection, error)

// errSlotClosed is the error of a slot that no longer opens connections.
var errSlotClosed = wire.Internal(wire.ReasonUnavailable, "the session has ended")

const (
	// soon is the age before which the end of a connection counts as a failure.
	soon = 5 * time.Second
	// pauseFirst is the time after the second failure, pauseMax the longest.
	pauseFirst, pauseMax = 250 * time.Millisecond, 30 * time.Second
)

// live returns the connection, or nil if there is none.
func (s *slot) live() *connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}

// connect returns the connection for u, and opens one with open if there is none. The attempt continues when ctx ends,
// because other callers may wait for it.
func (s *slot) connect(ctx context.Context, u user, open connector) (*connection, error) {
	for {
		c, a, err := s.connOrAttempt(u, open)
		switch {
		case err != nil:
			return nil, err
		case a != nil:
			select {
			case <-a.done:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			if a.user.same(u) {
				return a.conn, a.err
			}
			continue
		case !c.link.Ending():
			return c, nil
		}
		select {
		case <-c.ended:
			s.release(c)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// connOrAttempt returns the connection for u. If there is none, it returns the attempt to open one, which it begins
// with open, or an attempt under way for another user.
func (s *slot) connOrAttempt(u user, open connector) (*connection, *attempt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil && !s.conn.isFor(u) {
		if err := s.retire(); err != nil {
			return nil, nil, err
		}
	}
	wait := time.Until(s.notBefore)
	switch {
	case s.conn != nil:
		return s.conn, nil, nil
	case s.closed:
		return nil, nil, errSlotClosed
	case s.attempt != nil:
		return nil, s.attempt, nil
	case wait > 0:
		message := fmt.Sprintf("the upstream keeps exiting; next attempt in %v", wait.Round(time.Millisecond))
		return nil, nil, wire.Internal(wire.ReasonUnavailable, message)
	}
	a := &attempt{user: u, done: make(chan struct{})}
	if !s.g.background(func() { s.try(a, open) }) {
		return nil, nil, errClosed
	}
	s.attempt = a
	return nil, a, nil
}

// try opens a connection.
func (s *slot) try(a *attempt, open connector) {
	message := "the upstream was not initialized within " + s.g.up.StartTimeout.String() +
		" (--start-timeout, or start_timeout in the configuration)"
	late := wire.Internal(wire.ReasonUnavailable, message)
	ctx, cancel := context.WithTimeoutCause(s.g.life, s.g.up.StartTimeout, late)
	defer cancel()
	a.conn, a.err = open(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(a.done)
	s.attempt = nil
	if a.err == nil && s.closed {
		a.conn.link.Close()
		a.err = reprise.ErrEnded
	}
	if a.err != nil {
		a.conn = nil
		s.countFailure()
		s.g.opts.Logger.Warn("no connection to an MCP upstream", "upstream", s.g.up.Name, "error", a.err)
		return
	}
	s.conn = a.conn
	s.g.background(func() { s.awaitEnd(a.conn) })
}

// countFailure counts a failure. After the first one another attempt may begin at once.
func (s *slot) countFailure() {
	s.fails++
	if s.fails > 1 {
		s.notBefore = time.Now().Add(min(pauseFirst<<min(s.fails-2, 10), pauseMax))
	}
}

// awaitEnd waits for the end of the connection and answers the calls that are under way then.
func (s *slot) awaitEnd(c *connection) {
	<-c.ended
	s.release(c)
	if c.link.Lost() {
		s.g.opts.Logger.Warn("an MCP upstream has ended", "upstream", s.g.up.Name, "error", c.link.Err())
	}
	c.failCalls()
}

// release makes the slot free for another connection after c, which has ended. It may be called again.
func (s *slot) release(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = slices.DeleteFunc(s.retired, func(old *connection) bool { return old == c })
	if s.conn != c {
		return
	}
	s.conn = nil
	if c.link.Lost() && time.Since(c.opened) < soon {
		s.countFailure()
	} else {
		s.fails = 0
	}
}

// close ends the connection and has connect return errSlotClosed.
func (s *slot) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, c := range s.all() {
		c.link.Close()
	}
}

// maxRetired bounds the connections of a slot with credentials that were replaced while calls are under way.
const maxRetired = 2

// retire makes room for a connection with another credential. Calls under way continue over the old one. The caller
// holds mu.
func (s *slot) retire() error {
	switch {
	case s.g.up.KeepsState:
		message := "what the upstream is called with for you has changed; begin a new session"
		return wire.Internal(wire.ReasonLost, message)
	case len(s.retired) >= maxRetired:
		message := "what the upstream is called with for you changes too often while calls are under way"
		return wire.Internal(wire.ReasonLimit, message)
	}
	old := s.conn
	s.conn, s.retired = nil, append(s.retired, old)
	old.calls.whenIdle(old.link.Close)
	return nil
}

// connections returns the connection, and those with another credential that have calls under way.
func (s *slot) connections() []*connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all()
}

// all is connections. The caller holds mu.
func (s *slot) all() []*connection {
	all := slices.Clone(s.retired)
	if s.conn != nil {
		all = append(all, s.conn)
	}
	return all
}

// closeIfIdle closes the slot if its connection was unused for idle or if there is none, and reports whether it did.
func (s *slot) closeIfIdle(idle time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.attempt != nil || len(s.retired) > 0:
		return false
	case s.conn == nil:
		if time.Now().Before(s.notBefore) {
			return false
		}
	default:
		if since, unused := s.conn.calls.idleSince(); !unused || time.Since(since) < idle {
			return false
		}
		s.conn.link.Close()
	}
	s.closed = true
	return true
}
