package oidc_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"reprise"
	"reprise/internal/identity"
	"reprise/internal/oidc"
)

// patience bounds what a test waits for that has to come.
const patience = 30 * time.Second

// await waits until a condition holds.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// TestRotatedKeysAreFetchedWhenTheyAreUsed: a token of a new key is good at once, and one of the old key as long as the
// provider has it.
func TestRotatedKeysAreFetchedWhenTheyAreUsed(t *testing.T) {
	first, second := newEd(t, "k1"), newEd(t, "k2")
	p := newProvider(t, first)
	v := p.verifier(oidc.Issuer{}, oidc.Options{RefetchEvery: time.Nanosecond, RefreshEvery: time.Hour})
	old, err := v.Verify(t.Context(), first.sign(t, p.claims(nil), nil))
	ok(t, err)

	p.publish(first, second)
	before := p.fetched()
	for range 3 {
		_, err = v.Verify(t.Context(), second.sign(t, p.claims(nil), nil))
		ok(t, err)
	}
	if fetched := p.fetched() - before; fetched != 1 {
		t.Errorf("the keys were fetched %d times for one new key", fetched)
	}
	if _, err := v.Verify(t.Context(), first.sign(t, p.claims(nil), nil)); err != nil || old.Revoked.Err() != nil {
		t.Errorf("the old key is not good any more: %v", err)
	}
}

// TestWithdrawnKeyEndsItsTokens: what was opened with them, too.
func TestWithdrawnKeyEndsItsTokens(t *testing.T) {
	first, second := newEd(t, "k1"), newEd(t, "k2")
	p := newProvider(t, first)
	v := p.verifier(oidc.Issuer{}, oidc.Options{RefetchEvery: time.Nanosecond, RefreshEvery: 10 * time.Millisecond})
	token := first.sign(t, p.claims(nil), nil)
	who, err := v.Verify(t.Context(), token)
	ok(t, err)
	p.publish(second)
	select {
	case <-who.Revoked.Done():
	case <-time.After(patience):
		t.Fatal("the principal of a withdrawn key goes on")
	}
	if cause := context.Cause(who.Revoked); !errors.Is(cause, identity.ErrRevoked) {
		t.Errorf("ended with %v", cause)
	}
	if _, err := v.Verify(t.Context(), token); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("the token is still taken: %v", err)
	}
	if _, err := v.Current(t.Context(), who.Credential); !errors.Is(err, identity.ErrRevoked) {
		t.Errorf("its cookie is still taken: %v", err)
	}
}

// TestLastGoodKeysStay: whatever the provider answers, tokens of known keys are good, and those of unknown ones are
// neither good nor wrong until it is known.
func TestLastGoodKeysStay(t *testing.T) {
	key, unknown := newEd(t, "k1"), newEd(t, "k2")
	p := newProvider(t, key)
	opts := oidc.Options{RefetchEvery: time.Nanosecond, RefreshEvery: time.Hour, FetchTimeout: patience}
	patient := p.verifier(oidc.Issuer{}, opts)
	opts.FetchTimeout = 200 * time.Millisecond
	impatient := p.verifier(oidc.Issuer{}, opts)
	for _, v := range []*oidc.Verifier{patient, impatient} {
		await(t, "the keys are known", func() bool {
			_, err := v.Verify(t.Context(), key.sign(t, p.claims(nil), nil))
			return err == nil
		})
	}
	private := jose.JSONWebKey{Key: []byte(strings.Repeat("x", 32)), KeyID: "k2"}
	secret, err := private.MarshalJSON()
	ok(t, err)
	write := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
	}
	onlyKeys := func(then http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/keys" {
				then(w, r)
				return
			}
			fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, p.url, p.url+"/keys")
		}
	}
	for name, broken := range map[string]http.HandlerFunc{
		"an error":        status(http.StatusInternalServerError),
		"no JSON":         write("<html>"),
		"another issuer":  write(`{"issuer":"https://other.example.org","jwks_uri":"` + p.url + `/keys"}`),
		"keys over http":  write(fmt.Sprintf(`{"issuer":%q,"jwks_uri":"http://other.example.org/keys"}`, p.url)),
		"keys in a file":  write(fmt.Sprintf(`{"issuer":%q,"jwks_uri":"file:///etc/passwd"}`, p.url)),
		"a redirection":   http.RedirectHandler("/else", http.StatusFound).ServeHTTP,
		"no keys":         onlyKeys(write(`{"keys":[]}`)),
		"a secret as key": onlyKeys(write(`{"keys":[` + string(secret) + `]}`)),
		"too many keys":   onlyKeys(write(`{"keys":[` + strings.TrimSuffix(strings.Repeat("{},", 101), ",") + `]}`)),
		"a huge set":      onlyKeys(endless(`{"keys":[`)),
		"a slow set": onlyKeys(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}),
		"a cut connection": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			v := patient
			if name == "a slow set" {
				v = impatient
			}
			p.fail(broken)
			defer p.fail(nil)
			_, err := v.Verify(t.Context(), unknown.sign(t, p.claims(nil), nil))
			if !errors.Is(err, reprise.ErrUnavailable) {
				t.Errorf("a token of an unknown key: %v", err)
			}
			if _, err := v.Verify(t.Context(), key.sign(t, p.claims(nil), nil)); err != nil {
				t.Errorf("a token of a known key: %v", err)
			}
		})
	}
	if _, err := patient.Verify(t.Context(), unknown.sign(t, p.claims(nil), nil)); !isGuess(err) {
		t.Errorf("a token of a key that is not there, once the provider is back: %v", err)
	}
}

