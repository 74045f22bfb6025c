package mcptask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"reprise"
)

// The events of a task, beside the end.
const (
	// typeState is what the handler says of itself. The last one holds.
	typeState = "state"
	// typeInput is what the client has answered.
	typeInput = "input"
	// typeCancel says that the client wants the task to be over.
	typeCancel = "cancel"
	// typePart is a part of a long result.
	typePart = "part"
	// typeTaken says that another server has taken over the task. Parts before it do not count.
	typeTaken = "taken"
)

// taskMeta is what the stream of a task says of it from the beginning.
type taskMeta struct {
	Tool      string `json:"tool"`
	Principal string `json:"principal,omitempty"`
	// Server is the replica that runs the handler, or the process where it is alone.
	Server string `json:"server"`
	PollMs int64  `json:"poll_ms"`
}

// stateEvent is the data of typeState.
type stateEvent struct {
	Message   string                     `json:"message,omitempty"`
	Questions map[string]json.RawMessage `json:"questions,omitempty"`
	Note      json.RawMessage            `json:"note,omitempty"`
	// Taken is the takeover by the server that runs the task, since the event of it may have left the window.
	Taken *takenEvent `json:"taken,omitempty"`
}

// inputEvent is the data of typeInput.
type inputEvent struct {
	Responses map[string]json.RawMessage `json:"responses"`
}

// takenEvent is the data of typeTaken.
type takenEvent struct {
	Server string `json:"server"`
	Number uint64 `json:"number"` // 1, 2, 3, ...
}

