package mcptask

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
)

// takerID is the id of the idempotent producer with which servers take over a task. Its epoch is the number of the
// takeover, so that the first of several servers that try the same one has it, and the others get a duplicate.
const takerID = "server"

// resume takes over a task whose server has died, and continues it in the background. It does nothing if another server
// was first.
func (t *Tasks) resume(ctx context.Context, stream *reprise.Stream, id string, tool Tool) error {
	server, err := t.server()
	if err != nil {
		return err
	}
	v, err := read(ctx, stream, id)
	if err != nil || v.end != nil {
		return err
	}
	if v.meta.Server != server && !t.isDead(v.meta.Server) {
		return nil // resumed by another replica
	}
	task := &Task{
		ID: id, Tenant: stream.Key().Tenant, tasks: t, stream: stream,
		server: server, takes: v.takes + 1, resumable: true,
		life:  t.opts.Life(stream.Key().Tenant, v.meta.Principal),
		state: v.state, used: v.used, asked: map[string]chan json.RawMessage{},
	}
	c := &call{tasks: t, tool: v.meta.Tool, begun: make(chan struct{}), task: task}
	c.ctx, c.cancel = context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), callKey{}, c))
	close(c.begun)
	task.cancel = c.cancel
	if err := t.enter(task); err != nil {
		return err
	}
	taken, err := task.take(ctx)
	if err != nil || !taken || !t.begin(func() { c.resume(tool, v.state.Note) }) {
		t.forget(task)
	}
	return err
}

// take appends that this server has the task now, and withdraws the questions of the one before. It reports false if
// another server was first.
func (task *Task) take(ctx context.Context) (bool, error) {
	task.state.Taken = &takenEvent{Server: task.server, Number: task.takes}
	data, err := json.Marshal(task.state.Taken)
	if err != nil {
		return false, err
	}
	events := []reprise.Event{{Type: typeTaken, Data: data, Format: reprise.FormatJSON}}
	if len(task.state.Questions) > 0 {
		task.state.Questions = nil
		data, err := json.Marshal(task.state)
		if err != nil {
			return false, err
		}
		events = append(events, reprise.Event{Type: typeState, Data: data, Format: reprise.FormatJSON})
	}
	by := &reprise.ProducerID{ID: takerID, Epoch: task.takes}
	done, err := task.stream.AppendWith(ctx, reprise.AppendOptions{Producer: by}, events...)
	if errors.Is(err, reprise.ErrFenced) {
		return false, nil
	}
	return err == nil && !done.Duplicate, err
}

// resume calls Tool.Resume, and keeps what it returns.
func (c *call) resume(tool Tool, note json.RawMessage) {
	unlink := context.AfterFunc(c.tasks.running, func() { c.cancel(reprise.ErrClosed) })
	defer unlink()
	if !c.tasks.begin(func() { c.task.attend(c.ctx) }) {
		c.cancel(reprise.ErrClosed)
	}
	result, err := c.callResume(tool, note)
	c.task.finish(c.ctx, result, err)
	c.cancel(errOver)
}

func (c *call) callResume(tool Tool, note json.RawMessage) (result mcp.Result, err error) {
	defer c.rescue(&result, &err)
	r, err := tool.Resume(c.ctx, c.task.Tenant, note)
	if r == nil && err == nil {
		err = errLost
	}
	return r, err
}
