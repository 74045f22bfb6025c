package operation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"reprise"
)

// Operation represents one attempt, for use by the job. It is safe for concurrent use: steps with different names can
// run concurrently.
type Operation struct {
	attempt *attempt

	mu   sync.Mutex
	busy map[string]bool // steps that are being done
}

// StepFunc does a step and returns its result, at most 512 KiB.
type StepFunc func(context.Context) ([]byte, error)

// StepOptions are the options of a step. The zero value of each field means its default.
type StepOptions struct {
	// Idempotent says that repeating the step has no further effect. Then the step is repeated if it began and it is
	// unknown whether it took effect. Default: the step is called at most once, and the error is an *UnknownError then.
	Idempotent bool
}

const (
	maxStepName = 255
	// maxResult bounds a result. It is encoded as base64 in an event, which has at most 1 MiB by default.
	maxResult = 512 << 10
)

// Key returns the key of the operation.
func (o *Operation) Key() reprise.StreamKey { return o.attempt.stream.Key() }

// Input returns the input of the operation. It must not be changed.
func (o *Operation) Input() []byte { return o.attempt.record.Input }

// Fence returns the number of this attempt: 1 for the first, and higher for each later one. An external system that
// refuses fences below the highest one that it has seen is safe from attempts that have been superseded.
func (o *Operation) Fence() uint64 { return o.attempt.owner.Fence }

// Step runs the step of the given name, 1 to 255 bytes, once for the operation, and returns the result of f, which is
// recorded. If the step was done before, in this attempt or an earlier one, Step returns the recorded result and does
// not call f. A result has at most 512 KiB. The caller owns it. opts may be nil.
//
// The begin of the step is as durable as the store states before f is called. An error of f is returned unchanged and
// recorded as the failure of the step; the next call of Step runs it again. This does not apply to a panic and to an
// error that wraps ErrUnknown, context.Canceled or context.DeadlineExceeded: then the step may have taken effect.
//
// A step that began and was not recorded as done or failed returns an *UnknownError, unless it is Idempotent. So does
// any step whose f has just returned, if it may have taken effect and the result cannot be recorded; the *UnknownError
// then wraps the cause. The other errors are reprise.ErrInvalid for a name that is not allowed and for a step that is
// already running, reprise.ErrFenced if another attempt has taken over, an error of the Log, and the cause if the
// attempt was cancelled before; f was not called then.
func (o *Operation) Step(ctx context.Context, name string, f StepFunc, opts *StepOptions) ([]byte, error) {
	known, err := o.acquire(name)
	if err != nil {
		return nil, err
	}
	defer o.release(name)
	switch {
	case known.State == StepDone:
		return bytes.Clone(known.Result), nil
	case known.State == StepUnknown && (opts == nil || !opts.Idempotent):
		return nil, &UnknownError{Step: name, Began: known.Began, Attempt: known.Attempt}
	}
	if err := o.append(typeStepBegan, entry{Step: name}); err != nil {
		return nil, err
	}
	result, err := o.call(ctx, name, f)
	switch {
	case err == nil:
		if err = checkResult(result); err == nil {
			err = o.append(typeStepDone, entry{Step: name, Result: result})
		}
		if err == nil {
			return result, nil
		}
	case !isUnknown(err):
		unkept := o.append(typeStepFailed, entry{Step: name, Error: clip(err.Error())})
		if unkept == nil {
			return nil, err
		}
		err = errors.Join(err, unkept)
	}
	return nil, o.unknown(name, err)
}

// call calls the function of a step. If the function panics, it is unknown whether the step took effect.
func (o *Operation) call(ctx context.Context, name string, f StepFunc) (result []byte, err error) {
	returned := false
	defer func() {
		if !returned {
			_ = o.unknown(name, nil)
		}
	}()
	result, err = f(ctx)
	returned = true
	return result, err
}

// isUnknown reports whether a step that returned err may have taken effect.
func isUnknown(err error) bool {
	return errors.Is(err, ErrUnknown) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// unknown records that it is unknown whether a step took effect.
func (o *Operation) unknown(name string, err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	step := o.attempt.record.step(name)
	step.State = StepUnknown
	return &UnknownError{Step: name, Began: step.Began, Attempt: step.Attempt, Err: err}
}

// MarkDone records that a step which returned an *UnknownError took effect, with its result. The error is
// reprise.ErrInvalid for any other step, or as of Step.
func (o *Operation) MarkDone(name string, result []byte) error {
	if err := checkResult(result); err != nil {
		return err
	}
	return o.mark(typeStepDone, entry{Step: name, Result: result})
}

// MarkNotDone records that a step which returned an *UnknownError took no effect: the next call of Step does it. It
// returns the same errors as MarkDone.
func (o *Operation) MarkNotDone(name string) error {
	return o.mark(typeStepFailed, entry{Step: name, Error: "it took no effect"})
}

func (o *Operation) mark(kind string, e entry) error {
	known, err := o.acquire(e.Step)
	if err != nil {
		return err
	}
	defer o.release(e.Step)
	if known.State != StepUnknown {
		return fmt.Errorf("%w: of step %q it is known whether it took effect", reprise.ErrInvalid, e.Step)
	}
	return o.append(kind, e)
}

// acquire prevents other calls from running the same step, and returns the recorded state of the step.
func (o *Operation) acquire(name string) (Step, error) {
	if name == "" || len(name) > maxStepName {
		return Step{}, fmt.Errorf("%w: the name of a step has 1 to %d bytes", reprise.ErrInvalid, maxStepName)
	}
	if o.attempt.ctx.Err() != nil {
		return Step{}, context.Cause(o.attempt.ctx)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy[name] {
		return Step{}, fmt.Errorf("%w: step %q is being done", reprise.ErrInvalid, name)
	}
	o.busy[name] = true
	if step := o.attempt.record.find(name); step != nil {
		return *step, nil
	}
	return Step{}, nil
}

func (o *Operation) release(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.busy, name)
}

// append records an event of a step and, once the event is kept, applies it to the record in memory.
func (o *Operation) append(kind string, e entry) error {
	a := o.attempt
	event := e.event(kind)
	event.Time = now()
	_, err := a.patiently(func() (reprise.Appended, error) { return a.appender.Append(event) })
	if errors.Is(err, reprise.ErrFenced) {
		a.cancel(err)
	}
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return a.record.apply(event)
}

func checkResult(result []byte) error {
	if len(result) > maxResult {
		return fmt.Errorf("%w: a result of %d bytes, at most %d are taken", reprise.ErrInvalid, len(result), maxResult)
	}
	return nil
}

// now is the time that events are stamped with.
func now() time.Time { return time.UnixMilli(time.Now().UnixMilli()).UTC() }
