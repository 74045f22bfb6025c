package mcptask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
)

const (
	// inline is the longest result that stands in the end event; a longer one stands in parts before it.
	inline = 512 << 10
	part   = 512 << 10
	// maxResult is the longest result, in bytes of JSON. What carries it has a bound too.
	maxResult = 6 << 20
)

// producerID is the start of the ids of the idempotent producers that append the results of tasks.
const producerID = "result"

// producer is the id of the idempotent producer of this server, whose appends begin anew with each.
func (task *Task) producer() string { return producerID + strconv.FormatUint(task.takes, 10) }

// finish ends the task with what its handler has returned. It tries until that is kept, or Tasks are closed. It leaves
// a task open that another server continues.
func (task *Task) finish(ctx context.Context, result mcp.Result, err error) {
	t := task.tasks
	defer t.forget(task)
	cause := context.Cause(ctx)
	if gaveUp(result, err) && (errors.Is(cause, errTaken) || task.resumable && errors.Is(cause, reprise.ErrClosed)) {
		select {
		case t.left <- struct{}{}: // this process may be the one that resumes it
		default:
		}
		return
	}
	end, long := outcome(ctx, result, err)
	err = task.end(end, long)
	switch {
	case err == nil:
		if hook := t.opts.Hooks.Ended; hook != nil {
			hook(task.Tenant, end.Status)
		}
	case !isOver(err):
		t.opts.Logger.Error("the end of an MCP task is not kept", "task", task.ID, "tenant", task.Tenant, "error", err)
	}
}

// isOver reports whether a task cannot be ended because it has ended, or is gone.
func isOver(err error) bool {
	return errors.Is(err, reprise.ErrEnded) || errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired)
}

// end appends the end, with a long result in parts before it.
func (task *Task) end(end endEvent, long []byte) error {
	var parts []reprise.Event
	if len(long) <= inline {
		end.Result = long
	} else {
		end.Parts = true
		parts = partsOf(long)
	}
	data, err := json.Marshal(end)
	if err != nil {
		return err
	}
	appender := task.stream.Appender(task.tasks.storing, &reprise.AppenderOptions{ID: task.producer()})
	for {
		if len(parts) > 0 {
			if _, err := appender.Append(parts...); err != nil {
				return err
			}
		}
		_, err = appender.End(string(end.Status), reprise.Event{Data: data, Format: reprise.FormatJSON})
		if !errors.Is(err, reprise.ErrConflict) {
			return err
		}
		// The store has lost the parts: they and the end are all that is appended.
	}
}

// partsOf cuts a result into events. They go into one append, so that a stream has all of them or none.
func partsOf(result []byte) (events []reprise.Event) {
	for piece := range slices.Chunk(result, part) {
		events = append(events, reprise.Event{Type: typePart, Data: piece})
	}
	return events
}

// errLost is the error of a task that cannot be resumed.
var errLost = errors.New("the task cannot be resumed")

// lost is the end of a task whose server has died, or gives up.
var lost = endEvent{
	Status: Failed, Message: "The server died before the task had ended; whether its work was done is not known.",
	Error: json.RawMessage(`{"code":-32603,"message":"the server died before the task had ended; whether its work was done is not known","data":{"code":"server_lost"}}`),
}

// gaveUp reports whether a handler has returned an error, or a result that is one.
func gaveUp(result mcp.Result, err error) bool {
	r, isCall := result.(*mcp.CallToolResult)
	return err != nil || isCall && r != nil && r.IsError
}

// outcome says how a task ends whose handler has returned, and the result. One that was cancelled and has finished
// its work in spite of it is completed.
func outcome(ctx context.Context, result mcp.Result, err error) (endEvent, []byte) {
	bad := gaveUp(result, err)
	switch cause := context.Cause(ctx); {
	case bad && errors.Is(cause, errExcluded):
		return endEvent{Status: Cancelled, Message: "The principal of the task is excluded from the server."}, nil
	case bad && errors.Is(cause, ErrCancelled):
		return endEvent{Status: Cancelled, Message: "The client has cancelled the task."}, nil
	case bad && errors.Is(cause, reprise.ErrClosed), errors.Is(err, errLost):
		return lost, nil
	case err != nil:
		return failed(err), nil
	}
	text, err := json.Marshal(result)
	switch {
	case err != nil:
		return failed(fmt.Errorf("the result cannot be written: %w", err)), nil
	case len(text) > maxResult:
		return failed(fmt.Errorf("the result has %d bytes, at most %d are kept", len(text), maxResult)), nil
	}
	return endEvent{Status: Completed}, text
}

func failed(err error) endEvent {
	e := errorOf(err)
	return endEvent{Status: Failed, Message: err.Error(), Error: e}
}
