package problem

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"reprise"
)

// Code is a stable name for a kind of failure. Clients branch on it. A later version may add codes.
type Code string

// The codes. Each error of package reprise has one; the others occur only over HTTP.
const (
	CodeCursorMalformed  Code = "cursor_malformed"
	CodeCursorForeign    Code = "cursor_foreign"
	CodeCursorAhead      Code = "cursor_ahead"
	CodeCursorExpired    Code = "cursor_expired"
	CodeEpochChanged     Code = "epoch_changed"
	CodeNotFound         Code = "not_found"
	CodeStreamExpired    Code = "stream_expired"
	CodeStreamEnded      Code = "stream_ended"
	CodeConflict         Code = "conflict"
	CodeInvalid          Code = "invalid"
	CodeUnauthenticated  Code = "unauthenticated"
	CodeForbidden        Code = "forbidden"
	CodeTooManyReaders   Code = "too_many_readers"
	CodeRateLimited      Code = "rate_limited"
	CodeQuotaExceeded    Code = "quota_exceeded"
	CodePayloadTooLarge  Code = "payload_too_large"
	CodeStoreUnavailable Code = "store_unavailable"
	CodeShuttingDown     Code = "shutting_down"
	// CodeInternal is a defect of the server. Its detail is empty.
	CodeInternal Code = "internal"
)

// row is one line of the table.
type row struct {
	code       Code
	status     int
	retryable  bool
	retryAfter time.Duration
	// err and window select the row in From and are the result of Unwrap.
	err    error
	window reprise.WindowReason
	title  string
}

// table is the only place that maps errors to codes and statuses. If an error wraps several of the errors below, the
// first row decides.
var table = [...]row{
	{CodeCursorMalformed, 400, false, 0, reprise.ErrCursorMalformed, 0, "The text is no cursor"},
	{CodeCursorForeign, 400, false, 0, reprise.ErrCursorForeign, 0, "The cursor is of another stream"},
	{CodeCursorAhead, 409, false, 0, nil, reprise.CursorAhead, "The cursor is beyond the last event"},
	{CodeCursorExpired, 410, false, 0, nil, reprise.CursorExpired, "The cursor is before the kept events"},
	{CodeEpochChanged, 410, false, 0, nil, reprise.EpochChanged, "The cursor is of an older epoch of the stream"},
	{CodeNotFound, 404, false, 0, reprise.ErrNotFound, 0, "There is nothing of this name"},
	{CodeStreamExpired, 410, false, 0, reprise.ErrExpired, 0, "The stream is no longer kept"},
	{CodeStreamEnded, 409, false, 0, reprise.ErrEnded, 0, "The stream has ended"},
	{CodeConflict, 409, false, 0, reprise.ErrConflict, 0, "The request contradicts an earlier one"},
	{CodeConflict, 409, false, 0, reprise.ErrFenced, 0, "The request contradicts an earlier one"},
	{CodeInvalid, 400, false, 0, reprise.ErrInvalid, 0, "The request is not valid"},
	{CodeUnauthenticated, 401, false, 0, nil, 0, "The request carries no valid credentials"},
	{CodeForbidden, 403, false, 0, nil, 0, "The credentials do not allow this"},
	{CodeTooManyReaders, 429, true, 5 * time.Second, reprise.ErrTooManyReaders, 0, "Too many readers follow"},
	{CodeRateLimited, 429, true, time.Second, nil, 0, "Too many requests"},
	{CodeQuotaExceeded, 429, true, 10 * time.Second, reprise.ErrQuota, 0, "A quota is used up"},
	{CodePayloadTooLarge, 413, false, 0, nil, 0, "The body is too large"},
	{CodeStoreUnavailable, 503, true, time.Second, reprise.ErrUnavailable, 0, "The store cannot answer now"},
	{CodeShuttingDown, 503, true, time.Second, reprise.ErrClosed, 0, "The server is shutting down"},
	{CodeInternal, 500, false, 0, nil, 0, "The server has failed"},
}

// rowOf returns the first row of a code, that of CodeInternal for an unknown one.
func rowOf(code Code) *row {
	for i := range table {
		if table[i].code == code {
			return &table[i]
		}
	}
	return &table[len(table)-1]
}

// Teller is an error that defines its own Problem, such as that of a quota. detail is the text of the error that wraps
// it.
type Teller interface {
	error
	Problem(detail string) Problem
}

// From returns the problem of an error, which must not be nil. A Problem in its tree is returned as it is, and a Teller
// returns its own. An error without a row becomes CodeInternal without its text, which may be confidential. The detail
// of any status from 500 on is empty, or one of a few fixed texts.
//
// A cancelled context is CodeShuttingDown: either the client has gone and nobody reads the response, or the server is
// ending the request. An exceeded deadline is CodeStoreUnavailable.
func From(err error) Problem {
	if p, ok := As(err); ok {
		return p
	}
	if teller, ok := errors.AsType[Teller](err); ok {
		return teller.Problem(err.Error())
	}
	if window, ok := errors.AsType[*reprise.WindowError](err); ok {
		p := New(Code(window.Reason.String()), window.Error())
		p.Earliest, p.Tail = window.Earliest.String(), window.Tail.String()
		if window.Reason == reprise.EpochChanged {
			p.Fork = window.Fork.String()
		}
		return p
	}
	if full, ok := errors.AsType[*reprise.QuotaError](err); ok {
		p := New(CodeQuotaExceeded, full.Error())
		p.Quota, p.QuotaOf = full.Quota, full.Of
		return p
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return PayloadTooLarge(tooLarge.Limit)
	}
	for i := range table {
		if table[i].err == nil || !errors.Is(err, table[i].err) {
			continue
		}
		if table[i].status >= 500 {
			return New(table[i].code, publicCause(err))
		}
		return New(table[i].code, strings.TrimPrefix(err.Error(), table[i].err.Error()+": ")) // which the code says
	}
	switch {
	case errors.Is(err, context.Canceled):
		return New(CodeShuttingDown, "")
	case errors.Is(err, context.DeadlineExceeded):
		return New(CodeStoreUnavailable, "")
	}
	return New(CodeInternal, "")
}

// publicCause returns the part of a server error that a client may see, such as a full disk, which the operator can
// fix.
func publicCause(err error) string {
	if known, ok := errors.AsType[reprise.Outage](err); ok {
		return string(known)
	}
	return ""
}
