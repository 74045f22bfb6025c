package mcptask

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
)

// ErrCancelled is the cause of the context of a handler whose task the client has cancelled, or whose principal is
// excluded; see Options.Life.
var ErrCancelled = errors.New("the client has cancelled the task")

// errExcluded is the cause of the context of a handler whose principal is excluded.
var errExcluded = fmt.Errorf("%w: its principal is excluded", ErrCancelled)

// errTaken is the cause of the context of a handler whose task another replica has ended or resumed, because it
// declared this one dead.
var errTaken = fmt.Errorf("%w: another replica has the task", reprise.ErrFenced)

// Task is a call that has become a task, as its handler sees it; see FromContext. It is safe for concurrent use.
type Task struct {
	// ID is the id of the task for the client. Without principals it is a secret.
	ID string
	// Tenant is the owner of the task.
	Tenant reprise.Tenant

	tasks  *Tasks
	stream *reprise.Stream
	// life ends when the principal is excluded; see Options.Life.
	life   context.Context
	server string
	takes  uint64 // how often it was taken over, up to this server
	cancel context.CancelCauseFunc
	// resumable is true if a server that comes after this one continues the task.
	resumable bool

	saying sync.Mutex // held while the state is appended, so that it comes in order
	mu     sync.Mutex
	state  stateEvent
	used   map[string]bool // the keys of all questions that there were
	asked  map[string]chan json.RawMessage
}

// create makes a task, which is kept when it returns. No goroutine follows it yet.
func (t *Tasks) create(ctx context.Context, who identity, tool string, cancel context.CancelCauseFunc) (*Task, error) {
	server, err := t.server()
	if err != nil {
		return nil, err
	}
	meta, err := json.Marshal(
		taskMeta{Tool: tool, Principal: who.principal, Server: server, PollMs: t.opts.Poll.Milliseconds()},
	)
	if err != nil {
		return nil, err
	}
	task := &Task{
		ID: rand.Text(), Tenant: who.tenant, tasks: t, server: server, cancel: cancel,
		life: t.opts.Life(who.tenant, who.principal),
		used: map[string]bool{}, asked: map[string]chan json.RawMessage{},
	}
	t.mu.Lock()
	task.resumable = t.tools[tool].Resume != nil
	t.mu.Unlock()
	if err := t.enter(task); err != nil { // before it is in the store, where it could be taken for a lost one
		return nil, err
	}
	task.stream, _, err = t.log.Create(ctx, t.key(who.tenant, task.ID), reprise.StreamConfig{
		Retention: reprise.Retention{MaxEvents: 10_000, MaxBytes: 64 << 20, MaxAge: t.opts.Keep}, Meta: meta,
	})
	if err != nil {
		t.forget(task)
		return nil, fmt.Errorf("create a task: %w", err)
	}
	if hook := t.opts.Hooks.Created; hook != nil {
		hook(who.tenant)
	}
	return task, nil
}

// enter counts a task as one that runs here.
func (t *Tasks) enter(task *Task) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.tasks) >= t.opts.MaxRunning {
		return fmt.Errorf("%w: %d tasks are running", reprise.ErrQuota, t.opts.MaxRunning)
	}
	t.tasks[task.ID] = task
	return nil
}

// drop removes a task whose id no client has.
func (t *Tasks) drop(task *Task) {
	if err := t.log.Remove(t.storing, task.stream.Key()); err != nil {
		t.opts.Logger.Warn("an unused MCP task could not be removed", "task", task.ID, "error", err)
	}
	t.forget(task)
}

func (t *Tasks) forget(task *Task) {
	t.mu.Lock()
	delete(t.tasks, task.ID)
	t.mu.Unlock()
}

// Say reports progress to the client, in a few words that may be shown to its user. It returns when they are stored.
func (task *Task) Say(ctx context.Context, message string) error {
	return task.change(ctx, func(s *stateEvent) { s.Message = message })
}

// change appends the state after a change of it.
func (task *Task) change(ctx context.Context, edit func(*stateEvent)) error {
	task.saying.Lock()
	defer task.saying.Unlock()
	task.mu.Lock()
	state := task.state
	state.Questions = maps.Clone(state.Questions)
	edit(&state)
	task.mu.Unlock()
	data, err := json.Marshal(state)
	if err != nil {
		return err
	}
	if _, err := task.stream.Append(ctx, reprise.Event{
		Type:   typeState,
		Data:   data,
		Format: reprise.FormatJSON,
	}); err != nil {
		return err
	}
	task.mu.Lock()
	task.state = state
	task.mu.Unlock()
	return nil
}

