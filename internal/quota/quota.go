package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"reprise"
	"reprise/internal/problem"
)

// Name is the name of a quota.
type Name string

// The quotas.
const (
	// Running is the number of executions that run at a time. More wait.
	Running Name = "running"
	// Queued is the number of executions that wait.
	Queued Name = "queued"
	// Starts is the number of executions that are started in a minute.
	Starts Name = "starts"
	// Streams is the number of kept streams, including executions' streams.
	Streams Name = "streams"
	// Bytes is what streams keep, with their names, labels and configuration.
	Bytes Name = "bytes"
	// Readers is the number of responses that follow a stream at a time.
	Readers Name = "readers"
	// Sessions is the number of MCP sessions that are in use at a time.
	Sessions Name = "sessions"
	// Requests is the number of requests of MCP clients in a minute.
	Requests Name = "requests"
	// Calls is the number of requests of MCP clients that have no answer yet.
	Calls Name = "calls"
	// Upload is the number of bytes of files that are uploaded in a minute.
	Upload Name = "upload"
)

// names are all quotas, in display order.
var names = []Name{Running, Queued, Starts, Streams, Bytes, Readers, Sessions, Requests, Calls, Upload}

// IsSize reports whether n counts bytes.
func (n Name) IsSize() bool { return n == Bytes || n == Upload }

// isRate reports whether n is used up and comes back with time, and is not given back.
func (n Name) isRate() bool { return n == Starts || n == Requests || n == Upload }

// Limits are bounds by quota. What is not in it has no bound; 0 allows nothing.
type Limits map[Name]int64

// Validate returns an error that wraps reprise.ErrInvalid for a quota that does not exist and for a negative bound.
func (l Limits) Validate() error {
	for _, name := range slices.Sorted(maps.Keys(l)) {
		switch {
		case !slices.Contains(names, name):
			return fmt.Errorf("%w: %.64q is not one of the quotas %s", reprise.ErrInvalid, name, join(names, ", "))
		case l[name] < 0:
			return fmt.Errorf("%w: the bound %d of the quota %s is negative", reprise.ErrInvalid, l[name], name)
		}
	}
	return nil
}

// String is the text of the bounds, such as "running=5 starts=60", in the order of Names.
func (l Limits) String() string {
	var texts []string
	for _, name := range names {
		if bound, ok := l[name]; ok {
			texts = append(texts, fmt.Sprintf("%s=%d", name, bound))
		}
	}
	return strings.Join(texts, " ")
}

// Plain returns the bounds with plain names, as package client has them; nil for nil.
func (l Limits) Plain() map[string]int64 { return renamed[map[string]int64](l) }

// FromPlain is the inverse of Limits.Plain.
func FromPlain(l map[string]int64) Limits { return renamed[Limits](l) }

func renamed[To ~map[K]int64, K, L ~string](from map[L]int64) To {
	if from == nil {
		return nil
	}
	to := make(To, len(from))
	for name, bound := range from {
		to[K(name)] = bound
	}
	return to
}

func join(names []Name, separator string) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	return strings.Join(texts, separator)
}

// Account is the principal or tenant that usage is counted for.
type Account struct {
	Tenant reprise.Tenant
	// Principal is the name of the principal, "" for the tenant as a whole.
	Principal string
}

// Holder is an Account of a principal with its limits.
type Holder struct {
	Account
	// Limits are the principal's own. For quotas that are not in it Options.Principal holds.
	Limits Limits
	// Operator is true for administrators of the server, to whom Options.Principal does not apply.
	Operator bool
}

// Of says whose quota it is.
type Of string

// Whose quota it is.
const (
	OfPrincipal Of = "principal"
	OfTenant    Of = "tenant"
	OfServer    Of = "server"
)

// Error is why something is refused: a quota is used up. It wraps reprise.ErrQuota, or reprise.ErrTooManyReaders.
type Error struct {
	Quota Name
	Of    Of
	Limit int64
	// RetryAfter is the time after which a retry may succeed, or 0 if it is unknown.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	unit := ""
	if e.Quota.isRate() {
		unit = " a minute"
	}
	return fmt.Sprintf("%v: the quota %q of the %s is used up: %d%s", e.Unwrap(), e.Quota, e.Of, e.Limit, unit)
}

// Unwrap returns the error of package reprise that e stands for.
func (e *Error) Unwrap() error {
	if e.Quota == Readers {
		return reprise.ErrTooManyReaders
	}
	return reprise.ErrQuota
}

// Problem returns the form of e for HTTP.
func (e *Error) Problem(string) problem.Problem {
	code := problem.CodeQuotaExceeded
	switch {
	case e.Quota == Readers:
		code = problem.CodeTooManyReaders
	case e.Quota.isRate():
		code = problem.CodeRateLimited
	}
	p := problem.New(code, e.Error())
	p.Quota, p.QuotaOf = string(e.Quota), string(e.Of)
	if e.RetryAfter > 0 {
		p.RetryAfter = e.RetryAfter
	}
	return p
}
