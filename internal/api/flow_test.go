package api_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"reprise/internal/api"
	"reprise/internal/oidc"
	"reprise/internal/oidctest"
)

// flowWorld is a server at whose provider people can log in.
func flowWorld(t *testing.T) (*fixture, *oidctest.Provider) {
	t.Helper()
	p := oidctest.New(t)
	p.Redirect, p.Audience, p.Scope = publicURL+"/", publicURL, "read publish"
	v, err := oidc.New([]oidc.Issuer{
		{URL: p.URL, Name: "corp", ClientID: oidctest.Client},
		{URL: "https://machines.example.org", Name: "machines"},
	}, &oidc.Options{Resource: &oidc.Resource{URL: publicURL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return start(t, setup{api: api.Options{Issuers: v}, audit: true}), p
}

// begun is what a server and a provider have said of one login.
type begun struct{ Flow, Code, State, Issuer string }

// begin begins a login and lets the provider answer.
func begin(t *testing.T, w *fixture) begun {
	t.Helper()
	var told struct{ URL, Flow, Redirect string }
	a := w.do("POST", "/v1/login/flows", `{"provider":"corp"}`).is(201)
	if err := json.Unmarshal([]byte(a.body), &told); err != nil {
		t.Fatal(err)
	}
	if told.Redirect != publicURL+"/" {
		t.Errorf("the redirect is %s", told.Redirect)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Get(told.URL)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	back, err := url.Parse(res.Header.Get("Location"))
	if err != nil || res.StatusCode != http.StatusFound || !strings.HasPrefix(back.String(), publicURL+"/?") {
		t.Fatalf("the provider answers %s with %s, %v", told.URL, res.Status, err)
	}
	query := back.Query()
	return begun{told.Flow, query.Get("code"), query.Get("state"), query.Get("iss")}
}

func (b begun) body() string {
	text, _ := json.Marshal(map[string]string{"flow": b.Flow, "code": b.Code, "state": b.State, "issuer": b.Issuer})
	return string(text)
}

// TestPersonLogsInAtProvider: a code becomes a login, once, with what the token of the provider grants.
func TestPersonLogsInAtProvider(t *testing.T) {
	w, _ := flowWorld(t)
	w.with("", func() {
		if a := w.do("GET", "/v1/login", "").is(200); strings.TrimSpace(a.body) != `{"providers":["corp"]}` {
			t.Errorf("the providers are %s", a.body)
		}
		w.do("POST", "/v1/login/flows", `{"provider":"machines"}`).refused(400, "invalid")
		b := begin(t, w)
		login := w.do("POST", "/v1/login", b.body()).login()
		w.do("GET", "/v1/streams", "", login...).is(200)
		w.do("POST", "/v1/executions", `{"argv":["true"]}`, login...).refused(403, "forbidden")
		w.do("POST", "/v1/login", b.body()).refused(401, "unauthenticated")
	})
}

// TestFlowsAreNotMixed: a code counts only with the state, the flow and the issuer that it belongs to, and with the
// nonce of its login; a flow cannot be made by a sender.
func TestFlowsAreNotMixed(t *testing.T) {
	w, p := flowWorld(t)
	w.with("", func() {
		other := begin(t, w)
		for name, change := range map[string]func(*begun){
			"another state":   func(b *begun) { b.State = other.State },
			"another flow":    func(b *begun) { b.Flow = other.Flow },
			"both of another": func(b *begun) { b.Flow, b.State = other.Flow, other.State },
			"another issuer":  func(b *begun) { b.Issuer = "https://evil.example" },
			"no state":        func(b *begun) { b.State = "" },
			"a made-up flow":  func(b *begun) { b.Flow = "eyJpZCI6IiJ9.k.x"; b.State = "" },
			"a made-up code":  func(b *begun) { b.Code = "guessed" },
			"another nonce":   func(*begun) { p.Forge = func(c map[string]any) { c["nonce"] = "n" } },
			"another client":  func(*begun) { p.Forge = func(c map[string]any) { c["aud"] = "app" } },
			"an old ID":       func(*begun) { p.Forge = func(c map[string]any) { c["exp"] = 1 } },
		} {
			b := begin(t, w)
			change(&b)
			if a := w.do("POST", "/v1/login", b.body()); a.status != http.StatusUnauthorized {
				t.Errorf("%s: %d %s", name, a.status, a.body)
			}
			p.Forge = nil
		}
		p.Audience = "https://elsewhere.example"
		w.do("POST", "/v1/login", begin(t, w).body()).refused(401, "unauthenticated")
	})
}

// TestFlowsOfAnybodyAreFew at the provider: its document is fetched once, and wrong codes are guesses.
func TestFlowsOfAnybodyAreFew(t *testing.T) {
	w, p := flowWorld(t)
	w.with("", func() {
		begin(t, w)
		before := p.Documents.Load()
		refused := 0
		for range 50 {
			b := begin(t, w)
			b.Code = "guessed"
			if a := w.do("POST", "/v1/login", b.body()); a.status == http.StatusTooManyRequests {
				refused++
			}
		}
		if n := p.Documents.Load(); n != before || refused == 0 {
			t.Errorf("the document was fetched %d times more, and %d of 50 guesses refused", n-before, refused)
		}
	})
}

// TestProviderThatIsAwayIsNamed: a provider that cannot be reached is not the fault of the person.
func TestProviderThatIsAwayIsNamed(t *testing.T) {
	v, err := oidc.New([]oidc.Issuer{{URL: "http://127.0.0.1:1", Name: "corp", ClientID: oidctest.Client}},
		&oidc.Options{Resource: &oidc.Resource{URL: publicURL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	w := start(t, setup{api: api.Options{Issuers: v}})
	w.with("", func() {
		w.do("POST", "/v1/login/flows", `{"provider":"corp"}`).refused(503, "store_unavailable")
	})
}
