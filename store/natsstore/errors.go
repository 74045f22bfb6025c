package natsstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"reprise"
	"reprise/internal/border"
)

// ErrDamaged means that data on the server differs from what was written, or that batches are missing. It wraps no
// retryable error.
var ErrDamaged = errors.New("damaged")

var (
	errLost       = errors.New("the connection was lost before the answer")
	errTimeout    = errors.New("no answer in time")
	errNobody     = errors.New("no server answers for the stream now")
	errWrongLast  = errors.New("another message has come first")
	errNotRenewed = errors.New("the server is full, so that the stream cannot move to another epoch after a restart")
	errIncomplete = errors.New("an answer that makes no sense")
)

// errBehind is temporary: the server catches up.
var errBehind = fmt.Errorf("%w: the server that answers is behind", reprise.ErrUnavailable)

// storeError maps each error that leaves the Store; see package border. ctx is the caller's context, without the
// timeout of the Store.
func storeError(ctx context.Context, err error) error {
	return border.Error(ctx, err, ErrDamaged, errNewer, errBehind)
}

// Error codes of JetStream that the store distinguishes; see server/errors.json of nats-server.
const (
	codeNoMessage   = 10037
	codeWrongLast   = 10071
	codeUnderWay    = 10164 // another message of the subject is being written
	codeResources   = 10023 // of the server or the account
	codeMemory      = 10028
	codeStorage     = 10047
	codeStoreFailed = 10077 // the stream is full, or its disk

	statusUnavailable = 503
)

// unavailable marks err as retryable.
func unavailable(err error) error {
	if errors.Is(err, reprise.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", reprise.ErrUnavailable, err)
}

// ended returns the error of a call whose context has ended: the cause if the caller ended it.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, errTimeout) {
		return unavailable(cause)
	}
	return cause
}

// apiError maps an error that the server returns.
func apiError(e *jetstream.APIError) error {
	if e.ErrorCode == codeWrongLast || e.ErrorCode == codeUnderWay {
		return errWrongLast
	}
	return unavailable(e)
}

// isCode reports whether err is an error of JetStream with the given code.
func isCode(err error, code jetstream.ErrorCode) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && e.ErrorCode == code
}

func isDamage(err error) bool { return errors.Is(err, ErrDamaged) || errors.Is(err, errNewer) }

// isFull reports whether err means that there was no room for a message.
func isFull(err error) bool {
	return isCode(err, codeResources) || isCode(err, codeMemory) || isCode(err, codeStorage) ||
		isCode(err, codeStoreFailed)
}

// isPassing reports whether err is one that a cluster returns while its servers are still connecting.
func isPassing(err error) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && e.Code == statusUnavailable || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
}
