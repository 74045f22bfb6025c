package identity

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"reprise"
)

// The reasons for which a Gate turns a request away. A *LimitError is the third.
var (
	// ErrUnauthenticated: the request proves nothing about its sender, or what
	// it shows is wrong, expired or revoked.
	ErrUnauthenticated = errors.New("unauthenticated")
	// ErrForbidden: the sender is known and may not do that.
	ErrForbidden = errors.New("forbidden")
)

// LimitError turns away a sender who failed to authenticate too often.
type LimitError struct {
	// RetryAfter is how long to wait before trying again, at least a second.
	RetryAfter time.Duration
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("too many failed attempts to authenticate: try again after %v", e.RetryAfter)
}

// Scope is a kind of thing that a principal may do.
type Scope string

// The scopes.
const (
	// ScopeRead: list, show and follow executions, streams and sessions.
	ScopeRead Scope = "read"
	// ScopeRun: start executions, and write to, signal, cancel and remove them.
	ScopeRun Scope = "run"
	// ScopeWrite: create, publish to, end and remove streams.
	ScopeWrite Scope = "write"
	// ScopeAdmin: see how the server as a whole is doing.
	ScopeAdmin Scope = "admin"
)

// AllScopes returns every scope there is.
func AllScopes() []Scope { return []Scope{ScopeRead, ScopeRun, ScopeWrite, ScopeAdmin} }

// Principal is who sent a request.
type Principal struct {
	// Name is for logs and for limits, for example "token". It is no secret.
	Name string
	// Tenant is whose data the principal sees.
	Tenant reprise.Tenant
	// Scopes are what the principal may do. They are shared: nobody changes them.
	Scopes []Scope
	// Only, if not zero, is the one stream that may be read, whatever Scopes say.
	Only reprise.StreamKey
	// Expires is the moment from which on the proof is good no more, zero if there
	// is none. A response that is under way then has to end.
	Expires time.Time
	// Credential names the credential behind the proof without giving it away.
	Credential string
}

// May reports whether p has a scope. The holder of a ticket has none.
func (p *Principal) May(s Scope) bool {
	return p.Only == (reprise.StreamKey{}) && slices.Contains(p.Scopes, s)
}

// MayRead reports whether p may follow one stream: by its scope, or because p holds a
// ticket for it.
func (p *Principal) MayRead(key reprise.StreamKey) bool {
	if p.Only != (reprise.StreamKey{}) {
		return p.Only == key
	}
	return key.Tenant == p.Tenant && p.May(ScopeRead)
}
