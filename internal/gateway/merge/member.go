package merge

import (
	"context"
	"fmt"
	"sync"
	"time"

	"reprise/internal/gateway/wire"
)

// member is the state of a Member.
type member struct {
	Member
	l *Link

	mu      sync.Mutex
	live    *session // nil while the member is unavailable
	attempt *attempt // the attempt to open a session, or nil
	// fails counts the attempts in a row that failed and the sessions that ended soon. No attempt begins before
	// notBefore.
	fails     int
	notBefore time.Time
	wanted    map[string]bool   // the resources, by its own URIs, that the client has subscribed to
	known     map[string]*known // by the method, its lists as they were last
	changes   map[string]uint64 // the number of announced changes of lists, by capability
}

// attempt is an attempt to make a session. done is closed when s and err are set.
type attempt struct {
	done chan struct{}
	s    *session
	err  error
}

const (
	// soon is the age before which the end of a session counts as a failure.
	soon = 5 * time.Second
	// pauseFirst is the time after the second failure, pauseMax the longest.
	pauseFirst, pauseMax = 250 * time.Millisecond, 30 * time.Second
)

func newMember(l *Link, m Member) *member {
	return &member{
		Member: m, l: l, wanted: map[string]bool{}, known: map[string]*known{}, changes: map[string]uint64{},
	}
}

// current returns the session, or nil while the member is unavailable.
func (m *member) current() *session {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.live
}

// connect returns the session, and opens one if there is none. The attempt continues when ctx ends, because other
// callers may wait for it.
func (m *member) connect(ctx context.Context) (*session, error) {
	s, a, err := m.sessionOrAttempt()
	if s != nil || err != nil {
		return s, err
	}
	select {
	case <-a.done:
		return a.s, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// sessionOrAttempt returns the session or, if there is none, the attempt to open one, which it begins if necessary.
func (m *member) sessionOrAttempt() (*session, *attempt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	wait := time.Until(m.notBefore)
	switch {
	case m.Refused != nil:
		return nil, nil, m.Refused
	case m.live != nil && !m.live.link.Ending():
		return m.live, nil, nil
	case m.attempt != nil:
		return nil, m.attempt, nil
	case wait > 0:
		return nil, nil, m.away(fmt.Sprintf("next attempt in %v", wait.Round(time.Millisecond)))
	}
	a := &attempt{done: make(chan struct{})}
	if !m.l.run(func() { m.try(a) }) {
		return nil, nil, errClosed
	}
	m.attempt = a
	return nil, a, nil
}

// away returns the error of a request for an unavailable member.
func (m *member) away(why string) *wire.Failure {
	message := fmt.Sprintf("the upstream %s is away; the request was not carried out (%s)", m.Name, why)
	return wire.Internal(wire.ReasonUnavailable, message)
}

// try opens a session.
func (m *member) try(a *attempt) {
	ctx, cancel := context.WithTimeout(m.l.life, m.l.opts.StartTimeout)
	defer cancel()
	s, err := m.greet(ctx)
	if err == nil && m.l.initialized.Load() {
		s.becomeInitialized(ctx)
	}
	m.mu.Lock()
	m.attempt = nil
	if err != nil {
		a.err = m.away(err.Error())
		m.countFailure()
	} else {
		a.s, m.live = s, s
		if s.up = !s.over; s.up {
			m.l.opts.Up(m.Name)
		}
	}
	m.mu.Unlock()
	close(a.done)
	switch {
	case m.l.Ending():
		if s != nil {
			s.link.Close()
		}
	case err != nil:
		m.l.opts.Logger.Warn("a merged MCP upstream is unavailable", "member", m.Name, "error", err)
		m.revive()
	default:
		s.begin(ctx)
	}
}

// countFailure counts a failure. After the first one another attempt may begin at once.
func (m *member) countFailure() {
	m.fails++
	if m.fails > 1 {
		m.notBefore = time.Now().Add(min(pauseFirst<<min(m.fails-2, 10), pauseMax))
	}
}

// release forgets a session whose link has ended, and makes another one.
func (m *member) release(s *session) {
	m.mu.Lock()
	if s.over = true; s.up {
		m.l.opts.Down(m.Name, s.link.Lost())
	}
	if m.live != s {
		m.mu.Unlock()
		return
	}
	m.live = nil
	if s.link.Lost() && time.Since(s.opened) < soon {
		m.countFailure()
	} else {
		m.fails = 0
	}
	m.mu.Unlock()
	if m.l.Ending() {
		return
	}
	m.l.opts.Logger.Warn("a merged MCP upstream has ended", "member", m.Name,
		"error", s.link.Err())
	m.revive()
}

// revive opens a session in the background as soon as another attempt is allowed.
func (m *member) revive() {
	m.mu.Lock()
	wait := time.Until(m.notBefore)
	m.mu.Unlock()
	m.l.run(func() {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
			_, _ = m.connect(m.l.life) // a failure has begun the next wait
		case <-m.l.life.Done():
		}
	})
}
