package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/identity"
	"reprise/internal/oidc"
)

// adversary is a principal with a good credential that may not know of what the victim has.
type adversary struct {
	name       string
	ownSession string
	// credential is that of the next attempt: where adversaries make things, each attempt is by another one.
	credential func() func(*http.Request)
	// whole tells that it may do something to the whole server: such operations tell of all tenants.
	whole bool
	// brief tells that another one with the same scopes tries all variations.
	brief bool
	// sameTenant tells that it shares a tenant with the victim.
	sameTenant bool
}

// adversaries are the live ones. Their keys are of new tenants, so that what one has made is in nobody's way.
func (v *victimFixture) adversaries(i *issuer) []*adversary {
	all := []string{"read", "publish", "run", "control"}
	tenants := 0
	newTenant := func() string {
		tenants++
		return fmt.Sprintf("stranger-%04d", tenants)
	}
	newKey := func(scopes ...string) string {
		_, key := v.key(reprise.Tenant(newTenant()), scopes...)
		return key
	}
	_, neighbour := v.key(reprise.DefaultTenant, "read:own-", "publish:own-", "run:own-", "control:own-")
	_, blind := v.key(reprise.DefaultTenant, "admin", "audit")
	v.do("PUT", "/v1/streams/own-1", `{}`).is(201)
	var ticket string
	v.with(neighbour, func() { ticket = v.do("POST", "/v1/tickets", `{"stream":"own-1"}`).is(201).text("ticket") })
	return []*adversary{
		{name: "a key of another tenant", credential: func() func(*http.Request) { return bearer(newKey(all...)) }},
		{name: "a key of another tenant with a prefix", ownSession: "victim-0", credential: func() func(*http.Request) {
			return bearer(newKey("read:v", "publish:v", "run:v", "control:v"))
		}},
		{
			name: "a key with another prefix", ownSession: "own-1", sameTenant: true,
			credential: func() func(*http.Request) { return bearer(neighbour) },
		},
		{
			name: "a key that may look after the server and read nothing", whole: true, sameTenant: true,
			credential: func() func(*http.Request) { return bearer(blind) },
		},
		{name: "a token of a provider for another tenant", brief: true, credential: func() func(*http.Request) {
			return bearer(i.tokenOf(newTenant(), "read publish run control", publicURL, time.Hour))
		}},
		{name: "a login of another tenant", brief: true, credential: func() func(*http.Request) {
			return v.cookie(newKey(all...))
		}},
		{name: "a ticket for another stream", sameTenant: true, brief: true, credential: func() func(*http.Request) {
			return withTicket(ticket)
		}},
	}
}

// cookie logs in.
func (w *fixture) cookie(credential string) func(*http.Request) {
	w.Helper()
	login := w.send(wireRequest{method: "POST", path: "/v1/login"}, bearer(credential)).login()
	return func(r *http.Request) {
		for _, header := range login {
			name, value, _ := strings.Cut(header, ": ")
			r.Header.Set(name, value)
		}
	}
}

func withTicket(ticket string) func(*http.Request) {
	return func(r *http.Request) {
		q := r.URL.Query()
		q.Set(identity.TicketParam, ticket)
		r.URL.RawQuery = q.Encode()
	}
}

// told are the differences that docs/security.md states: within a tenant, ids are one namespace.
func (a *adversary) told(at *attempt) bool {
	ids := at.varied == "body id" || at.varied == "body key" || at.varied == "header Idempotency-Key"
	return a.sameTenant && ids && (at.operation == "POST /v1/executions" || at.operation == "POST /v1/interpreters")
}

// TestAdversariesLearnNothing: no operation tells a principal with a good credential of what others have.
func TestAdversariesLearnNothing(t *testing.T) {
	i, verifier := newIssuer(t, oidc.Issuer{TenantClaim: "tenant"})
	v := newVictim(t, setup{
		api: api.Options{Issuers: verifier}, gate: identity.Options{Failures: 1 << 20}, audit: true,
	})
	for _, a := range v.adversaries(i) {
		t.Run(strings.ReplaceAll(a.name, " ", "_"), func(t *testing.T) {
			for _, at := range attempts(t, a.ownSession) {
				whole := at.scope == "admin" || at.scope == "audit" || at.operation == "GET /v1/quota"
				if a.whole && whole || a.brief && at.varied != "" || a.told(at) {
					continue
				}
				v.attempt(t, a, at)
			}
		})
	}
	v.untouchedByAll()
}

// attempt compares the two answers to one attempt, and looks for the victim's in the first. What the adversary has
// under way itself may change between two looks at it: then both are sent again.
func (v *victimFixture) attempt(t *testing.T, a *adversary, at *attempt) {
	t.Helper()
	var differs string
	for begun := time.Now(); time.Since(begun) < time.Minute; {
		nobody, show := v.nobody(), a.credential()
		sent := at.request(&v.hidden)
		got := v.send(sent, show)
		want := v.send(at.request(nobody), show)
		v.holdsNothing(t, at, &sent, got)
		differs = sameAnswer(got, want, &v.hidden, nobody)
		if differs == "" || !a.sameTenant || got.status != 200 || sent.method != "GET" {
			break
		}
	}
	if differs != "" {
		t.Errorf("%s: %s", at, differs)
	}
}

// holdsNothing looks in an answer for what the victim has, but for what the request itself has said.
func (v *victimFixture) holdsNothing(t *testing.T, at *attempt, sent *wireRequest, got *answer) {
	t.Helper()
	if strings.Contains(got.body, secretContent) {
		t.Errorf("%s: the answer has the victim's: %d %s", at, got.status, got.body)
	}
	path, _ := url.PathUnescape(sent.path)
	said := path + sent.path + sent.body + strings.Join(sent.headers, " ")
	for _, text := range v.hidden.texts() {
		if strings.Contains(got.body, text) && !strings.Contains(said, text) {
			t.Errorf("%s: the answer names %s: %d %s", at, text, got.status, got.body)
		}
	}
}
