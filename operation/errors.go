package operation

import (
	"errors"
	"fmt"
	"time"
)

// ErrUnknown is the error of a step that began and may or may not have taken effect. The function of a step returns an
// error that wraps ErrUnknown if it cannot know itself, for example after a request without an answer.
var ErrUnknown = errors.New("whether the step took effect is not known")

// UnknownError is the error of a step that began, was not recorded as done or failed, and is not idempotent. It wraps
// ErrUnknown.
type UnknownError struct {
	// Step is the name of the step.
	Step string
	// Began is the time when the step began, by the clock of the process that recorded it.
	Began time.Time
	// Attempt is the number of the attempt in which it began; see Operation.Fence.
	Attempt uint64
	// Err is the error of the step's function. It is nil if the attempt ended before the function returned.
	Err error
}

func (e *UnknownError) Error() string {
	began := e.Began.Format(time.RFC3339)
	text := fmt.Sprintf("step %q began at %s in attempt %d: %v", e.Step, began, e.Attempt, ErrUnknown)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns ErrUnknown and Err.
func (e *UnknownError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrUnknown}
	}
	return []error{ErrUnknown, e.Err}
}

// FailedError is the error of Run for callers that waited for an attempt of another caller which has failed.
type FailedError struct {
	// Attempt is the number of the attempt.
	Attempt uint64
	// Reason is the text of the error that the job returned.
	Reason string
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("attempt %d has failed: %s", e.Attempt, e.Reason)
}
