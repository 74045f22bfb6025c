package oidc_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"

	"reprise/internal/identity"
	"reprise/internal/oidc"
)

func TestMain(m *testing.M) {
	flagged := m.Run()
	if err := goleak.Find(); flagged == 0 && err != nil {
		println(err.Error())
		flagged = 1
	}
	os.Exit(flagged)
}

// resourceURL is the server that tokens of the tests are for.
const resourceURL = "https://reprise.example.org"

// signer is a private key of a provider, and how it signs.
type signer struct {
	id        string
	algorithm jose.SignatureAlgorithm
	private   crypto.Signer
}

func newRSA(t testing.TB, id string, algorithm jose.SignatureAlgorithm) *signer {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	ok(t, err)
	return &signer{id, algorithm, private}
}

func newEC(t testing.TB, id string, algorithm jose.SignatureAlgorithm) *signer {
	t.Helper()
	curve := map[jose.SignatureAlgorithm]elliptic.Curve{
		jose.ES256: elliptic.P256(), jose.ES384: elliptic.P384(), jose.ES512: elliptic.P521(),
	}[algorithm]
	private, err := ecdsa.GenerateKey(curve, rand.Reader)
	ok(t, err)
	return &signer{id, algorithm, private}
}

func newEd(t testing.TB, id string) *signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	ok(t, err)
	return &signer{id, jose.EdDSA, private}
}

func (s *signer) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.private.Public(), KeyID: s.id, Use: "sig", Algorithm: string(s.algorithm)}
}

// sign signs a payload with further headers.
func (s *signer) sign(t testing.TB, payload any, headers map[jose.HeaderKey]any) string {
	t.Helper()
	opts := (&jose.SignerOptions{}).WithType("at+jwt")
	for name, value := range headers {
		opts = opts.WithHeader(name, value)
	}
	key := any(s.private)
	if s.id != "" {
		key = jose.JSONWebKey{Key: s.private, KeyID: s.id}
	}
	with, err := jose.NewSigner(jose.SigningKey{Algorithm: s.algorithm, Key: key}, opts)
	ok(t, err)
	text, err := json.Marshal(payload)
	ok(t, err)
	signed, err := with.Sign(text)
	ok(t, err)
	token, err := signed.CompactSerialize()
	ok(t, err)
	return token
}

// provider is an identity provider: documents over HTTP, and keys that sign. Its fields may be changed under mu.
type provider struct {
	testing.TB
	server *httptest.Server
	url    string

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	fetches int // of the keys
	issuer  string
	// broken, if not nil, answers in place of the provider.
	broken http.HandlerFunc
}

func newProvider(t testing.TB, keys ...*signer) *provider {
	t.Helper()
	p := &provider{TB: t}
	p.publish(keys...)
	p.server = httptest.NewUnstartedServer(p)
	p.url = "http://" + p.server.Listener.Addr().String()
	p.issuer = p.url
	p.server.Start()
	t.Cleanup(p.server.Close)
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	broken, issuer := p.broken, p.issuer
	if r.URL.Path == "/keys" {
		p.fetches++
	}
	keys := p.keys
	p.mu.Unlock()
	switch {
	case broken != nil:
		broken(w, r)
	case r.URL.Path == "/keys":
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: keys})
	case r.URL.Path == "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": issuer, "jwks_uri": p.url + "/keys"})
	default:
		http.NotFound(w, r)
	}
}

// publish makes keys those that the provider has.
func (p *provider) publish(keys ...*signer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = nil
	for _, s := range keys {
		p.keys = append(p.keys, s.public())
	}
}

// fail answers with broken from now on, and as before with nil.
func (p *provider) fail(broken http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = broken
}

func (p *provider) fetched() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fetches
}

// claims are those of a token that is good for an hour, with changes; nil takes a claim away.
func (p *provider) claims(changes map[string]any) map[string]any {
	now := time.Now().Unix()
	c := map[string]any{
		"iss": p.url, "sub": "alice", "aud": resourceURL, "exp": now + 3600, "iat": now, "scope": "openid read run:ci-",
	}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, value any) bool { return value == nil })
	return c
}

// verifier makes a Verifier of the provider that has its keys.
func (p *provider) verifier(issuer oidc.Issuer, opts oidc.Options) *oidc.Verifier {
	p.Helper()
	if issuer.URL == "" {
		issuer.URL = p.url
	}
	if opts.Resource == nil {
		read := []identity.Scope{identity.ScopeRead}
		opts.Resource = &oidc.Resource{
			URL:   resourceURL,
			Paths: map[string]oidc.PathScopes{"/mcp": {First: read, All: append(read, identity.ScopeRun)}},
		}
	}
	v, err := oidc.New([]oidc.Issuer{issuer}, &opts)
	ok(p, err)
	p.Cleanup(v.Close)
	return v
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// isGuess reports whether an error is counted as a guess.
func isGuess(err error) bool {
	_, is := errors.AsType[*identity.GuessError](err)
	return is
}
