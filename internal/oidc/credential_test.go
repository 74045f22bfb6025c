package oidc_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/identity"
	"reprise/internal/oidc"
)

// TestCookiesOfTokensAreGoodOnEveryReplica: they carry the claims, and the rule that is applied to them is that of now.
func TestCookiesOfTokensAreGoodOnEveryReplica(t *testing.T) {
	key := newEd(t, "k1")
	p := newProvider(t, key)
	issuer := oidc.Issuer{Name: "corp", Groups: map[string][]identity.Grant{"ops": grantsOf(t, "control")}}
	token := key.sign(t, p.claims(map[string]any{"groups": []string{"ops", "secret-club"}, "email": "a@b.org"}), nil)
	keys, err := reprise.LoadKeyset(filepath.Join(t.TempDir(), "keys"))
	ok(t, err)
	r := httptest.NewRequest(http.MethodPost, "/v1/login", nil)
	login, who, err := identity.NewGate(keys, p.verifier(issuer, oidc.Options{}), nil).Login(r, token)
	ok(t, err)
	for _, secret := range []string{token, "secret-club", "a@b.org"} {
		if strings.Contains(who.Credential, secret) {
			t.Errorf("the cookie holds %q: %s", secret, who.Credential)
		}
	}
	if login.Cookie.Expires.After(who.Expires) {
		t.Errorf("the cookie is good until %v, the token until %v", login.Cookie.Expires, who.Expires)
	}
	use := httptest.NewRequest(http.MethodGet, "/v1/streams", nil)
	use.AddCookie(login.Cookie)
	use.Header.Set(identity.LoginHeader, login.Secret)
	identify := func(issuer oidc.Issuer) (again identity.Principal, err error) {
		v := p.verifier(issuer, oidc.Options{})
		await(t, "the keys are fetched", func() bool {
			again, err = identity.NewGate(keys, v, nil).Identify(use)
			return !errors.Is(err, reprise.ErrUnavailable)
		})
		return again, err
	}
	again, err := identify(issuer)
	ok(t, err)
	want := grantsOf(t, "read", "run:ci-", "control")
	if again.Name != who.Name || again.Tenant != who.Tenant || !slices.Equal(again.Grants, want) {
		t.Errorf("by the cookie %+v, by the token %+v", again, who)
	}
	issuer.Allow = []identity.Scope{"read"}
	issuer.Groups = nil
	if again, err = identify(issuer); err != nil || !slices.Equal(again.Grants, grantsOf(t, "read")) {
		t.Errorf("after the rule was changed: %+v, %v", again.Grants, err)
	}
	other := newProvider(t, key)
	if _, err = identify(oidc.Issuer{URL: other.url}); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("after the issuer was removed: %v", err)
	}
}

// TestGateKeepsATokenToItsPath: at another one it is as good as none.
func TestGateKeepsATokenToItsPath(t *testing.T) {
	key := newEd(t, "k1")
	p := newProvider(t, key)
	keys, err := reprise.LoadKeyset(filepath.Join(t.TempDir(), "keys"))
	ok(t, err)
	gate := identity.NewGate(keys, p.verifier(oidc.Issuer{}, oidc.Options{}), nil)
	token := key.sign(t, p.claims(map[string]any{"aud": resourceURL + "/mcp"}), nil)
	for path, good := range map[string]bool{"/mcp": true, "/v1/streams": false, "/mcp/": false, "/v1/login": false} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		_, err := gate.Identify(r)
		if (err == nil) != good || err != nil && !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("%s: %v", path, err)
		}
		if _, _, err := gate.Login(r, token); (err == nil) != good {
			t.Errorf("login at %s: %v", path, err)
		}
	}
}

