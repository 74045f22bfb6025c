// Package oidctest is an identity provider for tests: discovery, keys, and the authorization code flow with PKCE, at
// which everybody is logged in at once.
package oidctest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Client is the only client that a Provider knows.
const Client = "console"

// Provider is an identity provider.
type Provider struct {
	testing.TB
	URL string
	// Redirect is the only redirect URI of Client, Audience that of the access tokens, Scope what they grant.
	Redirect, Audience, Scope string
	// Forge changes the claims of an ID token before it is signed, if it is not nil.
	Forge func(claims map[string]any)
	// Deny makes it refuse every person.
	Deny atomic.Bool
	// Documents is how often its document was fetched.
	Documents atomic.Int64

	public ed25519.PublicKey
	signer jose.Signer

	mu    sync.Mutex
	codes map[string]url.Values // the requests that codes were issued for
}

// New returns a Provider that is there until the test ends.
func New(tb testing.TB) *Provider {
	tb.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	p := &Provider{TB: tb, public: public, codes: map[string]url.Values{}}
	key := jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: "k"}}
	if p.signer, err = jose.NewSigner(key, nil); err != nil {
		tb.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		p.Documents.Add(1)
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"authorization_endpoint":%q,"token_endpoint":%q}`,
			p.URL, p.URL+"/keys", p.URL+"/authorize?tenant=1", p.URL+"/token")
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.public, KeyID: "k"}}})
	})
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	server := httptest.NewServer(mux)
	tb.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

// authorize logs a person in and sends them back with a code.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Get("client_id") != Client || query.Get("redirect_uri") != p.Redirect || query.Get("tenant") != "1" ||
		query.Get("response_type") != "code" || query.Get("code_challenge_method") != "S256" {
		http.Error(w, "a request that a provider refuses", http.StatusBadRequest)
		return
	}
	if p.Deny.Load() {
		http.Redirect(w, r, p.Redirect+"?error=access_denied&state="+query.Get("state"), http.StatusFound)
		return
	}
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = query
	p.mu.Unlock()
	back := url.Values{"code": {code}, "state": {query.Get("state")}, "iss": {p.URL}}
	http.Redirect(w, r, p.Redirect+"?"+back.Encode(), http.StatusFound)
}

// token exchanges a code, once.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	code := r.PostFormValue("code")
	p.mu.Lock()
	begun, ok := p.codes[code]
	delete(p.codes, code)
	p.mu.Unlock()
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	if !ok || begun.Get("code_challenge") != challenge || r.PostFormValue("redirect_uri") != p.Redirect ||
		r.PostFormValue("client_id") != Client || r.PostFormValue("grant_type") != "authorization_code" {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_grant"}`)
		return
	}
	expires := time.Now().Add(time.Hour).Unix()
	id := map[string]any{"iss": p.URL, "sub": "alice", "aud": Client, "exp": expires, "nonce": begun.Get("nonce")}
	if p.Forge != nil {
		p.Forge(id)
	}
	access := map[string]any{"iss": p.URL, "sub": "alice", "aud": p.Audience, "exp": expires, "scope": p.Scope}
	_ = json.NewEncoder(w).Encode(map[string]string{"access_token": p.sign(access), "id_token": p.sign(id)})
}

func (p *Provider) sign(claims map[string]any) string {
	text, err := json.Marshal(claims)
	if err != nil {
		p.Error(err)
	}
	signed, err := p.signer.Sign(text)
	if err != nil {
		p.Error(err)
	}
	compact, err := signed.CompactSerialize()
	if err != nil {
		p.Error(err)
	}
	return compact
}
