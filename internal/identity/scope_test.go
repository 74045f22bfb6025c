package identity_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/identity"
)

func TestGrantTextsAreInverse(t *testing.T) {
	for _, text := range []string{"read", "run:ci-", "publish:team-a/", "control:A.b_c", "admin", "audit"} {
		g, err := identity.ParseGrant(text)
		if err != nil || g.String() != text {
			t.Errorf("%s: %v, %v", text, g, err)
		}
	}
	for _, text := range []string{
		"", "Read", "write", "read:", "admin:x", "audit:x", "read:a b", "read:a:b", "run:é",
		"read:" + strings.Repeat("x", 256), ":x",
	} {
		if g, err := identity.ParseGrant(text); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%q: %v, %v", text, g, err)
		}
	}
}

func TestGrantsCoverWhatBeginsWithTheirPrefix(t *testing.T) {
	p := identity.Principal{Tenant: "acme", Grants: []identity.Grant{
		{Scope: identity.ScopeRead, Prefix: "a/"},
		{Scope: identity.ScopeRead, Prefix: "b/"},
		{Scope: identity.ScopeRun},
	}}
	for name, want := range map[string]bool{"a/1": true, "b/": true, "a": false, "": false, "c/a/": false} {
		key := reprise.StreamKey{Tenant: "acme", Name: name}
		if p.MayOn(identity.ScopeRead, name) != want || p.MayRead(key) != want {
			t.Errorf("read %q: not %v", name, want)
		}
		if !p.MayOn(identity.ScopeRun, name) || p.MayOn(identity.ScopeControl, name) {
			t.Errorf("run or control %q", name)
		}
	}
	if !p.May(identity.ScopeRead) || p.MayAll(identity.ScopeRead) || !p.MayAll(identity.ScopeRun) ||
		p.May(identity.ScopeAdmin) || !p.Bounded(identity.ScopeRead) || p.Bounded(identity.ScopeRun) {
		t.Error("the scopes as a whole")
	}
	if p.MayRead(reprise.StreamKey{Tenant: "other", Name: "a/1"}) {
		t.Error("reads another tenant")
	}
	// A ticket reads one stream, and no more than its credential may.
	for _, only := range []string{"a/1", "c/1"} {
		ticket := p
		ticket.Only = reprise.StreamKey{Tenant: "acme", Name: only}
		if got := ticket.MayRead(ticket.Only); got != (only == "a/1") {
			t.Errorf("a ticket for %s reads it: %v", only, got)
		}
		for _, scope := range identity.AllScopes() {
			if ticket.May(scope) || ticket.MayAll(scope) || ticket.MayOn(scope, "a/1") {
				t.Errorf("a ticket has the scope %s", scope)
			}
		}
	}
}

func TestOnlyWhoMayCancelOrHasStartedMayLeave(t *testing.T) {
	of := func(grants ...identity.Grant) identity.Principal {
		return identity.Principal{Name: "me", Tenant: "acme", Grants: grants}
	}
	reader, runner := of(identity.Grant{Scope: identity.ScopeRead}), of(identity.Grant{Scope: identity.ScopeRun})
	bounded := of(identity.Grant{Scope: identity.ScopeControl, Prefix: "ci-"})
	ticket := of(identity.AllGrants()...)
	ticket.Only = reprise.StreamKey{Tenant: "acme", Name: "execution:x"}
	nameless := identity.Principal{Tenant: "acme"}
	for _, c := range []struct {
		p                identity.Principal
		session, starter string
		want             bool
	}{
		{reader, "ci-1", "other", false},
		{runner, "ci-1", "other", false},
		{runner, "ci-1", "me", true},
		{bounded, "ci-1", "other", true},
		{bounded, "c", "other", false},
		{ticket, "ci-1", "me", false},
		{nameless, "", "", false},
	} {
		if got := c.p.MayLeave(c.session, c.starter); got != c.want {
			t.Errorf("%+v, session %q, started by %q: %v", c.p, c.session, c.starter, got)
		}
	}
}

// changing is a Verifier of one credential whose principal changes.
type changing struct {
	identity.Verifier
	p   identity.Principal
	err error
}

func (c *changing) Verify(_ context.Context, credential string) (identity.Principal, error) {
	if credential != secret {
		return identity.Principal{}, &identity.GuessError{ID: "known"}
	}
	return c.p, c.err
}

func (c *changing) Current(_ context.Context, credential string) (identity.Principal, error) {
	if credential != c.p.Credential {
		return identity.Principal{}, identity.ErrUnauthenticated
	}
	return c.p, c.err
}

