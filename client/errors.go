package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"

	"reprise/internal/problem"
	"reprise/internal/ssefollow"
)

// ErrProtocol is wrapped by the error for answers that break the contract
// repeatedly: malformed events, a missing seq, another content type.
var ErrProtocol = errors.New("not the protocol of Reprise")

// Temporary failures, in addition to the ones in ssefollow: an attempt took too long; a JSON answer is damaged.
var (
	errTimeout  = errors.New("the server takes too long to answer")
	errCutShort = errors.New("the response is not complete JSON")
)

// Error is why a call or a loop was given up.
type Error struct {
	// Op names the operation, for example "follow execution 7f3k".
	Op string
	// Err is the error of the last attempt, for example a problem.Problem.
	Err error
	// Tries is the number of requests that were made.
	Tries int
}

func (e *Error) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// GapError ends a loop that does not continue after a gap; see FollowOptions.OnGap.
// errors.As finds the *reprise.WindowError in it.
type GapError struct{ Gap Gap }

func (e *GapError) Error() string {
	switch {
	case e.Gap.TakenBack > 0:
		return fmt.Sprintf("%s: the server has lost %d events up to the cursor, and %d after it are no longer kept",
			e.Gap.Code, e.Gap.TakenBack, e.Gap.Missed)
	case e.Gap.Missed > 0:
		return fmt.Sprintf("%s: %d events are no longer kept", e.Gap.Code, e.Gap.Missed)
	case e.Gap.Code == string(problem.CodeCursorAhead):
		return e.Gap.Code + ": the stream has fewer events than the cursor says"
	}
	return e.Gap.Code + ": the history after the cursor is no longer kept"
}

// Unwrap returns the problem that the code of the gap stands for.
func (e *GapError) Unwrap() error {
	p := problem.New(problem.Code(e.Gap.Code), "")
	p.Earliest, p.Tail, p.Fork = e.Gap.Earliest, e.Gap.Tail, e.Gap.Fork
	return p
}

// Retryable reports whether the failed call may succeed later without
// a change: the cause is the server or the network, and not the request.
func Retryable(err error) bool {
	if p, ok := problem.As(err); ok {
		return p.Retryable
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return false
	}
	if errors.Is(err, ErrProtocol) || errors.Is(err, ErrUnproven) {
		return false
	}
	for _, passing := range []error{errTimeout, ssefollow.ErrIdle, ssefollow.ErrDropped} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return isTransport(err)
}

// isTransport reports whether the network has failed. A timeout of the network claims to be context.DeadlineExceeded;
// the deadline in here is not one of ours.
func isTransport(err error) bool {
	_, ok := errors.AsType[*ssefollow.TransportError](err)
	return ok
}

// unsent reports whether err means that the request has changed nothing: the server refused it because of a limit, or
// was not reached. A server whose store does not answer may have made the change.
func unsent(err error) bool {
	if p, ok := problem.As(err); ok {
		return p.Code != "" && p.Status == http.StatusTooManyRequests
	}
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial"
}

// decided reports whether err means that a call had no effect: the server has refused its first attempt, finally. An
// earlier attempt than the refused one may have arrived, unless the request itself is wrong. A server that has failed
// may have done what it was asked for.
func decided(err error) bool {
	p, refused := problem.As(err)
	if !refused || p.Code == "" || p.Retryable || p.Status >= http.StatusInternalServerError {
		return false
	}
	e, ok := errors.AsType[*Error](err)
	return !ok || e.Tries < 2 || p.Code == problem.CodeInvalid || p.Code == problem.CodePayloadTooLarge
}
