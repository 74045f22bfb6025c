package client_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"reprise/client"
	"reprise/internal/serverproof"
)

// listener answers as a server that knows a token, and keeps what it was sent.
type listener struct {
	*httptest.Server
	mu   sync.Mutex
	sent []string
}

func (l *listener) saw(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(strings.Join(l.sent, "\n"), text)
}

// listen answers challenges by prove, and everything else with an empty list.
func listen(t *testing.T, prove func(r *http.Request) (status int, body string)) *listener {
	t.Helper()
	l := &listener{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		l.mu.Lock()
		l.sent = append(l.sent, r.RequestURI+" "+r.Header.Get("Authorization")+" "+string(body))
		l.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		status, answer := http.StatusOK, `{"executions":[],"next_cursor":""}`
		if r.URL.Path == serverproof.Path {
			status, answer = prove(r)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(l.Close)
	return l
}

// proveBy is the answer of a server that knows a token.
func proveBy(token string) func(*http.Request) (int, string) {
	return func(r *http.Request) (int, string) {
		address := r.Context().Value(http.LocalAddrContextKey).(net.Addr).String()
		proof, err := serverproof.Answer(token, r.URL.Query().Get(serverproof.Param), address)
		if err != nil {
			return http.StatusBadRequest, ""
		}
		text, _ := json.Marshal(map[string]string{serverproof.Member: proof})
		return http.StatusOK, string(text)
	}
}

// TestTokenIsSentToProvenServerOnly: the token in a local file is sent only to a server that has proven to know it. It
// is not sent to another program, to one that relays the proof of the real server, or to a server without proofs.
func TestTokenIsSentToProvenServerOnly(t *testing.T) {
	const token = "the-token-of-this-machine"
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	t.Setenv("REPRISE_TOKEN", "")
	if err := os.MkdirAll(filepath.Join(state, "reprise"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "reprise", "token"), []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list := func(url string) error {
		c, err := client.New(&client.Options{URL: url, GiveUp: -1})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.List(t.Context(), client.ExecutionQuery{})
		return err
	}
	t.Cleanup(client.CloseProven)
	real := listen(t, proveBy(token))
	if err := list(real.URL); err != nil || !real.saw("Bearer "+token) {
		t.Fatalf("the server itself: %v", err)
	}
	for name, prove := range map[string]func(*http.Request) (int, string){
		"that answers anything": func(*http.Request) (int, string) { return 200, `{"proof":"x"}` },
		"that repeats the challenge": func(r *http.Request) (int, string) {
			return 200, `{"proof":"` + r.URL.RawQuery + `"}`
		},
		"that knows another token": proveBy("another-token-of-somebody"),
		"of an older version":      func(*http.Request) (int, string) { return 404, `{"code":"not_found"}` },
		"that asks the real server": func(r *http.Request) (int, string) {
			res, err := http.Get(real.URL + r.RequestURI)
			if err != nil {
				return 500, ""
			}
			defer res.Body.Close()
			text, _ := io.ReadAll(res.Body)
			return res.StatusCode, string(text)
		},
	} {
		squatter := listen(t, prove)
		if err := list(squatter.URL); !errors.Is(err, client.ErrUnproven) || client.Retryable(err) {
			t.Errorf("a squatter %s: %v", name, err)
		}
		leaked := squatter.saw("Bearer") || squatter.saw(token) || squatter.saw("/v1/executions")
		if leaked || !squatter.saw(serverproof.Path) {
			t.Errorf("a squatter %s was sent %q", name, squatter.sent)
		}
	}
	named, err := client.New(&client.Options{URL: real.URL, Token: "given"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := named.List(t.Context(), client.ExecutionQuery{}); err != nil || !real.saw("Bearer given") {
		t.Errorf("a token that was given: %v", err)
	}
}