// endEvent is the data of the end. A result that is long stands in parts before it.
type endEvent struct {
	Status  Status          `json:"status"`
	Message string          `json:"message,omitempty"`
	Parts   bool            `json:"parts,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// view is what the events of a task come to.
type view struct {
	id       string
	meta     taskMeta
	created  time.Time
	updated  time.Time
	expires  time.Time // zero before the end
	state    stateEvent
	answered map[string]bool
	used     map[string]bool // the keys of all questions that there were
	takes    uint64
	cancel   bool
	parts    []byte
	end      *endEvent
}

func newView(id string, info *reprise.StreamInfo) (*view, error) {
	v := &view{
		id: id, created: info.Created, updated: info.Created, answered: map[string]bool{}, used: map[string]bool{},
	}
	if err := json.Unmarshal(info.Config.Meta, &v.meta); err != nil {
		return nil, fmt.Errorf("the task %s: %w", id, err)
	}
	return v, nil
}

// add takes the next event. It reports whether there is something new to see for the client.
func (v *view) add(e *reprise.Event) (changed bool, err error) {
	switch e.Type {
	case typeState:
		v.state = stateEvent{}
		err = json.Unmarshal(e.Data, &v.state)
		for key := range v.state.Questions {
			v.used[key] = true
		}
		v.take(v.state.Taken)
	case typeInput:
		var input inputEvent
		err = json.Unmarshal(e.Data, &input)
		for key := range input.Responses {
			v.answered[key] = true
		}
	case typeCancel:
		v.cancel = true
		return false, nil
	case typeTaken:
		var taken takenEvent
		if err := json.Unmarshal(e.Data, &taken); err != nil {
			return false, fmt.Errorf("the task %s, event %d: %w", v.id, e.Seq, err)
		}
		v.take(&taken)
		v.parts = nil
		return false, nil
	case typePart:
		v.parts = append(v.parts, e.Data...)
		return false, nil
	case "end":
		v.end = &endEvent{}
		err = json.Unmarshal(e.Data, v.end)
	default:
		return false, nil // of a later version of this package
	}
	if err != nil {
		return false, fmt.Errorf("the task %s, event %d: %w", v.id, e.Seq, err)
	}
	v.updated = e.Time
	return true, nil
}

// take records which server has the task.
func (v *view) take(taken *takenEvent) {
	if taken != nil && taken.Number > v.takes {
		v.meta.Server, v.takes = taken.Server, taken.Number
	}
}

// questions are those that have no answer yet.
func (v *view) questions() map[string]json.RawMessage {
	waiting := map[string]json.RawMessage{}
	for key, q := range v.state.Questions {
		if !v.answered[key] {
			waiting[key] = q
		}
	}
	return waiting
}

// wire is the task as a client sees it.
func (v *view) wire() wireTask {
	w := wireTask{
		TaskID: v.id, Status: Working, StatusMessage: v.state.Message,
		CreatedAt: wireTime{v.created}, LastUpdatedAt: wireTime{v.updated}, PollIntervalMs: v.meta.PollMs,
	}
	if v.end == nil {
		if q := v.questions(); len(q) > 0 {
			w.Status, w.InputRequests = InputRequired, q
		}
		return w
	}
	w.Status, w.StatusMessage, w.Result, w.Error = v.end.Status, v.end.Message, v.end.Result, v.end.Error
	if v.end.Parts {
		w.Result = v.parts
	}
	if !v.expires.IsZero() {
		ttl := max(v.expires.Sub(v.created).Milliseconds(), 1)
		w.TTLMs = &ttl
	}
	return w
}

// found is a task in the Log.
type found struct {
	*view
	stream *reprise.Stream
}

// find reads a task that a client has named. To all but who made it, it does not exist.
func (t *Tasks) find(ctx context.Context, tenant reprise.Tenant, principal, id string) (found, error) {
	if !isID(id) {
		return found{}, reprise.ErrNotFound
	}
	stream, err := t.log.Stream(ctx, t.key(tenant, id))
	if err != nil {
		return found{}, err
	}
	v, err := read(ctx, stream, id)
	if err != nil {
		return found{}, err
	}
	if v.meta.Principal != principal {
		return found{}, reprise.ErrNotFound
	}
	if v.isExpired() {
		return found{}, reprise.ErrExpired
	}
	return found{v, stream}, nil
}

// isExpired reports whether the task may have been removed by now.
func (v *view) isExpired() bool { return !v.expires.IsZero() && time.Now().After(v.expires) }

// isID reports whether id has the form of rand.Text, so that it can be part of a name.
func isID(id string) bool {
	if len(id) < 20 || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// readTries bounds how often a task is read anew because the store has lost events of it meanwhile.
const readTries = 5

// read reads all that is there of a task.
func read(ctx context.Context, stream *reprise.Stream, id string) (v *view, err error) {
	for range readTries {
		if v, err = readFrom(ctx, stream, reprise.Earliest(), id); !isEpochChanged(err) {
			break
		}
	}
	return v, err
}

// isEpochChanged reports whether the store has lost events that were read.
func isEpochChanged(err error) bool {
	window, ok := errors.AsType[*reprise.WindowError](err)
	return ok && window.Reason == reprise.EpochChanged
}

// readFrom reads what is there of a task after a position.
func readFrom(ctx context.Context, stream *reprise.Stream, at reprise.Position, id string) (*view, error) {
	reader, err := stream.Reader(ctx, at)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	info := reader.Info()
	v, err := newView(id, &info)
	if err != nil {
		return nil, err
	}
	for more, news := true, false; more; {
		if more, err = v.poll(ctx, reader, &news); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// poll takes the events that are there now. more is false if there were none; news is set if the client has something
// new to see.
func (v *view) poll(ctx context.Context, reader *reprise.Reader, news *bool) (more bool, err error) {
	events, err := reader.Poll(ctx)
	if err != nil && !errors.Is(err, reprise.ErrEnded) {
		return false, err
	}
	for e := range events.All() {
		changed, err := v.add(&e)
		if err != nil {
			return false, err
		}
		*news = *news || changed
	}
	if info := reader.Info(); v.end != nil && info.End != nil {
		v.expires = info.End.Expires
	}
	return events.Len() > 0, nil
}