// TestMetadataAndChallenges: what a client is told that has no token, a wrong one, or one of too few scopes.
func TestMetadataAndChallenges(t *testing.T) {
	key := newEd(t, "k1")
	p := newProvider(t, key)
	v := p.verifier(oidc.Issuer{ScopePrefix: "rp:"}, oidc.Options{})
	var got struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported"`
	}
	text, found := v.Metadata("/mcp")
	if !found || json.Unmarshal(text, &got) != nil || got.Resource != resourceURL+"/mcp" ||
		!slices.Equal(got.Servers, []string{p.url}) || !slices.Equal(got.Scopes, []string{"rp:read", "rp:run"}) {
		t.Errorf("the metadata of /mcp: %s", text)
	}
	text, found = v.Metadata("")
	if !found || json.Unmarshal(text, &got) != nil || got.Resource != resourceURL ||
		!slices.Equal(got.Scopes, []string{"rp:control", "rp:publish", "rp:read", "rp:run"}) {
		t.Errorf("the metadata of the server: %s", text)
	}
	if text, found = v.Metadata("/else"); found {
		t.Errorf("the metadata of another path: %s", text)
	}
	who, err := v.Verify(t.Context(), key.sign(t, p.claims(map[string]any{"scope": "rp:read rp:run:ci-"}), nil))
	ok(t, err)
	const root, mcp = `resource_metadata="https://reprise.example.org/.well-known/oauth-protected-resource"`,
		`resource_metadata="https://reprise.example.org/.well-known/oauth-protected-resource/mcp"`
	for _, tt := range [][2]string{
		{v.Challenge("/mcp", false), `Bearer ` + mcp + `, scope="rp:read"`},
		{v.Challenge("/mcp", true), `Bearer error="invalid_token", ` + mcp + `, scope="rp:read"`},
		{v.Challenge("/v1/streams", false), `Bearer ` + root},
		{
			v.StepUp("/mcp", &who, "control"),
			`Bearer error="insufficient_scope", ` + mcp + `, scope="rp:read rp:run:ci- rp:control"`,
		},
		{
			v.StepUp("/v1/streams", &who, "publish"),
			`Bearer error="insufficient_scope", ` + root + `, scope="rp:read rp:run:ci- rp:publish"`,
		},
		{v.StepUp("/mcp", &who, "admin"), ""}, // which the issuer may not grant
		{v.StepUp("/mcp", &identity.Principal{}, "run"), ""},
	} {
		if tt[0] != tt[1] {
			t.Errorf("got  %s\nwant %s", tt[0], tt[1])
		}
	}
}

// TestConfigIsChecked: what makes no sense is told before anybody relies on it.
func TestConfigIsChecked(t *testing.T) {
	const full = `
issuers:
- issuer: https://login.example.org/realms/a
  name: a
  audiences: [reprise]
  tenant_claim: org
  tenants: [acme, default]
  scope_prefix: "reprise:"
  scopes: [read, "run:ci-"]
  groups: {ops: [control, admin]}
  allow: [read, run, control, admin]
- issuer: http://127.0.0.1:9/
`
	issuers, err := oidc.ReadConfig(strings.NewReader(full))
	ok(t, err)
	v, err := oidc.New(issuers, &oidc.Options{RefetchEvery: time.Hour})
	ok(t, err)
	v.Close()
	v.Close()
	for _, text := range []string{
		``, `issuers: []`, `issuers: 3`, `issuer: https://a.org`, `issuers: [{url: https://a.org}]`,
		`issuers: [{issuer: https://a.org, scopes: [write]}]`,
		`issuers: [{issuer: https://a.org, scopes: ["admin:x"]}]`,
	} {
		if _, err := oidc.ReadConfig(strings.NewReader(text)); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%s: %v", text, err)
		}
	}
	const url = "https://a.org"
	for name, bad := range map[string][]oidc.Issuer{
		"plain HTTP":                {{URL: "http://login.example.org"}},
		"a password":                {{URL: "https://a:b@a.org"}},
		"no host":                   {{URL: "https:"}},
		"keys over plain HTTP":      {{URL: url, JWKS: "http://a.org/keys"}},
		"the same twice":            {{URL: url}, {URL: url, Name: "b"}},
		"a name twice":              {{URL: url, Name: "a"}, {URL: "https://b.org", Name: "a"}},
		"a name with a space":       {{URL: url, Name: "a b"}},
		"two rules for tenants":     {{URL: url, Tenant: "a", TenantClaim: "b"}},
		"tenants without a claim":   {{URL: url, Tenants: []reprise.Tenant{"a"}}},
		"a tenant of the server":    {{URL: url, Tenant: "reprise.audit"}},
		"a tenant that is none":     {{URL: url, TenantClaim: "a", Tenants: []reprise.Tenant{"a/b"}}},
		"an unknown scope":          {{URL: url, Allow: []identity.Scope{"write"}}},
		"grants that are forbidden": {{URL: url, Scopes: grantsOf(t, "admin")}},
		"groups with too much":      {{URL: url, Groups: map[string][]identity.Grant{"a": grantsOf(t, "audit")}}},
	} {
		if v, err := oidc.New(bad, nil); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
			v.Close()
		}
	}
	for _, text := range []string{"", "reprise.example.org", "https://a.org/x", "ftp://a.org", "https://"} {
		if err := (&oidc.Resource{URL: text}).Validate(); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
