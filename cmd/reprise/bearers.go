package main

import (
	"context"
	"sync"

	"reprise/internal/identity"
	"reprise/internal/quota"
)

// maxBearers is the number of principals whose limits are remembered in one generation.
const maxBearers = 10_000

// bearers remember the limits of principals of identity providers by name. Their sessions and the data that they keep
// are counted when no token is at hand. The newest token of a principal applies. The zero value is empty.
type bearers struct {
	mu sync.Mutex
	// young has the principals that were seen since the last change of generations, and old those of the one before.
	young, old map[quota.Account]quota.Holder
}

// note remembers the limits of a principal.
func (b *bearers) note(p *identity.Principal) {
	h := p.Holder()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put(h)
}

// put adds a holder to the young generation. The caller holds mu.
func (b *bearers) put(h *quota.Holder) {
	if b.young == nil || len(b.young) >= maxBearers {
		b.young, b.old = map[quota.Account]quota.Holder{}, b.young
	}
	b.young[h.Account] = *h
}

// recall adds the limits of a principal that was seen before to h.
func (b *bearers) recall(h *quota.Holder) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, ok := b.young[h.Account]; ok {
		*h = known
	} else if known, ok := b.old[h.Account]; ok {
		*h = known
		b.put(h)
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
