package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"reprise"
)

// errDead is the reason for the end of a life of this replica that others declared dead.
var errDead = fmt.Errorf("%w: this replica was taken for dead and joins again", reprise.ErrUnavailable)

// run lives one life after the other.
func (m *Member) run() {
	for {
		lf := m.current()
		if lf == nil || !m.beatUntilDead(lf) {
			return
		}
		m.bury(lf)
		for {
			err := m.begin(m.ctx)
			if err == nil {
				break
			}
			m.opts.Logger.Warn("cannot join again", "error", err)
			if !sleep(m.ctx, m.opts.Beat) {
				return
			}
		}
		m.tell(func(w *Watch) func(string) { return w.Joined }, m.Name())
	}
}

// beatUntilDead sends heartbeats. It returns true when this replica was taken for dead or has lost its streams, false
// when it is closed.
func (m *Member) beatUntilDead(lf *life) bool {
	failing := false
	for {
		_, err := lf.beats.Append(lf.ctx, reprise.Event{Type: "beat"})
		pause := m.opts.Beat
		switch {
		case err == nil:
			m.mu.Lock()
			m.lastBeat = time.Now()
			m.mu.Unlock()
		case m.ctx.Err() != nil || errors.Is(err, reprise.ErrClosed):
			return false
		case isGone(err) || lf.ctx.Err() != nil:
			return true
		default:
			pause /= 4
			m.mu.Lock()
			m.lostBeat = time.Now()
			m.mu.Unlock()
			if !failing {
				m.opts.Logger.Warn("a beat cannot be kept", "replica", lf.name, "error", err)
			}
		}
		failing = err != nil
		if !sleep(lf.ctx, pause) {
			return m.ctx.Err() == nil
		}
	}
}

// bury ends a life that others have ended.
func (m *Member) bury(lf *life) {
	m.mu.Lock()
	if m.life == lf {
		m.life = nil
	}
	if p := m.peers[lf.name]; p != nil {
		p.gone = true // Watches get Fenced instead
	}
	m.mu.Unlock()
	lf.end(errDead)
	m.opts.Logger.Error("this replica was taken for dead", "replica", lf.name, "ttl", m.opts.TTL)
	m.tell(func(w *Watch) func(string) { return w.Fenced }, lf.name)
	ctx, cancel := context.WithTimeout(m.ctx, m.opts.Beat)
	defer cancel()
	// A replica that has ended one of them has ended the other too, unless it died in between.
	for _, s := range []*reprise.Stream{lf.beats, lf.inbox} {
		if err := m.endStream(ctx, s.Key(), outcomeLost); err != nil {
			m.opts.Logger.Warn("a stream of a replica has no end", "stream", s.Key().Name, "error", err)
		}
	}
}
