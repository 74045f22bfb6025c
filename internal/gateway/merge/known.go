package merge

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"reprise/internal/gateway/wire"
)

const (
	// firstPatience is how long a list waits for a member that has never answered with that list, and knownPatience for
	// one whose items are known, or that is being asked since before the list. The member may answer later.
	firstPatience, knownPatience = 10 * time.Second, time.Second
	// askPatience is how long a member may take to answer until it is asked again.
	askPatience = time.Minute
	// announcedAge is how long the list of a member counts that says when its lists change, and unannouncedAge that of
	// one that does not.
	announcedAge, unannouncedAge = 5 * time.Minute, 5 * time.Second
)

// known is a list of a member as it was last. The member's mu guards it.
type known struct {
	items   []json.RawMessage
	from    *session // that has given them, nil if none has
	at      time.Time
	changes uint64  // how many changes the member had announced when it was asked
	asking  *asking // the request under way, nil if there is none
}

// asking is a request for a list, which goes on when nobody waits for it any more.
type asking struct {
	done    chan struct{}
	changes uint64
	late    bool // a list was given without its answer
}

// list returns the items of a member, with its name in front of theirs: as they are known, if no change was announced
// since and they are not old, and otherwise as the member answers. Of one that is away, or that does not answer soon,
// they are as they were last known; if it answers later, the client is told that the list has changed.
func (m *member) list(method string, kind *listKind) []json.RawMessage {
	s := m.current()
	if s != nil && !s.offers(kind.capability) {
		return nil
	}
	m.mu.Lock()
	k := m.known[method]
	if k == nil {
		k = &known{}
		m.known[method] = k
	}
	if s == nil || k.isFresh(s, kind, m.changes[kind.capability]) {
		defer m.mu.Unlock()
		return k.items
	}
	patience := firstPatience
	if k.from != nil || k.asking != nil && k.asking.late {
		patience = knownPatience
	}
	a := k.asking
	if a == nil {
		a = m.beginAsking(s, k, method, kind)
	}
	m.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-a.done:
	case <-timer.C:
	case <-m.l.life.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if k.asking == a && !a.late {
		a.late = true
		m.l.opts.Logger.Warn("an MCP upstream that is merged with others does not answer with a list; it is listed as it was",
			"member", m.Name, "method", method, "items", len(k.items))
	}
	return k.items
}

// isFresh reports whether a list need not be asked for again. The caller holds the member's mu.
func (k *known) isFresh(s *session, kind *listKind, changes uint64) bool {
	age := unannouncedAge
	if s.announces(kind.capability) {
		age = announcedAge
	}
	return k.from == s && k.changes == changes && time.Since(k.at) < age
}

// announces reports whether a member says when its lists of a kind change.
func (s *session) announces(capability string) bool {
	return string(wire.Members(s.capability(capability))["listChanged"]) == "true"
}

// beginAsking asks for a list in the background. The caller holds mu.
func (m *member) beginAsking(s *session, k *known, method string, kind *listKind) *asking {
	a := &asking{done: make(chan struct{}), changes: m.changes[kind.capability]}
	k.asking = a
	if !m.l.run(func() { m.ask(s, k, a, method, kind) }) {
		k.asking = nil
		close(a.done)
	}
	return a
}

// ask asks for a list, and tells the client of one that comes late and is another.
func (m *member) ask(s *session, k *known, a *asking, method string, kind *listKind) {
	ctx, cancel := context.WithTimeout(m.l.life, askPatience)
	defer cancel()
	items, ok := s.pages(ctx, method, kind)
	for i, item := range items {
		items[i] = wire.Edit(item, func(fields map[string]json.RawMessage) {
			fields[kind.key] = wire.Compact(m.Name + kind.separator + wire.Text(item, kind.key))
		})
	}
	m.mu.Lock()
	k.asking = nil
	same := func(x, y json.RawMessage) bool { return bytes.Equal(x, y) }
	tell := ok && a.late && !slices.EqualFunc(k.items, items, same)
	if ok {
		k.items, k.from, k.at, k.changes = items, s, time.Now(), a.changes
	}
	m.mu.Unlock()
	close(a.done)
	if tell && m.l.initialized.Load() {
		m.l.to.Receive(wire.Notification("notifications/"+kind.capability+"/list_changed", nil), 0)
	}
}

// noteChange notes that a member has announced a change of its lists, before the client is told.
func (m *member) noteChange(capability string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changes[capability]++
}
