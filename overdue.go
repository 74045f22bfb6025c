package reprise

import (
	"context"
	"slices"
)

// overdue is a call that found no room in the waiting group.
type overdue struct {
	call  *call
	group chan *group // of size 1; receives the group that has the call
}

// queue makes c one of the calls of the group after g. It returns nil if g is not waiting any more.
func (m *committer) queue(g *group, c *call) *overdue {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting.Load() != g {
		return nil
	}
	o := &overdue{call: c, group: make(chan *group, 1)}
	m.overdue = append(m.overdue, o)
	return o
}

// outwait waits for the group of o, and then with it.
func (m *committer) outwait(ctx context.Context, o *overdue) error {
	select {
	case g := <-o.group:
		return m.stay(ctx, g, o.call)
	case <-ctx.Done():
	}
	m.mu.Lock()
	at := slices.Index(m.overdue, o)
	if at >= 0 {
		m.overdue = slices.Delete(m.overdue, at, at+1)
	}
	m.mu.Unlock()
	if at < 0 {
		return m.stay(ctx, <-o.group, o.call)
	}
	return context.Cause(ctx)
}

// seat makes the next group of the overdue calls, as far as there is room. The caller holds mu.
func (m *committer) seat() {
	if len(m.overdue) == 0 {
		return
	}
	g := m.newGroup(m.overdue[0].call)
	n := 1
	for n < len(m.overdue) {
		if added, _ := g.add(m.overdue[n].call); !added {
			break
		}
		n++
	}
	for _, o := range m.overdue[:n] {
		o.group <- g
	}
	m.overdue = slices.Delete(m.overdue, 0, n)
	m.waiting.Store(g)
}
