package mcptask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
)

type callKey struct{}

// FromContext returns the task of the call whose handler has ctx, or nil if the call is not a task.
func FromContext(ctx context.Context) *Task {
	c, _ := ctx.Value(callKey{}).(*call)
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.task
}

// Begin turns the call whose handler has ctx into a task, if it is not one yet. From then on the client polls for the
// result, and its disconnect does not cancel ctx. Begin returns nil if the client has not declared the extension or the
// tool is not supported; the handler then continues as usual. The error comes from the Log, or is the cause if ctx is
// cancelled.
func Begin(ctx context.Context) (*Task, error) {
	c, _ := ctx.Value(callKey{}).(*call)
	if c == nil {
		return nil, nil
	}
	return c.begin(ctx)
}

// Note stores a value, as JSON, which Tool.Resume gets if the server dies. If the call whose handler has ctx is not a
// task yet, the value is stored with the task that it becomes. Clients do not see it. The error comes from the Log.
func Note(ctx context.Context, value any) error {
	c, _ := ctx.Value(callKey{}).(*call)
	if c == nil {
		return nil
	}
	note, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("%w: the note of a task: %w", reprise.ErrInvalid, err)
	}
	c.mu.Lock()
	task := c.task
	if task == nil {
		c.note = note
	}
	c.mu.Unlock()
	if task == nil {
		return nil
	}
	return task.change(ctx, func(s *stateEvent) { s.Note = note })
}

// call is a tools/call whose client knows tasks.
type call struct {
	tasks *Tasks
	who   identity
	tool  string
	// ctx is the handler's. stay keeps it from ending with the request; it reports false if it has.
	ctx    context.Context
	cancel context.CancelCauseFunc
	stay   func() bool

	returned chan struct{} // closed when the handler has returned without having become a task
	result   mcp.Result
	err      error
	begun    chan struct{} // closed when there is a task

	mu   sync.Mutex
	task *Task
	note json.RawMessage // see Note, until there is a task
	over bool            // the handler has returned
}

// call answers tools/call.
func (t *Tasks) call(ctx context.Context, next mcp.MethodHandler, req *mcp.CallToolRequest) (mcp.Result, error) {
	if req.Params == nil {
		return next(ctx, methodCall, req)
	}
	t.mu.Lock()
	tool, ok := t.tools[req.Params.Name]
	t.mu.Unlock()
	switch {
	case !ok || req.Params.Name == "":
		return next(ctx, methodCall, req)
	case !declares(req) && tool.Required:
		return nil, missing()
	case !declares(req):
		return next(ctx, methodCall, req)
	}
	who, err := t.identify(ctx, req)
	if err != nil {
		return nil, err
	}
	c := &call{tasks: t, who: who, tool: req.Params.Name, returned: make(chan struct{}), begun: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), callKey{}, c))
	c.stay = context.AfterFunc(ctx, func() { c.cancel(context.Cause(ctx)) })
	if tool.After == 0 {
		if _, err := c.begin(ctx); err != nil {
			return nil, err
		}
	}
	if !t.begin(func() { c.run(next, req) }) {
		c.cancel(reprise.ErrClosed)
		return nil, reprise.ErrClosed
	}
	return c.wait(tool)
}

// wait waits until there is something to answer: a result, or a task.
func (c *call) wait(tool Tool) (mcp.Result, error) {
	var late <-chan time.Time
	if tool.After > 0 {
		timer := time.NewTimer(tool.After)
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case <-c.begun:
			return c.created(), nil
		case <-c.returned:
			return c.result, c.err
		case <-late:
			if _, err := c.begin(c.ctx); err != nil && !errors.Is(err, errOver) {
				// The client is there still, and gets the result when there is one.
				c.tasks.opts.Logger.Warn("an MCP call does not become a task", "tool", c.tool, "error", err)
			}
		}
	}
}

// created is the answer to a call that has become a task.
func (c *call) created() mcp.Result {
	task := c.task // which does not change after begun
	w := wireTask{
		TaskID: task.ID, Status: Working, PollIntervalMs: c.tasks.opts.Poll.Milliseconds(),
		CreatedAt: wireTime{time.Now()}, LastUpdatedAt: wireTime{time.Now()},
	}
	if info, err := task.stream.Info(c.tasks.storing); err == nil {
		w.CreatedAt, w.LastUpdatedAt = wireTime{info.Created}, wireTime{info.Created}
	}
	return &taskResult{ResultType: "task", wireTask: w}
}

var errOver = errors.New("the handler has returned")

// begin makes the task.
func (c *call) begin(ctx context.Context) (*Task, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.task != nil:
		return c.task, nil
	case c.over:
		return nil, errOver
	}
	task, err := c.tasks.create(ctx, c.who, c.tool, c.cancel)
	if err != nil {
		return nil, err
	}
	if c.note != nil {
		if err := task.change(ctx, func(s *stateEvent) { s.Note = c.note }); err != nil {
			c.tasks.drop(task)
			return nil, err
		}
	}
	if !c.stay() { // no client is there to get the id
		c.tasks.drop(task)
		return nil, context.Cause(ctx)
	}
	c.task = task
	if !c.tasks.begin(func() { task.attend(c.ctx) }) {
		c.cancel(reprise.ErrClosed)
	}
	close(c.begun)
	return task, nil
}

// run calls the handler, and keeps what it returns.
func (c *call) run(next mcp.MethodHandler, req *mcp.CallToolRequest) {
	unlink := context.AfterFunc(c.tasks.running, func() { c.cancel(reprise.ErrClosed) })
	defer unlink()
	result, err := c.handle(next, req)
	c.mu.Lock()
	c.over = true
	task := c.task
	c.mu.Unlock()
	if task == nil {
		c.stay()
		c.result, c.err = result, err
		close(c.returned)
	} else {
		task.finish(c.ctx, result, err)
	}
	c.cancel(errOver)
}

// rescue makes a panic the error of the call.
func (c *call) rescue(result *mcp.Result, err *error) {
	if p := recover(); p != nil {
		c.tasks.opts.Logger.Error("the handler of an MCP tool has panicked",
			"tool", c.tool, "panic", p, "stack", string(debug.Stack()))
		*result, *err = nil, fmt.Errorf("the tool %s has panicked", c.tool)
	}
}

// handle calls the handler, again for each time that it asks for input as a task.
func (c *call) handle(next mcp.MethodHandler, req *mcp.CallToolRequest) (result mcp.Result, err error) {
	defer c.rescue(&result, &err)
	for {
		result, err = next(c.ctx, methodCall, req)
		task := FromContext(c.ctx)
		r, ok := result.(*mcp.CallToolResult)
		if err != nil || task == nil || !ok || r == nil || len(r.InputRequests) == 0 {
			return result, err
		}
		answers, err := task.Ask(c.ctx, r.InputRequests)
		if err != nil {
			return nil, err
		}
		params, again := *req.Params, *req
		params.InputResponses, params.RequestState = answers, r.RequestState
		again.Params = &params
		req = &again
	}
}
