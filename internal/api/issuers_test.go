package api_test

import (
	"bufio"
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"reprise/internal/api"
	"reprise/internal/identity"
	"reprise/internal/oidc"
)

// issuer is an identity provider with one key.
type issuer struct {
	testing.TB
	url    string
	signer jose.Signer
}

const publicURL = "https://reprise.example.org"

// newIssuer makes an issuer, and a verifier that knows it.
func newIssuer(tb testing.TB, rule oidc.Issuer) (*issuer, *oidc.Verifier) {
	tb.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "k", Use: "sig"}}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(set)
	}))
	tb.Cleanup(server.Close)
	i := &issuer{TB: tb, url: server.URL}
	key := jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: "k"}}
	if i.signer, err = jose.NewSigner(key, nil); err != nil {
		tb.Fatal(err)
	}
	rule.URL, rule.JWKS, rule.Name = i.url, i.url, "corp"
	v, err := oidc.New([]oidc.Issuer{rule}, &oidc.Options{
		Leeway: time.Nanosecond,
		Resource: &oidc.Resource{URL: publicURL, Paths: map[string]oidc.PathScopes{"/mcp": {
			First: []identity.Scope{identity.ScopeRun}, All: []identity.Scope{identity.ScopeRun},
		}}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(v.Close)
	return i, v
}

// token is one of a user, for a time.
func (i *issuer) token(scope, audience string, good time.Duration) string {
	i.Helper()
	return i.tokenOf("acme", scope, audience, good)
}

// tokenOf is one of a user of a tenant.
func (i *issuer) tokenOf(tenant, scope, audience string, good time.Duration) string {
	i.Helper()
	claims, err := json.Marshal(map[string]any{
		"iss": i.url, "sub": "alice", "aud": audience, "scope": scope, "tenant": tenant,
		"exp": float64(time.Now().Add(good).UnixMilli()) / 1000,
	})
	if err != nil {
		i.Fatal(err)
	}
	signed, err := i.signer.Sign(claims)
	if err != nil {
		i.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		i.Fatal(err)
	}
	return text
}

// TestTokensOfIssuersHaveTheirTenantAndScopes: and those of others see nothing.
func TestTokensOfIssuersHaveTheirTenantAndScopes(t *testing.T) {
	i, verifier := newIssuer(t, oidc.Issuer{TenantClaim: "tenant"})
	w := start(t, setup{api: api.Options{Issuers: verifier}, audit: true})
	w.with(i.token("publish read:a-", publicURL, time.Hour), func() {
		w.do("PUT", "/v1/streams/a-1", `{}`).is(201)
		w.do("PUT", "/v1/streams/b-1", `{}`).is(201)
		w.do("GET", "/v1/streams/a-1", "").is(200)
		w.do("GET", "/v1/streams/b-1", "").refused(404, "not_found")
		a := w.do("POST", "/v1/executions", `{"argv":["true"]}`).refused(403, "forbidden")
		want := `Bearer error="insufficient_scope", resource_metadata="` + publicURL + oidc.MetadataPath +
			`", scope="publish read:a- run"`
		if got := a.header.Get("WWW-Authenticate"); got != want {
			t.Errorf("the challenge %s, want %s", got, want)
		}
		a = w.do("GET", "/metrics", "").refused(403, "forbidden")
		if got := a.header.Get("WWW-Authenticate"); got != "" {
			t.Errorf("a challenge for what the issuer may not grant: %s", got)
		}
	})
	w.sawAct("alice@corp@acme PUT /v1/streams/{name} /v1/streams/a-1")
	w.do("GET", "/v1/streams/a-1", "").refused(404, "not_found") // of another tenant
	_, key := w.key("acme", "read")
	w.with(key, func() { w.do("GET", "/v1/streams/a-1", "").is(200) })
	w.with(i.token("read", publicURL+"/mcp", time.Hour), func() {
		w.do("GET", "/v1/streams/a-1", "").refused(401, "unauthenticated")
	})
}

// TestChallengesNameTheMetadata: and a server without issuers says Bearer alone, see TestInvalidCredentialsAreRefused.
func TestChallengesNameTheMetadata(t *testing.T) {
	i, verifier := newIssuer(t, oidc.Issuer{})
	w := start(t, setup{api: api.Options{Issuers: verifier}})
	metadata := `resource_metadata="` + publicURL + oidc.MetadataPath + `"`
	for sent, want := range map[string]string{
		"":                                     `Bearer ` + metadata,
		"not-a-token":                          `Bearer error="invalid_token", ` + metadata,
		i.token("read", publicURL, -time.Hour): `Bearer error="invalid_token", ` + metadata,
	} {
		w.with(sent, func() {
			a := w.do("GET", "/v1/streams", "").refused(401, "unauthenticated")
			if got := a.header.Get("WWW-Authenticate"); got != want {
				t.Errorf("the challenge %s, want %s", got, want)
			}
		})
	}
	w.token = ""
	for path, resource := range map[string]string{"": publicURL, "/mcp": publicURL + "/mcp"} {
		var body struct {
			Resource string   `json:"resource"`
			Servers  []string `json:"authorization_servers"`
		}
		res := w.bare("GET", oidc.MetadataPath+path)
		err := json.NewDecoder(res.Body).Decode(&body)
		res.Body.Close()
		known := slices.Equal(body.Servers, []string{i.url})
		if err != nil || res.StatusCode != 200 || body.Resource != resource || !known {
			t.Errorf("%q: %d %+v, %v", path, res.StatusCode, body, err)
		}
	}
	for request, status := range map[string]int{
		"GET " + oidc.MetadataPath + "/else": 404,
		"POST " + oidc.MetadataPath:          405,
		"OPTIONS " + oidc.MetadataPath:       204,
	} {
		method, path, _ := strings.Cut(request, " ")
		res := w.bare(method, path)
		res.Body.Close()
		if res.StatusCode != status {
			t.Errorf("%s: %d, want %d", request, res.StatusCode, status)
		}
	}
	none := start(t, setup{})
	res := none.bare("GET", oidc.MetadataPath)
	res.Body.Close()
	if res.StatusCode != 404 {
		t.Errorf("metadata of a server without issuers: %d", res.StatusCode)
	}
}

// bare sends a request for what the contract does not describe.
func (w *fixture) bare(method, path string) *http.Response {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), method, w.url+path, nil)
	w.ok(err)
	res, err := http.DefaultTransport.RoundTrip(req)
	w.ok(err)
	return res
}

