package oidc

import (
	"crypto/sha256"
	"sync"
	"time"

	"reprise/internal/identity"
)

// digest is the digest of a token's text.
type digest = [sha256.Size]byte

// cache holds the principals of verified tokens.
type cache struct {
	most int

	mu     sync.RWMutex
	tokens map[digest]identity.Principal
}

// known returns the principal of the token with a digest. It returns false for a token that was not verified or has
// expired.
func (c *cache) known(d digest, now time.Time) (identity.Principal, bool) {
	c.mu.RLock()
	p, ok := c.tokens[d]
	c.mu.RUnlock()
	return p, ok && isGood(&p, now)
}

func isGood(p *identity.Principal, now time.Time) bool {
	return now.Before(p.Expires) && p.Revoked.Err() == nil
}

// add stores a token. A full cache drops the expired tokens, or else a tenth of all.
func (c *cache) add(d digest, p identity.Principal, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.tokens) >= c.most {
		for d, p := range c.tokens {
			if !isGood(&p, now) {
				delete(c.tokens, d)
			}
		}
	}
	if len(c.tokens) >= c.most {
		left := c.most / 10
		for d := range c.tokens {
			delete(c.tokens, d)
			if left--; left < 0 {
				break
			}
		}
	}
	c.tokens[d] = p
}
