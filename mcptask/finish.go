package mcptask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

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

// finish ends the task with what its handler has returned. It tries until that is kept, or Tasks are closed.
func (task *Task) finish(ctx context.Context, result mcp.Result, err error) {
	t := task.tasks
	defer t.forget(task)
	end, long := outcome(ctx, result, err)
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := task.end(end, long)
		switch {
		case err == nil:
			if hook := t.opts.Hooks.Ended; hook != nil {
				hook(task.Tenant, end.Status)
			}
			return
		case isOver(err):
			return
		}
		t.opts.Logger.Warn("the end of an MCP task is not kept yet", "task", task.ID, "tenant", task.Tenant, "error", err)
		select {
		case <-time.After(wait):
		case <-t.storing.Done():
			return
		}
	}
}

// isOver reports whether a task cannot be ended because it has ended, or is gone.
func isOver(err error) bool {
	return errors.Is(err, reprise.ErrEnded) || errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired)
}

// end appends the end, with long parts before it. It may be tried again.
func (task *Task) end(end endEvent, long []byte) error {
	ctx := task.tasks.storing
	if len(long) <= inline {
		end.Result = long
	} else {
		end.Parts = true
		for n := uint64(0); len(long) > 0; n++ {
			piece := long[:min(part, len(long))]
			// As a producer, so that a part whose acknowledgement was lost is not there twice.
			opts := reprise.AppendOptions{Producer: &reprise.ProducerID{ID: "result", Seq: n}}
			if _, err := task.stream.AppendWith(ctx, opts, reprise.Event{Type: typePart, Data: piece}); err != nil {
				return err
			}
			long = long[len(piece):]
		}
	}
	data, err := json.Marshal(end)
	if err != nil {
		return err
	}
	_, err = task.stream.End(ctx, string(end.Status), reprise.Event{Data: data, Format: reprise.FormatJSON})
	return err
}

// lost is the end of a task whose server has died, or gives up.
var lost = endEvent{
	Status: Failed, Message: "The server died before the task had ended; whether its work was done is not known.",
	Error: json.RawMessage(`{"code":-32603,"message":"the server died before the task had ended; whether its work was done is not known","data":{"code":"server_lost"}}`),
}

// outcome says how a task ends whose handler has returned, and the result. One that was cancelled and has finished its work in spite of it
// is completed.
func outcome(ctx context.Context, result mcp.Result, err error) (endEvent, []byte) {
	r, isCall := result.(*mcp.CallToolResult)
	bad := err != nil || isCall && r != nil && r.IsError
	switch cause := context.Cause(ctx); {
	case bad && errors.Is(cause, ErrCancelled):
		return endEvent{Status: Cancelled, Message: "The client has cancelled the task."}, nil
	case bad && errors.Is(cause, reprise.ErrClosed):
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
