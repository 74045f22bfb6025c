// Package problem describes errors over HTTP: problem details
// (RFC 9457) with a stable code, and the one table from the errors of package
// reprise to codes and statuses.
//
// A server answers a request that failed with
//
//	problem.Write(w, problem.From(err))
//
// which for a cursor that has fallen out of the window is
//
//	HTTP/1.1 410 Gone
//	Content-Type: application/problem+json
//	Cache-Control: no-store
//
//	{"type":"urn:reprise:problem:cursor_expired","title":"The cursor is before the kept events","status":410,
//	 "detail":"...","code":"cursor_expired","retryable":false,"earliest":"120.7ZK3...","tail":"9120.7ZK3..."}
//
// A client turns the response back into an error with Parse, and branches on
// it with errors.Is and the errors of package reprise, or on its Code.
package problem

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"reprise"
)

// Problem describes why a request failed. It is an error; errors.Is finds the error of package reprise that its code
// stands for, and errors.As the *reprise.WindowError of a refused cursor.
type Problem struct {
	// Type is "urn:reprise:problem:" and the code: a name, not an address.
	Type string
	// Title says what the code means. It is the same for each use of a code.
	Title string
	// Status is the HTTP status.
	Status int
	// Detail describes this failure. It may be empty.
	Detail string
	// Code is stable and meant for programs. It is empty for a response that is not ours, such as the error page of a
	// proxy.
	Code Code
	// Retryable is true if the same request may succeed later.
	Retryable bool
	// Field names the invalid member or parameter, if there is one.
	Field string
	// Earliest and Tail are the texts of the cursors that can be requested in place of the refused one.
	Earliest, Tail string
	// Fork is the text of the cursor up to which the stream shares the history of the refused one. It is set with
	// CodeEpochChanged.
	Fork string
	// Offset, if not nil, is the size that an upload has reached, for a request that began at another offset.
	Offset *int64
	// Challenge is the header WWW-Authenticate of the response. Only Write uses it; if it is "" and the status is 401,
	// Write sends "Bearer".
	Challenge string
	// Quota names the exhausted quota, and QuotaOf its owner: "principal", "tenant" or "server".
	Quota, QuotaOf string
	// RetryAfter is the time to wait before the next try; zero states nothing. It is sent in whole seconds, rounded up.
	RetryAfter time.Duration
}

// New returns the problem of a code, with its title, status and retryability from the table. An unknown code becomes
// Internal. If detail begins with the code, as error texts do whose name is their code, that prefix is removed.
func New(code Code, detail string) Problem {
	row := rowOf(code)
	return Problem{
		Type:       typePrefix + string(row.code),
		Title:      row.title,
		Status:     row.status,
		Detail:     strings.TrimPrefix(detail, string(row.code)+": "),
		Code:       row.code,
		Retryable:  row.retryable,
		RetryAfter: row.retryAfter,
	}
}

const typePrefix = "urn:reprise:problem:"

// Invalid returns a problem with status 400 if the request could not be parsed, and 422 if its contents are not
// allowed. field is the invalid member or parameter, or "".
func Invalid(status int, field, detail string) Problem {
	p := New(CodeInvalid, detail)
	p.Status, p.Field = status, field
	return p
}

// PayloadTooLarge returns the problem of a body of more than limit bytes.
func PayloadTooLarge(limit int64) Problem {
	return New(CodePayloadTooLarge, fmt.Sprintf("at most %d bytes are taken", limit))
}

// RateLimited returns the problem of a request that may be repeated after a while.
func RateLimited(after time.Duration) Problem {
	p := New(CodeRateLimited, "")
	p.RetryAfter = after
	return p
}

// Error returns the code, the invalid member or parameter if there is one, and the detail; or the status if there is no
// code.
func (p Problem) Error() string {
	switch {
	case p.Code == "":
		return fmt.Sprintf("status %d %s", p.Status, http.StatusText(p.Status))
	case p.Detail == "":
		return string(p.Code) + ": " + p.Title
	}
	if p.Field != "" && !strings.HasPrefix(p.Detail, p.Field) {
		return string(p.Code) + ": " + p.Field + ": " + p.Detail
	}
	return string(p.Code) + ": " + p.Detail
}

// Unwrap returns the error of package reprise that the code stands for: a *reprise.WindowError, without the asked
// position, for the codes of a refused position, and otherwise a sentinel; nil if there is none.
func (p Problem) Unwrap() error {
	row := rowOf(p.Code)
	if row.code != p.Code {
		return nil
	}
	if row.window == 0 {
		return row.err
	}
	// An unreadable cursor stays zero: the reason is useful without it.
	earliest, _ := reprise.ParseCursor(p.Earliest)
	tail, _ := reprise.ParseCursor(p.Tail)
	fork, _ := reprise.ParseCursor(p.Fork)
	return &reprise.WindowError{Reason: row.window, Earliest: earliest, Tail: tail, Fork: fork}
}

var _ interface {
	error
	Unwrap() error
} = Problem{}

// As returns the Problem in the tree of err.
func As(err error) (Problem, bool) { return errors.AsType[Problem](err) }
