package api_test

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"reprise"
	"reprise/internal/identity"
	"reprise/internal/journal"
	"reprise/internal/logins"
)

// openLogins opens a journal of logins, for a setup.
func openLogins(t *testing.T, path string) *logins.Logins {
	t.Helper()
	l, err := logins.Open(context.Background(), journal.File(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// TestLogoutEndsTheLogin: a copy of the cookie is good for nothing from then on, what it has open ends, and other
// logins of the same credential go on; a server that begins later knows of it.
func TestLogoutEndsTheLogin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logins")
	keys := reprise.NewKeyset()
	w := start(t, setup{keys: keys, gate: identity.Options{Logins: openLogins(t, path)}})
	w.stream("s", "first")
	mine, other := w.do("POST", "/v1/login", "").login(), w.do("POST", "/v1/login", "").login()
	w.with("", func() {
		following := w.follow("/v1/streams/s/events", append(mine, asSSE)...)
		others := w.follow("/v1/streams/s/events", append(other, asSSE)...)
		defer others.body.Close()
		a := w.do("DELETE", "/v1/login", "", mine...).is(204)
		if cookie := a.header.Get("Set-Cookie"); !strings.Contains(cookie, "Max-Age=0") {
			t.Errorf("the browser keeps %q", cookie)
		}
		if _, err := io.ReadAll(following.in); err != nil { // it would go on without end
			t.Error(err)
		}
		w.do("GET", "/v1/streams", "", mine...).refused(401, "unauthenticated")
		w.do("DELETE", "/v1/login", "", mine...).is(204) // again
		w.do("DELETE", "/v1/login", "").is(204)          // nobody
		w.do("DELETE", "/v1/login", "", "Cookie: reprise_login=nonsense").is(204)
		w.do("GET", "/v1/streams", "", other...).is(200)
		if line := others.line(); line != "retry: 1000" {
			t.Errorf("the other login reads %q", line)
		}
	})
	later := start(t, setup{keys: keys, gate: identity.Options{Logins: openLogins(t, path)}})
	later.with("", func() {
		later.do("GET", "/v1/streams", "", mine...).refused(401, "unauthenticated")
		later.do("GET", "/v1/streams", "", other...).is(200)
	})
}
