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

// Problem tells why a request failed. It is an error; errors.Is finds the error
// of package reprise that its code stands for, and errors.As the
// *reprise.WindowError of a refused cursor.
type Problem struct {
	// Type is "urn:reprise:problem:" and the code: a name, not an address.
	Type string
	// Title says what the code means. It is the same for each use of a code.
	Title string
	// Status is the HTTP status.
	Status int
	// Detail says what was wrong with this request. It may be empty.
	Detail string
	// Code is what programs branch on. It is empty for an answer that is not
	// ours, such as the error page of a proxy.
	Code Code
	// Retryable is true if the same request may succeed later.
	Retryable bool
	// Field names the member or parameter that is Invalid, where it is one.
	Field string
	// Earliest and Tail are the texts of the cursors that can be asked for in
	// place of the refused one.
	Earliest, Tail string
	// Fork is the text of the cursor up to which the stream shares the history of the refused one. It is set with
	// CodeEpochChanged.
	Fork string
	// Offset, if not nil, is the number of bytes that an upload has, where a request began elsewhere.
	Offset *int64
	// Challenge is the header WWW-Authenticate of the answer. It is for Write alone, which sends "Bearer" with a
	// status of 401 where it is "".
	Challenge string
	// Quota names the quota that is used up, and QuotaOf whose it is: "principal", "tenant" or "server".
	Quota, QuotaOf string
	// RetryAfter is how long to wait before the next try. Zero says nothing.
	// It is sent in whole seconds, rounded up.
	RetryAfter time.Duration
}

// New returns the problem of a code with its title, status and whether it is
// retryable from the table. An unknown code becomes Internal. The code itself is left out where detail begins with it,
// as the text of an error does that is named as its code.
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

// Invalid refuses a request with status 400, where it could not be read at all, or
// 422, where it was read and says something that is not allowed. field is
// the member or parameter that is wrong, or "".
func Invalid(status int, field, detail string) Problem {
	p := New(CodeInvalid, detail)
	p.Status, p.Field = status, field
	return p
}

// PayloadTooLarge refuses a body of more than limit bytes.
func PayloadTooLarge(limit int64) Problem {
	return New(CodePayloadTooLarge, fmt.Sprintf("at most %d bytes are taken", limit))
}

// RateLimited refuses a request that may be made again after a while.
func RateLimited(after time.Duration) Problem {
	p := New(CodeRateLimited, "")
	p.RetryAfter = after
	return p
}

// Error is the code and the detail, or the status where there is no code.
func (p Problem) Error() string {
	switch {
	case p.Code == "":
		return fmt.Sprintf("status %d %s", p.Status, http.StatusText(p.Status))
	case p.Detail == "":
		return string(p.Code) + ": " + p.Title
	}
	return string(p.Code) + ": " + p.Detail
}

// Unwrap returns the error of package reprise that the code stands for: a
// *reprise.WindowError for the codes of a refused position, without the position that was
// asked for, else a sentinel; nil where there is none.
func (p Problem) Unwrap() error {
	row := rowOf(p.Code)
	if row.code != p.Code {
		return nil
	}
	if row.window == 0 {
		return row.err
	}
	// A cursor that cannot be read stays zero: the reason is worth having without it.
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
