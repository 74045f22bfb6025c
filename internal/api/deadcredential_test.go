package api_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/apikey"
	"reprise/internal/identity"
	"reprise/internal/oidc"
)

// deadCredentials are proofs that were good, were meant for something else, or were never good, each for all that the
// victim's tenant has.
func (v *victimFixture) deadCredentials(i *issuer) map[string]func(*http.Request) {
	v.Helper()
	all := []string{"read", "publish", "run", "control", "admin", "audit"}
	id, revoked := v.key(reprise.DefaultTenant, all...)
	revokedLogin := v.cookie(revoked)
	var ticketOfRevoked string
	stream := `{"stream":"` + v.hidden.word + `"`
	v.with(revoked, func() { ticketOfRevoked = v.do("POST", "/v1/tickets", stream+`}`).is(201).text("ticket") })
	_, err := v.keys.Revoke(v.Context(), id)
	v.ok(err)
	id, rotated := v.key(reprise.DefaultTenant, all...)
	_, _, err = v.keys.Rotate(v.Context(), id)
	v.ok(err)
	_, living := v.key(reprise.DefaultTenant, all...)
	loggedOut := v.cookie(living)
	v.send(wireRequest{method: "DELETE", path: "/v1/login"}, loggedOut).is(204)
	login := v.cookie(living)
	ticket := v.do("POST", "/v1/tickets", stream+`}`).is(201).text("ticket")
	brief := v.do("POST", "/v1/tickets", stream+`,"ttl":"1s"}`).is(201).text("ticket")
	v.eventually("the ticket expires", func() bool {
		r := wireRequest{method: "GET", path: "/v1/streams/" + v.hidden.word + "/events"}
		return v.send(r, withTicket(brief)).status == 401
	})
	proof := func(by *issuer, audience string, good time.Duration) string {
		return by.tokenOf(string(reprise.DefaultTenant), strings.Join(all, " "), audience, good)
	}
	jwt := proof(i, publicURL, time.Hour)
	v.send(wireRequest{method: "GET", path: "/v1/streams"}, bearer(jwt)).is(200)
	header, rest, _ := strings.Cut(jwt, ".")
	payload, _, _ := strings.Cut(rest, ".")
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
	return map[string]func(*http.Request){
		"nothing":                     func(*http.Request) {},
		"an expired key":              bearer(v.expiredKey(all)),
		"a revoked key":               bearer(revoked),
		"a key before its rotation":   bearer(rotated),
		"a key with a wrong secret":   bearer(living[:len(living)-4] + "0000"),
		"a key as a basic password":   func(r *http.Request) { r.SetBasicAuth("x", living) },
		"a token that is cut":         bearer(token[:len(token)-1]),
		"a login that has ended":      loggedOut,
		"a login of a revoked key":    revokedLogin,
		"a login without its secret":  func(r *http.Request) { login(r); r.Header.Del(identity.LoginHeader) },
		"an expired ticket":           withTicket(brief),
		"a ticket of a revoked key":   withTicket(ticketOfRevoked),
		"a ticket that was changed":   withTicket(unlike(ticket)),
		"a ticket as a token":         bearer(ticket),
		"a ticket as a cookie":        func(r *http.Request) { r.Header.Set("Cookie", identity.CookieName+"="+ticket) },
		"an expired JWT":              bearer(proof(i, publicURL, -time.Hour)),
		"a JWT for another audience":  bearer(proof(i, "https://other.example.org", time.Hour)),
		"a JWT for another path":      bearer(proof(i, publicURL+"/mcp", time.Hour)),
		"a JWT of a forger":           bearer(proof(v.forger(i), publicURL, time.Hour)),
		"a JWT without an algorithm":  bearer(unsigned + "." + payload + "."),
		"a JWT with another body":     bearer(header + "." + unlike(payload) + jwt[strings.LastIndexByte(jwt, '.'):]),
		"a JWT of another provider":   bearer(proof(v.stranger(), publicURL, time.Hour)),
		"a JWT with the key as HS256": bearer(proof(v.confused(i), publicURL, time.Hour)),
	}
}

// expiredKey is a key whose time is over.
func (v *victimFixture) expiredKey(scopes []string) string {
	v.Helper()
	var grants []identity.Grant
	for _, scope := range scopes {
		grants = append(grants, identity.Grant{Scope: identity.Scope(scope)})
	}
	_, key, err := v.keys.Add(v.Context(), apikey.Request{
		Name: "brief", Tenant: reprise.DefaultTenant, Scopes: grants, Expires: time.Now().Add(2 * time.Second),
	})
	v.ok(err)
	v.eventually("the key expires", func() bool {
		return v.send(wireRequest{method: "GET", path: "/v1/streams"}, bearer(key)).status == 401
	})
	return key
}

// stranger is a provider that the server does not know.
func (v *victimFixture) stranger() *issuer {
	i, _ := newIssuer(v, oidc.Issuer{})
	return i
}

// forger signs in the name of a provider with a key of its own.
func (v *victimFixture) forger(i *issuer) *issuer {
	forger := v.stranger()
	forger.url = i.url
	return forger
}

// confused signs with the text of the provider's public keys as if that were a shared secret.
func (v *victimFixture) confused(i *issuer) *issuer {
	res, err := http.Get(i.url)
	v.ok(err)
	defer res.Body.Close()
	keys, err := io.ReadAll(res.Body)
	v.ok(err)
	confused := *i
	confused.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: keys}, nil)
	v.ok(err)
	return &confused
}

// TestDeadCredentialsAreRefusedEverywhere: each operation that is not public answers unauthenticated, whatever it
// names.
func TestDeadCredentialsAreRefusedEverywhere(t *testing.T) {
	i, verifier := newIssuer(t, oidc.Issuer{
		TenantClaim: "tenant", Tenants: []reprise.Tenant{reprise.DefaultTenant}, Allow: identity.AllScopes(),
	})
	ended := openLogins(t, filepath.Join(t.TempDir(), "logins"))
	v := newVictim(t, setup{
		api: api.Options{Issuers: verifier}, gate: identity.Options{Failures: 1 << 20, Logins: ended}, audit: true,
	})
	for name, show := range v.deadCredentials(i) {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			for _, at := range attempts(t, "") {
				if at.varied != "" || at.scope == "public" {
					continue
				}
				sent := at.request(&v.hidden)
				got := v.send(sent, show)
				if got.status != 401 || got.text("code") != "unauthenticated" {
					t.Errorf("%s: %d %s", at, got.status, got.body)
				}
				v.holdsNothing(t, at, &sent, got)
			}
		})
	}
	v.untouchedByAll()
}
