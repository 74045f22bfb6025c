package mcptask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"reprise"
	"reprise/internal/listing"
)

// TaskInfo describes a task to operators of the server.
type TaskInfo struct {
	ID string
	// Tool is the tool whose call became the task, Principal the one who called it.
	Tool, Principal string
	Status          Status
	// Message is what the handler, or the end, says in a few words.
	Message string
	// Created is when the task began, and Updated when it changed last.
	Created, Updated time.Time
	// Expires is when the task may be removed. It is zero before the end.
	Expires time.Time
	// CancelRequested is true if tasks/cancel or Cancel was called, even if the handler continues.
	CancelRequested bool
	// Note is the last value of Note, or nil.
	Note json.RawMessage
}

// TaskQuery selects tasks of a tenant.
type TaskQuery struct {
	// Allowed reports whether the tasks of a principal may be listed. Default: all.
	Allowed func(principal string) bool
	// Limit is the maximum number of tasks, 1 to 1,000. Default: 100.
	Limit int
	// After is TaskPage.Next of the previous page.
	After string
}

// TaskPage is a page of tasks, the newest first.
type TaskPage struct {
	Tasks []TaskInfo
	// Next is for the next page, "" if this is the last one.
	Next string
}

const (
	defaultLimit = 100
	maxLimit     = 1000
)

// List lists the tasks of a tenant, including those that have ended and are kept. The error is reprise.ErrInvalid for
// an invalid limit or After, or comes from the Log. A search for the tasks of few principals reads the whole list.
func (t *Tasks) List(ctx context.Context, tenant reprise.Tenant, q TaskQuery) (TaskPage, error) {
	if q.Limit == 0 {
		q.Limit = defaultLimit
	}
	if q.Limit < 0 || q.Limit > maxLimit {
		return TaskPage{}, fmt.Errorf("%w: the limit is 1 to %d", reprise.ErrInvalid, maxLimit)
	}
	page := TaskPage{Tasks: []TaskInfo{}, Next: q.After}
	of := reprise.ListQuery{Tenant: tenant, Namespace: t.namespace}
	for {
		of.After = page.Next
		ids, next, err := listing.Part(ctx, t.log, of, q.Limit-len(page.Tasks), t.matching(&q))
		if err != nil {
			return TaskPage{}, err
		}
		for _, id := range ids {
			task, err := t.Show(ctx, tenant, id)
			switch {
			case err == nil:
				page.Tasks = append(page.Tasks, task)
			case !isOver(err): // removed since it was listed
				return TaskPage{}, err
			}
		}
		if page.Next = next; next == "" || len(page.Tasks) >= q.Limit {
			break
		}
	}
	var err error
	page.Next, err = listing.Continued(ctx, t.log, of, page.Next, t.matching(&q))
	return page, err
}

// matching returns a function that gives the id of the task of a stream, and whether it may be listed.
func (t *Tasks) matching(q *TaskQuery) func(*reprise.StreamInfo) (string, bool) {
	return func(info *reprise.StreamInfo) (string, bool) {
		var meta taskMeta
		ok := json.Unmarshal(info.Config.Meta, &meta) == nil && (q.Allowed == nil || q.Allowed(meta.Principal))
		return info.Key.Name[len(t.namespace):], ok
	}
}

// Show describes a task. The error is reprise.ErrNotFound or reprise.ErrExpired if the tenant has no such task, or
// comes from the Log.
func (t *Tasks) Show(ctx context.Context, tenant reprise.Tenant, id string) (TaskInfo, error) {
	stream, err := t.streamOf(ctx, tenant, id)
	if err != nil {
		return TaskInfo{}, err
	}
	return t.describe(ctx, stream)
}

func (t *Tasks) streamOf(ctx context.Context, tenant reprise.Tenant, id string) (*reprise.Stream, error) {
	if !isID(id) {
		return nil, reprise.ErrNotFound
	}
	return t.log.Stream(ctx, t.key(tenant, id))
}

// Cancel asks the handler of a task to stop, as tasks/cancel of its client does. It does not wait, and does nothing if
// the task has ended. It returns the same errors as Show.
func (t *Tasks) Cancel(ctx context.Context, tenant reprise.Tenant, id string) error {
	stream, err := t.streamOf(ctx, tenant, id)
	if err != nil {
		return err
	}
	v, err := read(ctx, stream, id)
	if err != nil {
		return err
	}
	if err := cancel(ctx, found{v, stream}); !errors.Is(err, reprise.ErrEnded) {
		return err
	}
	return nil
}

// describedEvents is the maximum number of events that describe reads, the newest. A state repeats what was said
// before, so older events add nothing: a question that is open for longer is in the last state.
const describedEvents = 256

// describe reads the newest events of a task.
func (t *Tasks) describe(ctx context.Context, stream *reprise.Stream) (TaskInfo, error) {
	id := stream.Key().Name[len(t.namespace):]
	var v *view
	var err error
	for range readTries {
		if v, err = readNewest(ctx, stream, id, describedEvents); !isOutside(err) {
			break
		}
	}
	switch {
	case err != nil:
		return TaskInfo{}, err
	case v.isExpired():
		return TaskInfo{}, reprise.ErrExpired
	}
	w := v.wire()
	return TaskInfo{
		ID: id, Tool: v.meta.Tool, Principal: v.meta.Principal, Status: w.Status, Message: w.StatusMessage,
		Created: v.created, Updated: v.updated, Expires: v.expires, CancelRequested: v.cancel, Note: v.state.Note,
	}, nil
}

// readNewest reads at most n events of a task, the newest.
func readNewest(ctx context.Context, stream *reprise.Stream, id string, n uint64) (*view, error) {
	info, err := stream.Info(ctx)
	if err != nil {
		return nil, err
	}
	at := reprise.Earliest()
	if info.Tail > n && info.Tail-n >= info.Earliest {
		at = reprise.After(stream.CursorIn(info.Epoch, info.Tail-n))
	}
	return readFrom(ctx, stream, at, id)
}

// isOutside reports whether a position was no longer in the window.
func isOutside(err error) bool {
	_, ok := errors.AsType[*reprise.WindowError](err)
	return ok
}
