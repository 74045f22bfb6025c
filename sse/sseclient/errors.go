package sseclient

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"

	"reprise/internal/ssefollow"
)

// Errors that a loop ends with, each alone or within a *StatusError or another error.
var (
	// ErrContentType is wrapped by the error for an answer that is not an event stream.
	ErrContentType = errors.New("the response is not an event stream")
	// ErrRedirect is wrapped by the error for too many redirects, or for an invalid one.
	ErrRedirect = errors.New("the redirect cannot be followed")
	// ErrLastEventID is wrapped by the error for an id that a header cannot contain, so the client cannot tell the
	// source where to continue.
	ErrLastEventID = errors.New("the last event id cannot be sent")
	// ErrNotRepeated is wrapped by the error of a lost connection, or of an answer that has ended, if the request must
	// not be sent again; see Options.Repeat.
	ErrNotRepeated = errors.New("the request is not repeated")
	// ErrIdle is passed to Options.OnDrop for a connection that was silent for Options.IdleTimeout.
	ErrIdle = ssefollow.ErrIdle
	// ErrDropped is passed to Options.OnDrop for an answer that has ended.
	ErrDropped = ssefollow.ErrDropped
)

// idempotent are the methods that may be sent again (RFC 9110, section 9.2.2, and the registry of methods).
var idempotent = []string{
	http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete,
	"PROPFIND", "QUERY", "REPORT", "SEARCH",
}

// repeats reports whether the request may be sent again after err.
func (o *Options) repeats(err error) bool {
	if o.Repeat || slices.Contains(idempotent, o.Method) || o.Header.Get("Idempotency-Key") != "" {
		return true
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.Status == http.StatusTooManyRequests
	}
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial"
}

// StatusError is an answer whose status is neither 200 nor 204.
type StatusError struct {
	// Status is the HTTP status, for example 503.
	Status int
	// Header is the header of the answer.
	Header http.Header
	// Body is the beginning of the body, at most 4 KiB.
	Body []byte
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("status %d %s", e.Status, http.StatusText(e.Status))
}

// passing are the statuses that say nothing about the request.
var passing = []int{
	http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusInternalServerError,
	http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// isPassing reports whether the same request may succeed later.
func isPassing(err error) bool {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return slices.Contains(passing, status.Status)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok || errors.Is(err, ErrRedirect) {
		return false
	}
	_, ok := errors.AsType[*ssefollow.TransportError](err)
	return ok || errors.Is(err, ErrIdle) || errors.Is(err, ErrDropped)
}
