package node

import (
	"context"

	"reprise/internal/identity"
	"reprise/internal/quota"
	"reprise/internal/recent"
)

// bearers remember the limits of principals of identity providers by name. Their sessions and the data that they keep
// are counted when no token is at hand. The newest token of a principal applies.
type bearers struct {
	recent.Map[quota.Account, quota.Holder]
}

// note remembers the limits of a principal.
func (b *bearers) note(p *identity.Principal) {
	h := p.Holder()
	b.Store(h.Account, *h)
}

// recall adds the limits of a principal that was seen before to h.
func (b *bearers) recall(h *quota.Holder) {
	if known, ok := b.Load(h.Account); ok {
		*h = known
	}
}

// notingVerifier is a Verifier that notes the principals of identity providers.
type notingVerifier struct {
	identity.Verifier
	bearers *bearers
}

// Verify implements identity.Verifier.
func (v notingVerifier) Verify(ctx context.Context, credential string) (identity.Principal, error) {
	p, err := v.Verifier.Verify(ctx, credential)
	return v.note(p, err)
}

// Current implements identity.Verifier.
func (v notingVerifier) Current(ctx context.Context, credential string) (identity.Principal, error) {
	p, err := v.Verifier.Current(ctx, credential)
	return v.note(p, err)
}

func (v notingVerifier) note(p identity.Principal, err error) (identity.Principal, error) {
	if err == nil && p.Issuer != "" {
		v.bearers.note(&p)
	}
	return p, err
}
