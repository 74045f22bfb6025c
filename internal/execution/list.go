package execution

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"reprise"
	"reprise/internal/listing"
	"reprise/internal/memo"
)

// ListQuery selects executions of a tenant.
type ListQuery struct {
	// Session, Status and Labels, where they are given, must all match.
	Session string
	Status  string
	Labels  map[string]string
	// Allowed reports whether the executions of a session may be listed; "" stands for executions without a session.
	// Default: all.
	Allowed func(session string) bool
	// Limit is the most executions to return, 1 to 1,000; 0 is 100.
	Limit int
	// After is ListPage.Next of the page before.
	After string
}

// ListPage is the answer of Host.List.
type ListPage struct {
	Executions []Execution
	// Next is "" on the last page.
	Next string
}

const (
	defaultLimit = 100
	maxLimit     = 1000
	// maxPageBytes ends a page early: an execution may have 84 kB of labels and request.
	maxPageBytes = 4 << 20
)

// List returns executions, the newest first, and then those that are only remembered. A page may have fewer than
// q.Limit even if there are more. The error is reprise.ErrInvalid for an invalid limit, status or After. A search for a
// rare session or label reads the whole list.
func (h *Host) List(ctx context.Context, tenant reprise.Tenant, q ListQuery) (ListPage, error) {
	if q.Limit == 0 {
		q.Limit = defaultLimit
	}
	if q.Limit < 0 || q.Limit > maxLimit {
		return ListPage{}, invalid("limit", "is 1 to %d", maxLimit)
	}
	switch q.Status {
	case "", StatusQueued, StatusRunning, StatusEnded:
	default:
		return ListPage{}, invalid("status", "%q is not one of %s, %s and %s",
			q.Status, StatusQueued, StatusRunning, StatusEnded)
	}
	if below, ok := strings.CutPrefix(q.After, ranCursor); ok {
		return h.listExpired(ctx, tenant, &q, ListPage{}, below)
	}
	page, size := ListPage{Next: q.After}, int64(0)
	of := q.streams(tenant)
	match := func(info *reprise.StreamInfo) (Execution, bool) {
		x := h.view(info, h.find(info.Key))
		return x, q.matches(&x)
	}
	for {
		of.After = page.Next
		part, next, err := listing.Part(ctx, h.log, of, q.Limit-len(page.Executions), match)
		if err != nil {
			return ListPage{}, err
		}
		part = h.withWindows(ctx, tenant, q.matches, part)
		for i := range part {
			size += part[i].size
		}
		page.Executions, page.Next = append(page.Executions, part...), next
		if next == "" || len(page.Executions) >= q.Limit || size >= maxPageBytes {
			break
		}
	}
	if q.Allowed != nil {
		var err error
		if page.Next, err = listing.Continued(ctx, h.log, of, page.Next, match); err != nil {
			return ListPage{}, err
		}
	}
	if page.Next == "" {
		return h.listExpired(ctx, tenant, &q, page, "")
	}
	return page, nil
}

const (
	// ranCursor begins the cursors of executions that are only remembered.
	ranCursor = "ran."
	// ranStep is the number of records that are read at a time.
	ranStep = 256
)

// listExpired adds executions that are only remembered to a page, those that ended last before the others. below is the
// seq in the journal before which they are, or "".
func (h *Host) listExpired(ctx context.Context, tenant reprise.Tenant, q *ListQuery, page ListPage, below string) (
	ListPage, error,
) {
	// Labels are not remembered.
	if !h.names.remembers() || q.Status != "" && q.Status != StatusEnded || len(q.Labels) > 0 {
		return page, nil
	}
	s, info, err := lookUp(ctx, h.log, h.names.journal(tenant))
	switch {
	case err != nil:
		return ListPage{}, err
	case s == nil:
		return page, nil
	}
	next := info.Tail + 1
	if below != "" {
		n, err := strconv.ParseUint(below, 10, 63)
		if err != nil {
			return ListPage{}, fmt.Errorf("%w: the cursor is not one of this list", reprise.ErrInvalid)
		}
		next = min(next, n)
	}
	for next > info.Earliest {
		first := max(info.Earliest, next-min(next, ranStep))
		var events []reprise.Event
		err := memo.Each(ctx, s, first, next-1, func(e *reprise.Event) {
			events = append(events, *e)
		})
		if err != nil {
			return ListPage{}, err
		}
		for _, e := range slices.Backward(events) {
			x, ok, err := h.onlyRemembered(ctx, tenant, q, &e)
			switch {
			case err != nil:
				return ListPage{}, err
			case ok && len(page.Executions) == q.Limit:
				page.Next = ranCursor + strconv.FormatUint(e.Seq+1, 10)
				return page, nil
			case ok:
				page.Executions = append(page.Executions, x)
			}
		}
		next = first
	}
	return page, nil
}

