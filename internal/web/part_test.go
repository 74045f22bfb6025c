package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"reprise"
	"reprise/internal/identity"
	"reprise/internal/web"
)

// ping is a capability in one file: a path with a scope and a parameter.
type ping struct{ answered int }

func (p *ping) Routes(m *web.Mux) {
	m.Handle("POST", "/v1/ping/{name}", identity.ScopeRun, []string{"times"}, p.answer)
}

func (p *ping) answer(x *web.Exchange) error {
	times, err := x.Query.Number("times", 1, 1, 10)
	if err != nil {
		return err
	}
	var body struct {
		Text string `json:"text"`
	}
	if err := x.DecodeBody(&body); err != nil {
		return err
	}
	if err := x.MayMake(identity.ScopeRun, x.R.PathValue("name"), "ping"); err != nil {
		return err
	}
	p.answered++
	return x.Answer(http.StatusOK, map[string]string{"pong": strings.Repeat(body.Text, int(times))})
}

// keys is a Verifier of two credentials.
type keys map[string]identity.Grant

func (k keys) Verify(_ context.Context, credential string) (identity.Principal, error) {
	grant, ok := k[credential]
	if !ok {
		return identity.Principal{}, &identity.GuessError{Reason: "unknown"}
	}
	return identity.Principal{Name: credential, Tenant: "acme", Grants: []identity.Grant{grant}}, nil
}

func (k keys) Current(ctx context.Context, credential string) (identity.Principal, error) {
	return k.Verify(ctx, credential)
}

func (k keys) Named(ctx context.Context, _ reprise.Tenant, name string) (identity.Principal, error) {
	return k.Verify(ctx, name)
}

// acts is a Journal that refuses to record what "unlucky" does.
type acts []web.Act

func (a *acts) Record(_ context.Context, act web.Act) error {
	if act.Principal == "unlucky" {
		return reprise.ErrUnavailable
	}
	*a = append(*a, act)
	return nil
}

func (a *acts) Note(act web.Act)   { *a = append(*a, act) }
func (a *acts) Refuse(act web.Act) { *a = append(*a, act) }

// TestPartOfOneFile: a capability that no other file knows has its path checked for senders, scopes, parameters,
// bodies and methods, recorded and counted.
func TestPartOfOneFile(t *testing.T) {
	run, err := identity.ParseGrant("run:ci-")
	if err != nil {
		t.Fatal(err)
	}
	part, recorded, seen := &ping{}, acts{}, []web.Observation(nil)
	m, err := web.New(&web.Options{
		Gate: identity.NewGate(reprise.NewKeyset(), keys{
			"runner": run, "unlucky": run, "reader": {Scope: identity.ScopeRead},
		}, nil),
		Journal: &recorded, Observed: func(o web.Observation) { seen = append(seen, o) },
	})
	if err != nil {
		t.Fatal(err)
	}
	part.Routes(m)
	const path, body = "/v1/ping/ci-1?times=3", `{"text":"a"}`
	for _, c := range []struct {
		what, method, path, credential, body string
		status                               int
		answer                               string
	}{
		{"a call", "POST", path, "runner", body, 200, `{"pong":"aaa"}`},
		{"nobody", "POST", path, "", body, 401, "unauthenticated"},
		{"another scope", "POST", path, "reader", body, 403, "run"},
		{"outside its prefix", "POST", "/v1/ping/other", "runner", body, 403, "ci-"},
		{"an unknown parameter", "POST", path + "&x=1", "runner", body, 400, "no parameter"},
		{"a parameter out of bounds", "POST", "/v1/ping/ci-1?times=11", "runner", body, 400, "from 1 to 10"},
		{"an unknown member", "POST", path, "runner", `{"txt":"a"}`, 422, "txt"},
		{"no record", "POST", path, "unlucky", body, 503, "store_unavailable"},
		{"another method", "GET", path, "runner", "", 405, "OPTIONS, POST"},
		{"another path", "POST", "/v1/pong", "runner", body, 404, "not_found"},
	} {
		r := httptest.NewRequest(c.method, "http://127.0.0.1"+c.path, strings.NewReader(c.body))
		if r.Header.Set("Content-Type", web.JSON); c.credential != "" {
			r.Header.Set("Authorization", "Bearer "+c.credential)
		}
		w := httptest.NewRecorder()
		m.ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.answer) {
			t.Errorf("%s: %d %s", c.what, w.Code, w.Body)
		}
	}
	if part.answered != 1 {
		t.Errorf("it has answered %d calls", part.answered)
	}
	first := web.Act{
		Principal: "runner", Tenant: "acme", Act: "POST /v1/ping/{name}", Object: "/v1/ping/ci-1",
	}
	if !slices.ContainsFunc(recorded, func(a web.Act) bool {
		a.Remote, a.Request = "", ""
		return a == first
	}) {
		t.Errorf("recorded: %+v", recorded)
	}
	if len(seen) != 10 || seen[0].Path != "/v1/ping/{name}" || seen[0].Status != 200 || seen[9].Path != "none" {
		t.Errorf("observed: %+v", seen)
	}
}