// Ask asks the client, and waits until all requests are answered. Meanwhile the status of the task is input_required.
// The handler chooses the keys of the requests, and the answers have the same keys; if a key was used before, the
// client sees another one. Each answer has the type that belongs to its request, such as *mcp.ElicitResult for
// *mcp.ElicitParams. The error comes from the Log, or is the cause if ctx is cancelled.
func (task *Task) Ask(ctx context.Context, requests mcp.InputRequestMap) (mcp.InputResponseMap, error) {
	if len(requests) == 0 {
		return mcp.InputResponseMap{}, nil
	}
	raw, err := questionsOf(requests)
	if err != nil {
		return nil, err
	}
	keys, questions, waits := task.pose(raw)
	defer task.withdraw(keys)
	err = task.change(ctx, func(s *stateEvent) {
		if s.Questions == nil {
			s.Questions = map[string]json.RawMessage{}
		}
		maps.Copy(s.Questions, questions)
	})
	if err != nil {
		return nil, err
	}
	answers := mcp.InputResponseMap{}
	for name, key := range keys {
		select {
		case answer := <-waits[key]:
			parsed, err := answerOf(answer)
			if err != nil {
				return nil, err // it was read before it was taken
			}
			answers[name] = parsed
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return answers, nil
}

// questionsOf are requests as they are on the wire.
func questionsOf(requests mcp.InputRequestMap) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(requests)
	if err != nil {
		return nil, fmt.Errorf("%w: the question of a task: %w", reprise.ErrInvalid, err)
	}
	var raw map[string]json.RawMessage
	return raw, json.Unmarshal(text, &raw)
}

// answerOf reads an answer of a client.
func answerOf(raw json.RawMessage) (mcp.InputResponse, error) {
	text, err := json.Marshal(map[string]json.RawMessage{"": raw})
	if err != nil {
		return nil, err
	}
	var m mcp.InputResponseMap
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, err
	}
	return m[""], nil
}

// pose gives each question a key that was not used before.
func (task *Task) pose(raw map[string]json.RawMessage) (
	keys map[string]string, questions map[string]json.RawMessage, waits map[string]chan json.RawMessage,
) {
	keys, questions, waits = map[string]string{}, map[string]json.RawMessage{}, map[string]chan json.RawMessage{}
	task.mu.Lock()
	defer task.mu.Unlock()
	for name, q := range raw {
		key := name
		for n := 2; task.used[key]; n++ {
			key = name + "-" + strconv.Itoa(n)
		}
		task.used[key] = true
		wait := make(chan json.RawMessage, 1)
		task.asked[key] = wait
		keys[name], questions[key], waits[key] = key, q, wait
	}
	return keys, questions, waits
}

// withdraw forgets questions. Kept ones are removed with the next change.
func (task *Task) withdraw(keys map[string]string) {
	task.mu.Lock()
	defer task.mu.Unlock()
	state := task.state
	state.Questions = maps.Clone(state.Questions)
	for _, key := range keys {
		delete(task.asked, key)
		delete(state.Questions, key)
	}
	task.state = state
}

// attend follows the stream of the task, for what the client says and for an end that another process has made,
// until ctx is done, and cancels a task whose principal is excluded.
func (task *Task) attend(ctx context.Context) {
	defer context.AfterFunc(task.life, func() {
		task.cancel(fmt.Errorf("%w: %w", errExcluded, context.Cause(task.life)))
	})()
	for ctx.Err() == nil {
		err := task.follow(ctx)
		if errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired) ||
			errors.Is(err, reprise.ErrClosed) {
			task.cancel(err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
}

// retryAfter is the pause before a retry when the store is unavailable.
const retryAfter = 250 * time.Millisecond

func (task *Task) follow(ctx context.Context) error {
	reader, err := task.stream.Reader(ctx, reprise.Earliest())
	if err != nil {
		return err
	}
	defer reader.Close()
	for e, err := range reader.Events(ctx) {
		if err != nil {
			return err
		}
		switch e.Type {
		case typeCancel:
			task.cancel(ErrCancelled)
		case typeInput:
			var input inputEvent
			if err := json.Unmarshal(e.Data, &input); err == nil {
				task.answer(input.Responses)
			}
		case typeTaken:
			var taken takenEvent
			if err := json.Unmarshal(e.Data, &taken); err == nil && taken.Number > task.takes {
				task.cancel(errTaken)
			}
		}
	}
	task.cancel(errTaken) // where it was ended by its own handler, that has returned
	<-ctx.Done()
	return nil
}

// answer hands over what the client has answered. Only the first answer to a question counts.
func (task *Task) answer(responses map[string]json.RawMessage) {
	task.mu.Lock()
	defer task.mu.Unlock()
	for key, response := range responses {
		if wait := task.asked[key]; wait != nil {
			wait <- response
			delete(task.asked, key)
		}
	}
}
