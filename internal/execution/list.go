package execution

import (
	"context"
	"errors"
	"sync"

	"reprise"
)

// ListQuery selects executions of a tenant.
type ListQuery struct {
	// Session, Status and Labels, where they are given, must all match.
	Session string
	Status  Status
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
)

// List returns executions, the newest first. The error is reprise.ErrInvalid for an invalid limit, status or After. A
// search for a rare session or label reads the whole list.
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
	page := ListPage{Next: q.After}
	for {
		room := q.Limit - len(page.Executions)
		part, next, err := h.listPart(ctx, tenant, &q, page.Next, room)
		if err != nil {
			return ListPage{}, err
		}
		page.Executions = append(page.Executions, part...)
		page.Next = next
		if next == "" || len(page.Executions) >= q.Limit {
			return page, h.endList(ctx, tenant, &q, &page)
		}
	}
}

// endList removes the cursor of a page that no allowed execution follows, since the cursor would reveal the existence
// of executions that are not allowed.
func (h *Host) endList(ctx context.Context, tenant reprise.Tenant, q *ListQuery, page *ListPage) error {
	if q.Allowed == nil {
		return nil
	}
	for next := page.Next; next != ""; {
		part, after, err := h.listPart(ctx, tenant, q, next, 1)
		if err != nil || len(part) > 0 {
			return err
		}
		next = after
	}
	page.Next = ""
	return nil
}

// listPart returns matches out of one page of the log, at most room of them. Where
// the page has more, it is read again as far as they fit, so that the next one begins there.
func (h *Host) listPart(ctx context.Context, tenant reprise.Tenant, q *ListQuery, after string, room int) (
	[]Execution, string, error,
) {
	query := reprise.ListQuery{Tenant: tenant, Namespace: namespace, After: after, Limit: maxLimit}
	for {
		page, err := h.log.List(ctx, query)
		if err != nil {
			return nil, "", err
		}
		var found []Execution
		fits := true
		for i := range page.Streams {
			info := &page.Streams[i]
			x := h.view(info, h.find(info.Key))
			if !q.matches(&x) {
				continue
			}
			if len(found) == room {
				query.Limit, fits = i, false
				break
			}
			found = append(found, x)
		}
		if fits {
			return h.withWindows(ctx, tenant, q, found), page.Next, nil
		}
	}
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

// withWindows looks up the found executions again for the fields that a list does not contain. It drops those that are
// gone or no longer match.
func (h *Host) withWindows(ctx context.Context, tenant reprise.Tenant, q *ListQuery, found []Execution) []Execution {
	kept := found[:0]
	far := map[string][]int{} // indexes in kept, by the replica that runs them
	for _, x := range found {
		shown, owner, err := h.look(ctx, tenant, x.ID)
		switch {
		case err == nil && q.matches(&shown):
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