// status answers with a status alone.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// endless answers with more than anybody reads.
func endless(begin string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, begin)
		for r.Context().Err() == nil {
			if _, err := fmt.Fprint(w, strings.Repeat(" ", 64<<10)); err != nil {
				return
			}
		}
	}
}

// TestProviderMayBeAwayAtTheStart: tokens are told to come back, and are good once it is there.
func TestProviderMayBeAwayAtTheStart(t *testing.T) {
	key := newEd(t, "k1")
	p := newProvider(t, key)
	p.fail(status(http.StatusBadGateway))
	v := p.verifier(oidc.Issuer{}, oidc.Options{RefetchEvery: time.Millisecond, RefreshEvery: 5 * time.Millisecond})
	token := key.sign(t, p.claims(nil), nil)
	_, err := v.Verify(t.Context(), token)
	if !errors.Is(err, reprise.ErrUnavailable) || errors.Is(err, identity.ErrUnauthenticated) {
		t.Fatalf("while the provider is away: %v", err)
	}
	p.fail(nil)
	await(t, "the token is good", func() bool {
		_, err := v.Verify(t.Context(), token)
		return err == nil
	})
}

// TestUnknownKeysAreFetchedOnceInAWhile: 200 tokens with keys of somebody's making cost the provider one fetch.
func TestUnknownKeysAreFetchedOnceInAWhile(t *testing.T) {
	key, stranger := newEd(t, "k1"), newEd(t, "")
	p := newProvider(t, key)
	v := p.verifier(oidc.Issuer{}, oidc.Options{RefetchEvery: time.Hour})
	_, err := v.Verify(t.Context(), key.sign(t, p.claims(nil), nil))
	ok(t, err)
	before := p.fetched()
	var waiting sync.WaitGroup
	for i := range 8 {
		waiting.Go(func() {
			for j := range 25 {
				forger := &signer{fmt.Sprintf("k-%d-%d", i, j), jose.EdDSA, stranger.private}
				forged := forger.sign(t, p.claims(nil), nil)
				if _, err := v.Verify(t.Context(), forged); !isGuess(err) {
					t.Errorf("a forged token: %v", err)
				}
			}
		})
	}
	waiting.Wait()
	if fetched := p.fetched() - before; fetched != 0 {
		t.Errorf("%d fetches although the last was less than an hour ago", fetched)
	}
}

// TestConcurrentTokensWaitForOneFetch: the keys of a set that nobody has yet.
func TestConcurrentTokensWaitForOneFetch(t *testing.T) {
	key := newEd(t, "k1")
	p := newProvider(t, key)
	hold := make(chan struct{})
	p.fail(func(w http.ResponseWriter, _ *http.Request) {
		<-hold
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, p.url, p.url+"/keys")
	})
	v := p.verifier(oidc.Issuer{}, oidc.Options{RefetchEvery: time.Hour, FetchTimeout: patience})
	var waiting sync.WaitGroup
	for range 50 {
		token := key.sign(t, p.claims(nil), nil)
		waiting.Go(func() {
			if _, err := v.Verify(t.Context(), token); err != nil {
				t.Errorf("a token that has waited: %v", err)
			}
		})
	}
	p.fail(nil)
	close(hold)
	waiting.Wait()
	if fetched := p.fetched(); fetched != 1 {
		t.Errorf("%d fetches", fetched)
	}
}

// TestWaitingForKeysEndsWithItsRequest: a slow provider holds nobody who has gone.
func TestWaitingForKeysEndsWithItsRequest(t *testing.T) {
	key := newEd(t, "k1")
	p := newProvider(t, key)
	p.fail(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	v := p.verifier(oidc.Issuer{}, oidc.Options{FetchTimeout: time.Hour})
	gone := errors.New("the client has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := v.Verify(ctx, key.sign(t, p.claims(nil), nil)); !errors.Is(err, gone) {
		t.Errorf("it ends with %v", err)
	}
}

// TestUnusableKeysAreIgnored: unusable keys of a set do not affect the others.
func TestUnusableKeysAreIgnored(t *testing.T) {
	key := newEd(t, "k1")
	p := newProvider(t, key)
	encrypts := newEC(t, "enc", jose.ES256)
	p.mu.Lock()
	jwk := encrypts.public()
	jwk.Use = "enc"
	p.keys = append(p.keys, jwk, key.public(), jose.JSONWebKey{Key: []byte("secret"), KeyID: "oct"},
		jose.JSONWebKey{Key: newRSA(t, "private", jose.RS256).private, KeyID: "private"})
	p.mu.Unlock()
	v := p.verifier(oidc.Issuer{}, oidc.Options{RefetchEvery: time.Hour})
	if _, err := v.Verify(t.Context(), key.sign(t, p.claims(nil), nil)); err != nil {
		t.Error(err)
	}
	if _, err := v.Verify(t.Context(), encrypts.sign(t, p.claims(nil), nil)); !isGuess(err) {
		t.Errorf("a token signed with a key that encrypts: %v", err)
	}
}
