package identity

import (
	"fmt"
	"slices"
	"strings"

	"reprise"
)

// Scope is a kind of permission.
type Scope string

// The scopes.
const (
	// ScopeRead: list, show and follow executions, streams and sessions.
	ScopeRead Scope = "read"
	// ScopePublish: create streams, publish to them and end them.
	ScopePublish Scope = "publish"
	// ScopeRun: start executions.
	ScopeRun Scope = "run"
	// ScopeControl: write to, signal, cancel and remove executions; remove streams and sessions.
	ScopeControl Scope = "control"
	// ScopeAdmin: look after the server as a whole, with its store, its API keys and all its tenants.
	ScopeAdmin Scope = "admin"
	// ScopeAudit: read the audit log of all tenants.
	ScopeAudit Scope = "audit"
)

// AllScopes returns every scope there is.
func AllScopes() []Scope {
	return []Scope{ScopeRead, ScopePublish, ScopeRun, ScopeControl, ScopeAdmin, ScopeAudit}
}

// AllGrants returns every scope for everything.
func AllGrants() []Grant {
	var grants []Grant
	for _, scope := range AllScopes() {
		grants = append(grants, Grant{Scope: scope})
	}
	return grants
}

// Grant is a scope, for all that a tenant has or for what begins with a prefix. Its text is the scope, or the scope
// and the prefix with a colon between, such as "read:ci-".
type Grant struct {
	Scope Scope
	// Prefix is the prefix of the names of streams, or of the sessions of executions. "" includes all of them.
	Prefix string
}

// maxPrefixBytes is the length of the longest name of a stream.
const maxPrefixBytes = 255

// ParseGrant is the inverse of Grant.String. ScopeAdmin and ScopeAudit take no prefix. The error wraps
// reprise.ErrInvalid.
func ParseGrant(text string) (Grant, error) {
	scope, prefix, bounded := strings.Cut(text, ":")
	g := Grant{Scope: Scope(scope), Prefix: prefix}
	if !slices.Contains(AllScopes(), g.Scope) {
		return Grant{}, fmt.Errorf("%w: the scope %.64q is not one of %v", reprise.ErrInvalid, scope, AllScopes())
	}
	if !bounded {
		return g, nil
	}
	if g.Scope == ScopeAdmin || g.Scope == ScopeAudit {
		return Grant{}, fmt.Errorf("%w: the scope %s has no prefix", reprise.ErrInvalid, g.Scope)
	}
	if prefix == "" || len(prefix) > maxPrefixBytes || strings.ContainsFunc(prefix, notInPrefixes) {
		return Grant{}, fmt.Errorf("%w: the prefix of a scope is 1 to %d letters, digits, '.', '_', '-' and '/'",
			reprise.ErrInvalid, maxPrefixBytes)
	}
	return g, nil
}

func notInPrefixes(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-/", r))
}

// String is the text of g.
func (g Grant) String() string {
	if g.Prefix == "" {
		return string(g.Scope)
	}
	return string(g.Scope) + ":" + g.Prefix
}

// MarshalText implements encoding.TextMarshaler.
func (g Grant) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (g *Grant) UnmarshalText(text []byte) (err error) {
	*g, err = ParseGrant(string(text))
	return err
}
