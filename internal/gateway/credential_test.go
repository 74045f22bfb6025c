package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/gateway"
	"reprise/internal/gateway/credential"
)

// caller is who makes requests, with a claim of its token.
type caller struct {
	name string
	org  *atomic.Pointer[string] // nil for a token without it
}

func newCaller(name, org string) caller {
	c := caller{name: name, org: new(atomic.Pointer[string])}
	c.org.Store(&org)
	return c
}

func (c caller) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Test-Principal", c.name)
	if c.org != nil {
		r.Header.Set("Test-Org", *c.org.Load())
	}
	return http.DefaultTransport.RoundTrip(r)
}

// identifiesCallers has a fixture know callers and their claims.
func (f *fixture) identifiesCallers() *fixture {
	f.opts.Identify = func(r *http.Request) (reprise.Tenant, string, error) {
		return reprise.DefaultTenant, r.Header.Get("Test-Principal"), nil
	}
	f.claims = func(r *http.Request, _ reprise.Tenant, principal string) map[string]string {
		if org := r.Header.Get("Test-Org"); org != "" && r.Header.Get("Test-Principal") == principal {
			return map[string]string{"org": org}
		}
		return nil
	}
	f.secrets = func(p *credential.Principal, name string) (string, error) {
		if name != "key" || strings.HasPrefix(p.Name, "poor") {
			return "", fs.ErrNotExist
		}
		return "secret-of-" + p.Name, nil
	}
	return f
}

// as connects a caller.
func (f *fixture) as(c caller, version string) *mcp.ClientSession {
	f.Helper()
	f.client = &http.Client{Transport: c}
	return f.connect(version, nil)
}

// witness is an upstream at a URL that tells with which credential it is called, and how many have used one session.
type witness struct {
	*httptest.Server
	requests atomic.Int64
	began    chan struct{} // when the tool wait is called
	goOn     chan struct{} // has it return

	mu   sync.Mutex
	seen map[string]map[string]bool // the credentials by session
}

func newWitness(tb testing.TB) *witness {
	w := &witness{began: make(chan struct{}, 10), goOn: make(chan struct{}), seen: map[string]map[string]bool{}}
	server := mcp.NewServer(&mcp.Implementation{Name: "witness", Version: "1"}, nil)
	add := func(name string, before func()) {
		answer := func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			before()
			text := r.Extra.Header.Get("Authorization")
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
		}
		mcp.AddTool(server, &mcp.Tool{Name: name}, answer)
	}
	add("whoami", func() {})
	add("wait", func() { w.began <- struct{}{}; <-w.goOn })
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.requests.Add(1)
		w.mu.Lock()
		session := r.Header.Get("Mcp-Session-Id")
		if w.seen[session] == nil {
			w.seen[session] = map[string]bool{}
		}
		w.seen[session][r.Header.Get("Authorization")] = true
		w.mu.Unlock()
		handler.ServeHTTP(rw, r)
	}))
	tb.Cleanup(w.Close)
	return w
}

// checkUnshared fails if a session was used with two credentials.
func (w *witness) checkUnshared(tb testing.TB) {
	tb.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for session, credentials := range w.seen {
		if session != "" && len(credentials) > 1 {
			tb.Errorf("a session of the upstream was used with %d credentials", len(credentials))
		}
	}
}

// TestUsersHaveCredentialsOfTheirOwn (G8): ten users behind one gateway, at the same time, and each call comes with the
// credential of its user.
func TestUsersHaveCredentialsOfTheirOwn(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		up := newWitness(t)
		f := newFixture(t, gateway.Upstream{
			URL: up.URL, Header: map[string]string{"Authorization": "{{claims.org}}:{{name}}:{{secrets.key}}"},
		}).identifiesCallers().start()
		var all sync.WaitGroup
		for i := range 10 {
			org, name := fmt.Sprint("org", i%2), fmt.Sprint("user", i)
			s := f.as(newCaller(name, org), version)
			all.Go(func() {
				for range 5 {
					f.want(s, "whoami", nil, org+":"+name+":secret-of-"+name)
				}
			})
		}
		all.Wait()
		up.checkUnshared(t)
	})
}

// TestUserWithoutTheClaimIsRefused: before anything reaches the upstream, and clearly.
func TestUserWithoutTheClaimIsRefused(t *testing.T) {
	for what, tt := range map[string]struct {
		who   caller
		names string
	}{
		"no claim":         {caller{name: "ann"}, `the claim "org"`},
		"no secret":        {newCaller("poor", "x"), `the secret "key"`},
		"a claim too many": {newCaller("ann", `x, y`), `the claim "org"`},
	} {
		t.Run(what, func(t *testing.T) {
			up := newWitness(t)
			f := newFixture(t, gateway.Upstream{
				URL: up.URL, Header: map[string]string{"Authorization": "{{claims.org}}:{{secrets.key}}"},
			}).identifiesCallers().start()
			f.client = &http.Client{Transport: tt.who}
			for _, version := range versions {
				_, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
					&mcp.StreamableClientTransport{Endpoint: f.http.URL, HTTPClient: f.client},
					&mcp.ClientSessionOptions{ProtocolVersion: version})
				if codeOf(err) != "credential_missing" || !strings.Contains(err.Error(), tt.names) {
					t.Errorf("%s: %v", version, err)
				}
			}
			if n := up.requests.Load(); n > 0 {
				t.Errorf("the upstream had %d requests", n)
			}
		})
	}
}

