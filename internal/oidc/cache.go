package oidc

import (
	"crypto/sha256"
	"sync"
	"time"

	"reprise/internal/identity"
)

// digest is that of the text of a token.
type digest = [sha256.Size]byte

// cache remembers whose the tokens are that were verified.
type cache struct {
	most int

	mu     sync.RWMutex
	tokens map[digest]identity.Principal
}

// known is whose token has a digest. It reports false for one that was not verified, or has ended since.
func (c *cache) known(d digest, now time.Time) (identity.Principal, bool) {
	c.mu.RLock()
	p, ok := c.tokens[d]
	c.mu.RUnlock()
	return p, ok && isGood(&p, now)
}

func isGood(p *identity.Principal, now time.Time) bool {
	return now.Before(p.Expires) && p.Revoked.Err() == nil
}

// add remembers a token. A full cache forgets those that have ended, or else a tenth of all.
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
