package execution

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/wire"
)

// Session summarizes the executions of one session. A session exists while one of them is kept.
type Session struct {
	client.Session
	// Executions is set only by Host.Session, the newest first.
	Executions []Execution `json:"executions,omitempty"`
}

// SessionPage is the answer of Host.Sessions.
type SessionPage struct {
	Sessions []Session
	// Next is "" on the last page.
	Next string
}

// SessionQuery selects sessions of a tenant.
type SessionQuery struct {
	// Limit is the most sessions to return, 1 to 1,000; 0 is 100.
	Limit int
	// After is SessionPage.Next of the page before.
	After string
	// Allowed reports whether a session may be listed. Default: all.
	Allowed func(session string) bool
}

// Sessions returns the sessions of a tenant, the one with the newest execution first. The error is reprise.ErrInvalid
// for an invalid limit or After.
func (h *Host) Sessions(ctx context.Context, tenant reprise.Tenant, q SessionQuery) (SessionPage, error) {
	limit, after := q.Limit, q.After
	if limit == 0 {
		limit = defaultLimit
	}
	if limit < 0 || limit > maxLimit {
		return SessionPage{}, invalid("limit", "is 1 to %d", maxLimit)
	}
	from, err := parseSessionCursor(after)
	if err != nil {
		return SessionPage{}, err
	}
	byID := map[string]*Session{}
	_, err = h.each(ctx, tenant, func(x *Execution) bool {
		if x.Session != "" && (q.Allowed == nil || q.Allowed(x.Session)) {
			s := byID[x.Session]
			if s == nil {
				s = &Session{}
				s.ID = x.Session
				byID[x.Session] = s
			}
			s.add(x)
		}
		return false
	})
	if err != nil {
		return SessionPage{}, err
	}
	var page SessionPage
	for _, s := range byID {
		if after == "" || compareSessions(s, from) > 0 {
			page.Sessions = append(page.Sessions, *s)
		}
	}
	slices.SortFunc(page.Sessions, func(a, b Session) int { return compareSessions(&a, &b) })
	if len(page.Sessions) > limit {
		page.Sessions = page.Sessions[:limit]
		last := page.Sessions[limit-1]
		page.Next = strconv.FormatInt(last.Updated.UnixMilli(), 10) + "." + last.ID
	}
	return page, nil
}

// compareSessions puts the newer first.
func compareSessions(a, b *Session) int {
	return cmp.Or(b.Updated.Compare(a.Updated.Time), cmp.Compare(a.ID, b.ID))
}

// parseSessionCursor reads "<updated, ms>.<id>".
func parseSessionCursor(after string) (*Session, error) {
	if after == "" {
		return nil, nil // from the first one on
	}
	number, id, ok := strings.Cut(after, ".")
	at, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil {
		return nil, fmt.Errorf("%w: the cursor is not one of this list", reprise.ErrInvalid)
	}
	var s Session
	s.ID, s.Updated = id, wire.At(time.UnixMilli(at))
	return &s, nil
}

func (s *Session) add(x *Execution) {
	if s.Count == 0 || x.Created.Before(s.Created.Time) {
		s.Created = x.Created
	}
	if x.Created.After(s.Updated.Time) {
		s.Updated = x.Created
	}
	s.Count++
	s.LastSeq = max(s.LastSeq, x.tail)
	switch x.Status {
	case StatusQueued:
		s.Queued++
	case StatusRunning:
		s.Running++
	case StatusEnded:
	}
}

// Session returns one session with its executions. The error is reprise.ErrNotFound
// if it has none.
func (h *Host) Session(ctx context.Context, tenant reprise.Tenant, id string) (Session, error) {
	in := inSession(id)
	found, err := h.each(ctx, tenant, in)
	if err != nil {
		return Session{}, err
	}
	if len(found) == 0 {
		return Session{}, reprise.ErrNotFound
	}
	var s Session
	s.ID = id
	for i := range found {
		s.add(&found[i])
	}
	s.Executions = h.withWindows(ctx, tenant, in, found)
	return s, nil
}

// inSession reports whether an execution is in the session.
func inSession(id string) func(*Execution) bool {
	return func(x *Execution) bool { return id != "" && x.Session == id }
}

// RemoveSession removes all executions of a session, as Remove does. It blocks until those
// that run have ended. Removing a session that has none does nothing.
func (h *Host) RemoveSession(ctx context.Context, tenant reprise.Tenant, id string) error {
	found, err := h.each(ctx, tenant, inSession(id))
	var cancelling sync.WaitGroup
	for i := range found { // first all are cancelled, so that their times of grace pass together
		if found[i].Status != StatusEnded {
			cancelling.Go(func() { _ = h.Cancel(ctx, tenant, found[i].ID) }) // Remove returns the error
		}
	}
	cancelling.Wait()
	for i := range found {
		err = errors.Join(err, h.Remove(ctx, tenant, found[i].ID))
	}
	return err
}
