package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"reprise"
)

// The types of the events of a record, beside the end.
const (
	typeAttempt    = "attempt"
	typeStepBegan  = "step_began"
	typeStepDone   = "step_done"
	typeStepFailed = "step_failed"
	typeFailed     = "failed" // the attempt is over: the job returned an error
	typeLeft       = "left"   // the attempt is over: its process stops, and another attempt may continue
)

// outcomeCompleted is the outcome of the stream of an operation that has succeeded.
const outcomeCompleted = "completed"

// entry is the data of an event of a record.
type entry struct {
	// Attempt is the fence of the attempt, and ID the name of its owner.
	Attempt uint64 `json:"attempt,omitempty"`
	ID      string `json:"id,omitempty"`
	// Replica is the name of the replica whose process makes the attempt, Runner the id of the Runner in it.
	Replica string `json:"replica,omitempty"`
	Runner  string `json:"runner,omitempty"`

	Step   string `json:"step,omitempty"`
	Result []byte `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

func (e entry) event(kind string) reprise.Event {
	data, err := json.Marshal(e)
	if err != nil {
		panic(err) // it has nothing that JSON cannot hold
	}
	return reprise.Event{Type: kind, Data: data, Format: reprise.FormatMembers}
}

// StepState is the progress of a step.
type StepState string

// The states of a step. A StepBegan step is running if its attempt still runs. The attempt of a StepUnknown step is
// over, and it is unknown whether the step took effect.
const (
	StepBegan   StepState = "began"
	StepDone    StepState = "done"
	StepFailed  StepState = "failed"
	StepUnknown StepState = "unknown"
)

// Step is the record of a step.
type Step struct {
	Name  string
	State StepState
	// Began is when it began for the last time, in the attempt of the number Attempt.
	Began   time.Time
	Attempt uint64
	// Result is set if State is StepDone, Error if it is StepFailed.
	Result []byte
	Error  string
}

// Record is the record of an operation.
type Record struct {
	// Input is the input of the operation.
	Input []byte
	// Attempts is the number of attempts so far.
	Attempts int
	// Steps are in the order in which they first began.
	Steps []Step
	// Done is true after success. Result is then the result of the job.
	Done   bool
	Result []byte
	// Failure is the error of the newest attempt, or "" if that has not failed.
	Failure string
}

// record is a Record as it grows, and the newest attempt.
type record struct {
	Record
	at     map[string]int // indexes in Steps, by name
	newest entry          // of the newest attempt
	over   string         // how that ended: typeFailed, typeLeft or ""
}

func newRecord(input []byte) *record {
	return &record{Record: Record{Input: input}, at: map[string]int{}}
}

// apply takes the next event.
func (r *record) apply(event reprise.Event) error {
	var e entry
	if err := json.Unmarshal(event.Data, &e); err != nil {
		return fmt.Errorf("%w: event %d is not of the record of an operation: %v", reprise.ErrInvalid, event.Seq, err)
	}
	switch event.Type {
	case typeAttempt:
		r.doubt()
		r.newest, r.over, r.Failure = e, "", ""
		r.Attempts++
	case typeStepBegan:
		*r.step(e.Step) = Step{Name: e.Step, State: StepBegan, Began: event.Time, Attempt: r.newest.Attempt}
	case typeStepDone:
		s := r.step(e.Step)
		s.State, s.Result, s.Error = StepDone, e.Result, ""
	case typeStepFailed:
		s := r.step(e.Step)
		s.State, s.Error = StepFailed, e.Error
	case typeFailed, typeLeft:
		r.doubt()
		r.over, r.Failure = event.Type, e.Error
	case reprise.TypeEnd:
		r.doubt()
		r.Done, r.Result = true, e.Result
	}
	return nil
}

// doubt is called when an attempt is over: it is then unknown whether the steps that the attempt began took effect.
func (r *record) doubt() {
	for i := range r.Steps {
		if r.Steps[i].State == StepBegan {
			r.Steps[i].State = StepUnknown
		}
	}
}

// step finds a step, or adds it.
func (r *record) step(name string) *Step {
	i, ok := r.at[name]
	if !ok {
		i = len(r.Steps)
		r.at[name] = i
		r.Steps = append(r.Steps, Step{Name: name})
	}
	return &r.Steps[i]
}

// find returns a step, or nil.
func (r *record) find(name string) *Step {
	if i, ok := r.at[name]; ok {
		return &r.Steps[i]
	}
	return nil
}

// follower reads the record of a stream as it grows.
type follower struct {
	*record
	reader *reprise.Reader
}

// follow opens the record of a stream from its first event on.
func follow(ctx context.Context, s *reprise.Stream) (*follower, error) {
	reader, err := s.Reader(ctx, reprise.After(s.Cursor(0)))
	if err != nil {
		return nil, err
	}
	return &follower{record: newRecord(reader.Info().Config.Meta), reader: reader}, nil
}

// next waits for the next events and takes them.
func (f *follower) next(ctx context.Context) error {
	events, err := f.reader.Next(ctx)
	if err != nil {
		return err
	}
	for event := range events.All() {
		if err := f.apply(event); err != nil {
			return err
		}
	}
	return nil
}

// catchUp reads all kept events, and returns the fence of the owner after them.
func (f *follower) catchUp(ctx context.Context) (fence uint64, err error) {
	for {
		info := f.reader.Info() // tail and owner in one view
		if f.reader.Cursor().Seq >= info.Tail {
			return info.Owner.Fence, nil
		}
		if err := f.next(ctx); err != nil {
			return 0, err
		}
	}
}

// readTo reads up to the event seq.
func (f *follower) readTo(ctx context.Context, seq uint64) error {
	for f.reader.Cursor().Seq < seq {
		if err := f.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// isOver reports whether the stream has changed hands or gone since it was looked at.
func isOver(err error) bool {
	window, moved := errors.AsType[*reprise.WindowError](err)
	return errors.Is(err, reprise.ErrFenced) || errors.Is(err, reprise.ErrEnded) ||
		errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired) ||
		moved && window.Reason == reprise.EpochChanged
}
