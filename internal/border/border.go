// Package border keeps the errors of drivers inside a Store.
//
// A driver's error that leaves a Store can be mistaken for another: io.EOF of a closed connection for the end of a
// stream, context.Canceled of a driver for the caller's own. So errors that leave a Store wrap those of package reprise
// and those that the Store exports, and contain the driver's error only as text.
package border

import (
	"context"
	"errors"
	"fmt"

	"reprise"
)

// final are the errors of package reprise that a Store returns and that trying again does not change.
var final = []error{
	reprise.ErrInvalid, reprise.ErrNotFound, reprise.ErrExpired, reprise.ErrEnded, reprise.ErrConflict,
	reprise.ErrFenced,
	reprise.ErrQuota, reprise.ErrClosed, errors.ErrUnsupported,
}

// Error maps an error that is about to leave a Store. ctx is the context of the caller, without a bound of the Store's
// own. kinds are further errors that may leave it.
//
//   - The cause with which the caller has cancelled ctx is returned as it is.
//   - An error that wraps one of kinds, or one of package reprise, becomes one that wraps nothing else.
//   - Any other error, and one that wraps reprise.ErrUnavailable, becomes the cause of ctx if ctx is done.
//   - Otherwise it becomes one that wraps reprise.ErrUnavailable. That is the case for a driver's
//     own context.Canceled and context.DeadlineExceeded too.
func Error(ctx context.Context, err error, kinds ...error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		if cause := context.Cause(ctx); errors.Is(err, cause) {
			return cause
		}
	}
	var found []error
	for _, list := range [][]error{kinds, final} {
		for _, kind := range list {
			if err == kind { //nolint:errorlint // nothing else is wrapped then
				return err
			}
			if errors.Is(err, kind) {
				found = append(found, kind)
			}
		}
	}
	switch {
	case len(found) > 0:
		return &mapped{err.Error(), found}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, reprise.ErrUnavailable):
		return &mapped{err.Error(), []error{reprise.ErrUnavailable}}
	}
	return fmt.Errorf("%w: %v", reprise.ErrUnavailable, err)
}

// mapped is an error that wraps its kinds and nothing else.
type mapped struct {
	text  string
	kinds []error
}

func (m *mapped) Error() string { return m.text }

func (m *mapped) Unwrap() []error { return m.kinds }