// onlyRemembered returns the execution of a record in the journal if it is in the list, and no longer kept.
func (h *Host) onlyRemembered(ctx context.Context, tenant reprise.Tenant, q *ListQuery, e *reprise.Event) (
	x Execution, ok bool, err error,
) {
	r, ok := parseRecord(e)
	if x = r.execution(); !ok || h.names.IsPast(e) || !q.matches(&x) {
		return x, false, nil
	}
	found := recall{key: reprise.StreamKey{Tenant: tenant, Name: r.name}}
	if s, _, err := lookUp(ctx, h.log, found.key); s != nil || err != nil {
		return x, false, err
	}
	err = h.names.recall(ctx, &found)
	return x, err == nil && found.found != nil && found.found.Life == r.Life, err
}

// streams selects the streams of executions that may match.
func (q *ListQuery) streams(tenant reprise.Tenant) reprise.ListQuery {
	of := reprise.ListQuery{Tenant: tenant, Namespace: Namespace, Labels: map[string]string{}}
	of.Open = q.Status == StatusQueued || q.Status == StatusRunning
	for k, v := range q.Labels {
		of.Labels[labelPrefix+k] = v
	}
	if q.Session != "" {
		of.Labels[labelSession] = q.Session
	}
	if q.Allowed == nil {
		of.Limit = q.Limit // most of them match
	}
	return of
}

func (q *ListQuery) matches(x *Execution) bool {
	if q.Allowed != nil && !q.Allowed(x.Session) {
		return false
	}
	if q.Session != "" && x.Session != q.Session || q.Status != "" && x.Status != q.Status {
		return false
	}
	for k, v := range q.Labels {
		if has, ok := x.Labels[k]; !ok || has != v {
			return false
		}
	}
	return true
}

// Select returns all executions of a tenant that are kept and match, the newest first.
func (h *Host) Select(ctx context.Context, tenant reprise.Tenant, match func(*Execution) bool) ([]Execution, error) {
	found, err := h.each(ctx, tenant, match)
	if err != nil {
		return nil, err
	}
	return h.withWindows(ctx, tenant, match, found), nil
}

// each is Select without the fields that a list does not contain.
func (h *Host) each(ctx context.Context, tenant reprise.Tenant, match func(*Execution) bool) (
	found []Execution, err error,
) {
	query := reprise.ListQuery{Tenant: tenant, Namespace: Namespace}
	err = eachStream(ctx, h.log, query, func(info *reprise.StreamInfo) error {
		if x := h.view(info, h.find(info.Key)); match(&x) {
			found = append(found, x)
		}
		return nil
	})
	return found, err
}

// withWindows looks up the found executions again for the fields that a list does not contain. It drops those that are
// gone or no longer match.
func (h *Host) withWindows(ctx context.Context, tenant reprise.Tenant, match func(*Execution) bool, found []Execution) (
	kept []Execution,
) {
	kept = found[:0]
	far := map[string][]int{} // indexes in kept, by the replica that runs them
	for _, x := range found {
		shown, owner, err := h.look(ctx, tenant, x.ID)
		switch {
		case err == nil && match(&shown):
			if owner != "" {
				far[owner] = append(far[owner], len(kept))
			}
			kept = append(kept, shown)
		case err != nil && !errors.Is(err, reprise.ErrNotFound) && !errors.Is(err, reprise.ErrExpired):
			kept = append(kept, x)
		}
	}
	h.showFar(ctx, tenant, kept, far)
	return kept
}

// showFar fills in the progress of executions that other replicas run, with one request to each replica.
func (h *Host) showFar(ctx context.Context, tenant reprise.Tenant, list []Execution, far map[string][]int) {
	var asking sync.WaitGroup
	for owner, indexes := range far {
		asking.Go(func() {
			keys := make([]reprise.StreamKey, len(indexes))
			for i, at := range indexes {
				keys[i] = keyOf(tenant, list[at].ID)
			}
			if p, err := h.progressOf(ctx, owner, keys...); err == nil {
				for i, at := range indexes {
					list[at].show(p[i])
				}
			}
		})
	}
	asking.Wait()
}
