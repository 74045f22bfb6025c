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
	// firstPatience is how long a list waits for a member that has never answered it. knownPatience is how long it
	// waits for a member whose items are known, or whose request was already under way. The member may answer later.
	firstPatience, knownPatience = 10 * time.Second, time.Second
	// askPatience is how long a member may take to answer before the request is repeated.
	askPatience = time.Minute
	// announcedAge is how long the list of a member is valid if the member announces changes. unannouncedAge applies to
	// other members.
	announcedAge, unannouncedAge = 5 * time.Minute, 5 * time.Second
)

// known is a list of a member as it was last. The member's mu guards it.
type known struct {
	items   []json.RawMessage
	from    *session // that has given them, nil if none has
	at      time.Time
	changes uint64  // the number of changes that the member had announced when it was asked
	asking  *asking // the request under way, or nil
}

// asking is a request for a list. It continues even if nobody waits for it.
type asking struct {
	done    chan struct{}
	changes uint64
	late    bool // a list was given without its answer
}

// list returns the items of a member, with its name in front of theirs. It returns the known items if they are recent
// and no change was announced since, and otherwise the answer of the member. If the member is unavailable or slow, list
// returns the last known items; if the member answers later, the client is notified that the list has changed.
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
		m.l.opts.Logger.Warn("a merged MCP upstream does not return a list; its last known list is used",
			"member", m.Name, "method", method, "items", len(k.items))
	}
	return k.items
}

// isFresh reports whether a list is still valid. The caller holds the member's mu.
func (k *known) isFresh(s *session, kind *listKind, changes uint64) bool {
	age := unannouncedAge
	if s.announces(kind.capability) {
		age = announcedAge
	}
	return k.from == s && k.changes == changes && time.Since(k.at) < age
}

// announces reports whether a member announces changes of its lists of a kind.
func (s *session) announces(capability string) bool {
	return string(wire.Members(s.capability(capability))["listChanged"]) == "true"
}

// beginAsking requests a list in the background. The caller holds mu.
func (m *member) beginAsking(s *session, k *known, method string, kind *listKind) *asking {
	a := &asking{done: make(chan struct{}), changes: m.changes[kind.capability]}
	k.asking = a
	if !m.l.run(func() { m.ask(s, k, a, method, kind) }) {
		k.asking = nil
		close(a.done)
	}
	return a
}

// ask requests a list, and notifies the client if the answer is late and different.
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

// noteChange records that a member has announced a change of its lists, before the client is notified.
func (m *member) noteChange(capability string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changes[capability]++
}
