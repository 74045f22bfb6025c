package identity

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"reprise"
	"reprise/internal/problem"
	"reprise/internal/quota"
)

// The errors with which a Gate refuses a request, in addition to *LimitError.
var (
	// ErrUnauthenticated is the error of a request without a proof of its sender, or with a wrong, expired or revoked
	// one.
	ErrUnauthenticated error = refusal(problem.CodeUnauthenticated)
	// ErrForbidden: the sender is known and may not do that.
	ErrForbidden error = refusal(problem.CodeForbidden)
	// ErrRevoked ends the connections of a credential that was revoked or replaced. It wraps ErrUnauthenticated.
	ErrRevoked = fmt.Errorf("%w: the credential was revoked", ErrUnauthenticated)
)

// refusal is an error that is named as its code.
type refusal problem.Code

func (r refusal) Error() string { return string(r) }

// Problem implements problem.Teller.
func (r refusal) Problem(detail string) problem.Problem { return problem.New(problem.Code(r), detail) }

// ScopeError refuses a principal that does not have the scope for any object. It wraps ErrForbidden.
type ScopeError struct{ Scope Scope }

func (e *ScopeError) Error() string {
	return fmt.Sprintf("%v: this needs the scope %q", ErrForbidden, e.Scope)
}

// Unwrap returns ErrForbidden.
func (e *ScopeError) Unwrap() error { return ErrForbidden }

// LimitError refuses a sender of too many wrong credentials.
type LimitError struct {
	// RetryAfter is how long to wait before trying again, at least a second.
	RetryAfter time.Duration
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("too many failed attempts to authenticate: try again after %v", e.RetryAfter)
}

// Problem implements problem.Teller.
func (e *LimitError) Problem(string) problem.Problem { return problem.RateLimited(e.RetryAfter) }

// GuessError is the error for a credential that is wrong, and may be a guess: it is counted, unlike a right one that
// has expired or was revoked. It wraps ErrUnauthenticated.
type GuessError struct {
	// ID names the credential that exists and that was guessed at, "" for none.
	ID string
	// Reason is meant for the sender. It does not contain the sent credential.
	Reason string
}

func (e *GuessError) Error() string { return ErrUnauthenticated.Error() + ": " + e.Reason }

// Unwrap returns ErrUnauthenticated.
func (e *GuessError) Unwrap() error { return ErrUnauthenticated }

// Principal is the sender of a request.
type Principal struct {
	// Name identifies the principal, for example "token". It is not a secret, and does not change with a rotation.
	Name string
	// Tenant is whose data the principal sees.
	Tenant reprise.Tenant
	// Grants are the permissions of the principal. They are shared and must not be changed.
	Grants []Grant
	// Limits are the quotas of the principal itself. They are shared and must not be changed.
	Limits quota.Limits
	// Only, if not zero, is the only stream that may be read: the proof is a ticket.
	Only reprise.StreamKey
	// Issuer is the identity provider that has vouched for the principal, "" for none: by it the principal may get a
	// proof with other scopes.
	Issuer string
	// Claims are the claims of the token with which a gateway calls upstreams, or nil for other proofs. They are shared
	// and must not be changed.
	Claims map[string]string
	// Paths, if not nil, are the paths of the requests for which the proof is valid: it was made for a part of the
	// server.
	Paths []string
	// Expires is the time at which the proof becomes invalid, or zero. A response under way then has to end.
	Expires time.Time
	// Credential identifies the credential behind the proof without revealing it. Another secret has another name.
	Credential string
	// Revoked is done, with ErrRevoked as its cause, once the credential is invalid: requests of the principal under
	// way then have to end. It is nil for a credential that is valid as long as the process lives.
	Revoked context.Context // the life of the credential
	// LoggedOut is the same for the login whose cookie was shown, nil for other proofs.
	LoggedOut context.Context // the life of the login
}

// Holder returns the holder of p's quotas.
func (p *Principal) Holder() *quota.Holder {
	return &quota.Holder{
		Account: quota.Account{Tenant: p.Tenant, Principal: p.Name}, Limits: p.Limits,
		Operator: p.granted(ScopeAdmin, nil),
	}
}

// May reports whether p has a scope, for everything or below a prefix. The holder of a ticket has none.
func (p *Principal) May(s Scope) bool { return !p.holdsTicket() && p.granted(s, nil) }

// MayAll reports whether p has a scope for everything. The holder of a ticket has none.
func (p *Principal) MayAll(s Scope) bool {
	all := ""
	return !p.holdsTicket() && p.granted(s, &all)
}

// MayOn reports whether p has a scope for a name: that of a stream, or the session of an execution, "" for an execution
// without one.
func (p *Principal) MayOn(s Scope, name string) bool { return !p.holdsTicket() && p.granted(s, &name) }

// MayLeave reports whether an execution may end because p no longer follows it: p may cancel it, or is the principal
// that has started it. The holder of a ticket is neither.
func (p *Principal) MayLeave(session, starter string) bool {
	return p.MayOn(ScopeControl, session) || !p.holdsTicket() && starter != "" && starter == p.Name
}

// MayRead reports whether p may follow one stream: by a grant for its name, or because p holds a ticket for it.
func (p *Principal) MayRead(key reprise.StreamKey) bool { return p.MayReadAs(key, key.Name) }

// MayReadAs is MayRead for a stream to which grants apply under another name, such as the session of an execution.
// What a ticket may be read by has to be granted to its credential too.
func (p *Principal) MayReadAs(key reprise.StreamKey, name string) bool {
	if p.holdsTicket() && p.Only != key {
		return false
	}
	return key.Tenant == p.Tenant && p.granted(ScopeRead, &name)
}

// Bounded reports whether the grants of a scope, or of the credential behind a ticket, depend on names.
func (p *Principal) Bounded(s Scope) bool {
	all := ""
	return !p.granted(s, &all)
}

// Prefixes returns the quoted prefixes of the names for which p has a scope, as a part of a sentence.
func (p *Principal) Prefixes(s Scope) string {
	var prefixes []string
	for _, g := range p.Grants {
		if g.Scope == s {
			prefixes = append(prefixes, strconv.Quote(g.Prefix))
		}
	}
	return strings.Join(prefixes, " or ")
}

func (p *Principal) holdsTicket() bool { return p.Only != (reprise.StreamKey{}) }

// granted looks for a grant of a scope; with a name, for one that covers it.
func (p *Principal) granted(s Scope, name *string) bool {
	for i := range p.Grants {
		g := &p.Grants[i]
		if g.Scope == s && (name == nil || strings.HasPrefix(*name, g.Prefix)) {
			return true
		}
	}
	return false
}