// TestExpiryOfATokenEndsWhatIsOpen: what is followed ends with the token, with its cookie and with its tickets. A token
// that is too short for a busy machine is tried again with a longer one.
func TestExpiryOfATokenEndsWhatIsOpen(t *testing.T) {
	i, verifier := newIssuer(t, oidc.Issuer{})
	w := start(t, setup{api: api.Options{Issuers: verifier}})
	w.stream("s", "x")
	for life := 2 * time.Second; !w.endsWithItsToken(i, life); life *= 4 {
		if life > time.Minute {
			t.Fatalf("what was opened with a token of %v did not outlive its first event", life)
		}
	}
}

// endsWithItsToken reports false if the token had expired before all was open.
func (w *fixture) endsWithItsToken(i *issuer, life time.Duration) bool {
	w.Helper()
	expires := time.Now().Add(life)
	token := i.token("read", publicURL, life)
	send := func(credential, method, path, body string, headers ...string) (res *http.Response) {
		w.with(credential, func() { res = w.open(method, path, body, headers...) })
		return res
	}
	var login []string
	w.with(token, func() { login = w.do("POST", "/v1/login", "").login() })
	asked := send(token, "POST", "/v1/tickets", `{"stream":"s","ttl":"1h"}`)
	var ticket struct{ Events string }
	_ = json.NewDecoder(asked.Body).Decode(&ticket) // refused, it has none
	asked.Body.Close()
	const events = "/v1/streams/s/events"
	open := map[string]*http.Response{
		"token":  send(token, "GET", events, "", asLines),
		"cookie": send("", "GET", events, "", append(login, asLines)...),
		"ticket": send("", "GET", cmp.Or(ticket.Events, events), "", asLines),
	}
	for name, res := range open {
		defer res.Body.Close()
		in := bufio.NewReader(res.Body)
		line, err := in.ReadString('\n')
		if res.StatusCode != 200 || err != nil || !strings.Contains(line, `"x"`) {
			if time.Until(expires) > time.Second {
				w.Fatalf("%s: %d %q", name, res.StatusCode, line)
			}
			return false
		}
		more, _ := io.ReadAll(in)
		// Cookies and tickets end with a whole second.
		if left := time.Until(expires); strings.TrimSpace(string(more)) != "" || left > 1100*time.Millisecond {
			w.Errorf("%s: ended %v before the token, after %q", name, left, more)
		}
	}
	w.with(token, func() { w.do("GET", events, "").refused(401, "unauthenticated") })
	w.with("", func() {
		w.do("GET", events, "", login...).refused(401, "unauthenticated")
		w.do("GET", ticket.Events, "").refused(401, "unauthenticated")
	})
	return true
}
