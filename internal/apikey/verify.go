package apikey

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"
	"time"

	"reprise"
	"reprise/internal/identity"
)

func digestOf(text string) digest { return sha256.Sum256([]byte(text)) }

// Verify implements identity.Verifier.
func (r *Registry) Verify(_ context.Context, credential string) (identity.Principal, error) {
	digest := digestOf(credential)
	e := r.entry(idOf(credential))
	if e == nil {
		return identity.Principal{}, &identity.GuessError{Reason: "the server knows no such token or API key"}
	}
	if subtle.ConstantTimeCompare(digest[:], e.Digest[:]) != 1 {
		return identity.Principal{}, &identity.GuessError{
			ID: e.ID, Reason: "the server knows no such token or API key", // as for an id that does not exist
		}
	}
	return e.current()
}

// Current implements identity.Verifier: a credential that was issued for a secret is invalid once the key has another
// secret.
func (r *Registry) Current(_ context.Context, credential string) (identity.Principal, error) {
	id, _, _ := strings.Cut(credential, ".")
	e := r.entry(id)
	if e == nil || e.principal.Credential != credential {
		return identity.Principal{}, identity.ErrRevoked
	}
	return e.current()
}

// Named implements identity.Verifier.
func (r *Registry) Named(_ context.Context, tenant reprise.Tenant, name string) (identity.Principal, error) {
	e := r.entry(name[strings.LastIndexByte(name, '.')+1:])
	if e == nil || e.Tenant != tenant || e.principal.Name != name {
		return identity.Principal{}, identity.ErrRevoked
	}
	return e.current()
}

func (r *Registry) entry(id string) *entry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.keys[id]
}

// current returns the principal of a key that has not ended.
func (e *entry) current() (identity.Principal, error) {
	switch {
	case e.Revoked != nil:
		return identity.Principal{}, identity.ErrRevoked
	case e.Expires != nil && !time.Now().Before(*e.Expires):
		return identity.Principal{}, fmt.Errorf("%w: the API key has expired", identity.ErrUnauthenticated)
	}
	return e.principal, nil
}
