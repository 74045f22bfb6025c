package oidc

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"reprise"
	"reprise/internal/backoff"
	"reprise/internal/identity"
)

// key is a public key of an issuer.
type key struct {
	id         string // kid
	public     any
	algorithm  string // that alone it is for, "" for any that suits it
	thumbprint string // RFC 7638, of the id and the key
	// good is done, with identity.ErrRevoked as its cause, once the issuer has withdrawn the key.
	good     context.Context // the life of the key
	withdraw context.CancelCauseFunc
}

// newKey converts a JWK. It returns false for a key that signs no tokens.
func newKey(jwk *jose.JSONWebKey) (*key, bool) {
	if jwk.Use != "" && jwk.Use != "sig" || !isAccepted(jwk.Key) {
		return nil, false
	}
	sum, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, false
	}
	k := &key{id: jwk.KeyID, public: jwk.Key, algorithm: jwk.Algorithm}
	k.thumbprint = fmt.Sprintf("%s.%x", jwk.KeyID, sum[:16])
	k.good, k.withdraw = context.WithCancelCause(context.Background())
	return k, true
}

// keySet holds the known keys of an issuer. It is safe for concurrent use.
type keySet struct {
	fetch func(context.Context) ([]*key, error)
	opts  *Options

	mu      sync.Mutex
	keys    []*key        // the last valid set
	fetched bool          // whether keys was ever set
	tried   time.Time     // when the last fetch began
	err     error         // of the last fetch that has ended
	running chan struct{} // closed at the end of the current fetch, nil if there is none
}

// errUnknownKey means that a token was signed with none of the issuer's keys.
var errUnknownKey = &identity.GuessError{Reason: "the token is signed with no key of its issuer"}

// find returns the keys that may have signed a token. An unknown key may be new: the set is then fetched again, once
// for all callers, and at most once per Options.RefetchEvery.
func (s *keySet) find(ctx context.Context, id, algorithm string) ([]*key, error) {
	if found := s.matching(id, algorithm); found != nil {
		return found, nil
	}
	if err := s.refetch(ctx); err != nil {
		return nil, err
	}
	if found := s.matching(id, algorithm); found != nil {
		return found, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || !s.fetched {
		return nil, fmt.Errorf("%w: the keys of the issuer of the token cannot be fetched at the moment",
			reprise.ErrUnavailable)
	}
	return nil, errUnknownKey
}

// maxMatching bounds the keys that are tried for one token.
const maxMatching = 4

// matching returns the known keys with an id that suit an algorithm. A token without a key id needs a set in which
// exactly one key suits.
func (s *keySet) matching(id, algorithm string) (found []*key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys {
		if (id == "" || k.id == id) && (k.algorithm == "" || k.algorithm == algorithm) && suits(k.public, algorithm) {
			found = append(found, k)
		}
	}
	if len(found) > maxMatching || id == "" && len(found) > 1 {
		return nil
	}
	return found
}

// named returns a known key by its thumbprint.
func (s *keySet) named(thumbprint string) *key {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys {
		if k.thumbprint == thumbprint {
			return k
		}
	}
	return nil
}

// refetch waits for a fetch of the set, and starts one if the last was long enough ago. The error is that of ctx.
func (s *keySet) refetch(ctx context.Context) error {
	s.mu.Lock()
	running := s.running
	if running == nil && (s.tried.IsZero() || time.Since(s.tried) >= s.opts.RefetchEvery) {
		begun := make(chan struct{})
		if s.opts.work.begin(func() { s.attempt(begun) }) {
			running, s.running, s.tried = begun, begun, time.Now()
		}
	}
	s.mu.Unlock()
	if running == nil {
		return nil
	}
	select {
	case <-running:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// attempt fetches the set once. If that fails, the last valid set stays.
func (s *keySet) attempt(running chan struct{}) {
	ctx, cancel := context.WithTimeoutCause(s.opts.life, s.opts.FetchTimeout, errSlow)
	defer cancel()
	keys, err := s.fetch(ctx)
	if err == nil && len(keys) == 0 {
		err = errors.New("the set contains no key that can sign tokens")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.take(keys)
	}
	if err != nil && s.opts.life.Err() == nil && (s.err == nil || s.err.Error() != err.Error()) {
		s.opts.Logger.Warn("the keys of an issuer cannot be fetched; those that are known stay good", "error", err,
			"known", len(s.keys))
	}
	s.err, s.running = err, nil
	close(running)
}

// errSlow ends a fetch that takes too long.
var errSlow = errors.New("the provider is too slow")

// take replaces the set. Keys that are missing in the new set are withdrawn. The caller holds mu.
func (s *keySet) take(keys []*key) {
	old := map[string]*key{}
	for _, k := range s.keys {
		old[k.thumbprint] = k
	}
	for i, k := range keys {
		if known := old[k.thumbprint]; known != nil {
			known.algorithm = k.algorithm
			keys[i] = known
			delete(old, k.thumbprint)
		}
	}
	for _, k := range old {
		k.withdraw(identity.ErrRevoked)
	}
	s.keys, s.fetched = keys, true
}

// refresh fetches the set periodically, and sooner after a failure.
func (s *keySet) refresh() {
	wait := backoff.Backoff{First: s.opts.RefetchEvery, Most: s.opts.RefreshEvery}
	for s.opts.life.Err() == nil {
		if s.refetch(s.opts.life) != nil {
			return
		}
		s.mu.Lock()
		failed := s.err != nil
		s.mu.Unlock()
		pause := s.opts.RefreshEvery
		if failed {
			pause = wait.Next()
		} else {
			wait.Reset()
		}
		_ = backoff.Sleep(s.opts.life, pause)
	}
}