// TestAnotherCredentialIsAnotherConnection (G8): a principal whose token says something else than before does not use
// what was opened with the one before. A call that is under way goes on.
func TestAnotherCredentialIsAnotherConnection(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		up := newWitness(t)
		f := newFixture(t, gateway.Upstream{
			URL: up.URL, Header: map[string]string{"Authorization": "{{claims.org}}"},
		}).identifiesCallers().start()
		ann := newCaller("ann", "org1")
		s := f.as(ann, version)
		f.want(s, "whoami", nil, "org1")
		answer := make(chan string, 1)
		go func() {
			text, err := call(s, "wait", nil)
			answer <- fmt.Sprint(text, errors.Join(err))
		}()
		<-up.began
		ann.org.Store(new("org2"))
		f.want(s, "whoami", nil, "org2")
		ann.org.Store(new("org1"))
		f.want(s, "whoami", nil, "org1")
		close(up.goOn)
		if got := <-answer; got != "org1<nil>" {
			t.Errorf("the call that was under way: %s", got)
		}
		up.checkUnshared(t)
		if strings.Contains(f.logged.String(), "org2") {
			t.Error("what the upstream is called with is in the log")
		}
	})
}

// TestStateIsNotGivenToAnotherCredential: where the upstream keeps state, a session cannot go on with another one.
func TestStateIsNotGivenToAnotherCredential(t *testing.T) {
	up := newWitness(t)
	f := newFixture(t, gateway.Upstream{
		URL: up.URL, KeepsState: true, Header: map[string]string{"Authorization": "{{claims.org}}"},
	}).identifiesCallers().start()
	ann := newCaller("ann", "org1")
	s := f.as(ann, "2025-11-25")
	ann.org.Store(new("org2"))
	if _, err := call(s, "whoami", nil); codeOf(err) != "upstream_lost" {
		t.Errorf("with another credential: %v", err)
	}
	ann.org.Store(new("org1"))
	f.want(s, "whoami", nil, "org1")
}

// TestCommandHasVariablesOfItsUser: they are in its environment, and not in its arguments.
func TestCommandHasVariablesOfItsUser(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		up := gateway.Upstream{Env: map[string]string{"KEY": "{{secrets.key}} of {{tenant}}"}}
		f := newFixture(t, up).identifiesCallers().start()
		for _, name := range []string{"ann", "bob"} {
			s := f.as(newCaller(name, "x"), version)
			f.want(s, "env", args{"text": "KEY"}, "secret-of-"+name+" of default")
		}
		if strings.Contains(f.logged.String(), "secret-of") {
			t.Error("a secret is in the log")
		}
	})
}

// TestMergedUpstreamWithoutCredentialIsAway: the others are there, and calls of it say what is missing.
func TestMergedUpstreamWithoutCredentialIsAway(t *testing.T) {
	up := newWitness(t)
	f := newFixture(t, gateway.Upstream{Merge: []gateway.Upstream{
		{Name: "here", Command: []string{program}},
		{Name: "there", URL: up.URL, Header: map[string]string{"Authorization": "Bearer {{secrets.key}}"}},
	}}).identifiesCallers().start()
	each(t, func(t *testing.T, version string) {
		poor := f.as(newCaller("poor", "x"), version)
		f.want(poor, "here_echo", args{"text": "hi"}, "hi")
		_, err := call(poor, "there_whoami", nil)
		if codeOf(err) != "credential_missing" || !strings.Contains(fmt.Sprint(err), "there") {
			t.Errorf("a call of one without a credential: %v", err)
		}
		if n := up.requests.Load(); n > 0 {
			t.Errorf("the upstream had %d requests", n)
		}
	})
	rich := f.as(newCaller("rich", "x"), "2025-11-25")
	f.want(rich, "there_whoami", nil, "Bearer secret-of-rich")
}

func TestSharedUpstreamHasOneCredential(t *testing.T) {
	up := gateway.Upstream{URL: "http://127.0.0.1:1", Shared: true, Header: map[string]string{"A": "{{name}}"}}
	_, err := gateway.New(&up, nil)
	if !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("one connection for all, with what belongs to each: %v", err)
	}
}