// Cookies and tickets say what they were given for; what that may do is looked up when they are used.
func TestCookiesAndTicketsAreLookedUp(t *testing.T) {
	v := &changing{p: identity.Principal{Name: "n", Tenant: "acme", Credential: "c1", Grants: identity.AllGrants()}}
	gate := identity.NewGate(reprise.NewKeyset(), v, nil)
	login, _, err := gate.Login(request("/"), secret)
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := gate.Ticket(v.p, reprise.StreamKey{Tenant: "acme", Name: "s"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	byCookie, byTicket := request("/", "Login-Secret: "+login.Secret), request("/?ticket="+text)
	byCookie.AddCookie(login.Cookie)
	v.p.Tenant, v.p.Grants = "moved", []identity.Grant{{Scope: identity.ScopeRead, Prefix: "x"}}
	p, err := gate.Identify(byCookie)
	if err != nil || p.Tenant != "moved" || p.May(identity.ScopeRun) {
		t.Errorf("by cookie: %+v, %v", p, err)
	}
	p, err = gate.Identify(byTicket)
	if err != nil || p.Only != (reprise.StreamKey{Tenant: "moved", Name: "s"}) || p.MayRead(p.Only) {
		t.Errorf("by ticket: %+v, %v", p, err)
	}
	v.p.Expires = time.Now().Add(time.Minute)
	if p, err := gate.Identify(byCookie); err != nil || !p.Expires.Equal(v.p.Expires) {
		t.Errorf("a cookie outlives its credential: %v, %v", p.Expires, err)
	}
	for _, end := range []func(){func() { v.err = identity.ErrRevoked }, func() { v.p.Credential, v.err = "c2", nil }} {
		end()
		for _, r := range []*http.Request{byCookie, byTicket} {
			if p, err := gate.Identify(r); !errors.Is(err, identity.ErrUnauthenticated) {
				t.Errorf("%v after the end of its credential: %+v, %v", r.URL, p, err)
			}
		}
	}
}

func TestCookieIsOfThisHostOverTLS(t *testing.T) {
	gate := identity.NewGate(reprise.NewKeyset(), verifier(t, secret), nil)
	login, _, err := gate.Login(httptest.NewRequest("POST", "https://x/", nil), secret)
	cookie := login.Cookie
	if err != nil || cookie.Name != "__Host-"+identity.CookieName || !cookie.Secure || cookie.Path != "/" ||
		cookie.Domain != "" {
		t.Fatalf("%+v, %v", cookie, err)
	}
	r := httptest.NewRequest("GET", "https://x/", nil)
	r.AddCookie(cookie)
	r.Header.Set(identity.LoginHeader, login.Secret)
	if _, err := gate.Identify(r); err != nil {
		t.Error(err)
	}
	plain, _, err := gate.Login(request("/"), secret)
	if err != nil {
		t.Fatal(err)
	}
	r = httptest.NewRequest("GET", "https://x/", nil)
	r.Header.Set(identity.LoginHeader, plain.Secret)
	r.AddCookie(plain.Cookie) // which another page of the site may have set
	if _, err := gate.Identify(r); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("a cookie without the prefix: %v", err)
	}
}

// Who shows no credential guesses nothing, and who has one key wrong does not use up the attempts at others.
func TestFailedCredentialsAreCounted(t *testing.T) {
	v := &changing{p: identity.Principal{Credential: "c", Grants: identity.AllGrants()}}
	gate := identity.NewGate(reprise.NewKeyset(), v, &identity.Options{Failures: 2, FailureEvery: time.Hour})
	limited := func(headers ...string) bool {
		_, err := gate.Identify(request("/", headers...))
		_, is := errors.AsType[*identity.LimitError](err)
		return is
	}
	for range 100 {
		if limited("X: y") || limited("Authorization: Basic x") {
			t.Fatal("a request without a credential is limited")
		}
	}
	for i, want := range []bool{false, false, true, true} {
		if got := limited("Authorization: Bearer wrong"); got != want {
			t.Errorf("guess %d at a key is limited: %v", i+1, got)
		}
	}
	if limited("Cookie: reprise_login=forged") {
		t.Error("guesses at a key count against other credentials")
	}
	if limited("Authorization: Bearer " + secret) {
		t.Error("the right one is limited")
	}
	v.err = identity.ErrRevoked
	for range 10 {
		if limited("Authorization: Bearer " + secret) {
			t.Fatal("a right credential that was revoked is taken for a guess")
		}
	}
}
