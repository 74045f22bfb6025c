package execution

import (
	"context"
	"errors"
	"sync"

	"reprise"
	"reprise/internal/listing"
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
	// maxPageBytes ends a page early: an execution may have 84 kB of labels and request.
	maxPageBytes = 4 << 20
)

// List returns executions, the newest first. A page may have fewer than q.Limit even if there are more. The error is
// reprise.ErrInvalid for an invalid limit, status or After. A search for a rare session or label reads the whole list.
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
	page, size := ListPage{Next: q.After}, int64(0)
	of := reprise.ListQuery{Tenant: tenant, Namespace: namespace}
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
		part = h.withWindows(ctx, tenant, &q, part)
		for i := range part {
			size += part[i].size
		}
		page.Executions, page.Next = append(page.Executions, part...), next
		if next == "" || len(page.Executions) >= q.Limit || size >= maxPageBytes {
			break
		}
	}
	if q.Allowed == nil {
		return page, nil
	}
	var err error
	page.Next, err = listing.Continued(ctx, h.log, of, page.Next, match)
	return page, err
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
