package identity_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/identity"
)

const secret = "0123456789abcdef-secret"

var stream = reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "builds/1"}

func verifier(t *testing.T, token string) *identity.Token {
	t.Helper()
	v, err := identity.NewToken(token)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func request(target string, headers ...string) *http.Request {
	r := httptest.NewRequest("GET", target, nil)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	return r
}

func TestTokenIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	tokens := make([]string, 8)
	var group sync.WaitGroup
	for i := range tokens {
		group.Go(func() {
			var err error
			if tokens[i], err = identity.LoadToken(path); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for _, token := range tokens {
		if token != tokens[0] || len(token) < 26 {
			t.Errorf("tokens %q", tokens)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestTokensThatAreRefused(t *testing.T) {
	for _, token := range []string{
		"", "short", strings.Repeat("x", 4097), "sixteen characters with spaces",
		"sixteen-characters-\x00", "sixteen-characters-é",
	} {
		if _, err := identity.NewToken(token); !errors.Is(err, reprise.ErrInvalid) || token != "" &&
			strings.Contains(err.Error(), token) {
			t.Errorf("%q: %v", token, err)
		}
		path := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := identity.LoadToken(path); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("file with %q: %v", token, err)
		}
	}
	if _, err := identity.LoadToken(filepath.Join(t.TempDir(), "no", "such", "folder")); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

func TestIdentifyByToken(t *testing.T) {
	gate := identity.NewGate(reprise.NewKeyset(), verifier(t, secret), nil)
	p, err := gate.Identify(request("/", "Authorization: Bearer "+secret))
	if err != nil || p.Tenant != reprise.DefaultTenant || !p.May(identity.ScopeAdmin) || !p.MayRead(stream) {
		t.Errorf("%+v, %v", p, err)
	}
	if p.MayRead(reprise.StreamKey{Tenant: "other", Name: "builds/1"}) {
		t.Error("may read another tenant's stream")
	}
	for _, header := range []string{
		"X: y", "Authorization: Bearer " + secret + "x",
		"Authorization: Bearer " + secret[1:], "Authorization: Token " + secret, "Authorization: Bearer ",
	} {
		if p, err := gate.Identify(request("/", header)); !errors.Is(err, identity.ErrUnauthenticated) ||
			strings.Contains(err.Error(), secret[1:]) {
			t.Errorf("%q: %+v, %v", header, p, err)
		}
	}
}

func TestCookieStandsForTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := reprise.NewKeyset()
		gate := identity.NewGate(keys, verifier(t, secret), &identity.Options{CookieTTL: time.Hour})
		if _, _, err := gate.Login(request("/"), secret+"x"); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("a wrong token: %v", err)
		}
		login, _, err := gate.Login(request("/"), secret)
		cookie := login.Cookie
		if err != nil || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Secure ||
			strings.Contains(cookie.Value, secret) {
			t.Fatalf("%+v, %v", cookie, err)
		}
		if overTLS, _, err := gate.Login(httptest.NewRequest("POST", "https://x/", nil), secret); err != nil ||
			!overTLS.Cookie.Secure {
			t.Errorf("over TLS: %+v, %v", overTLS, err)
		}
		with := "Login-Secret: " + login.Secret
		header := "Cookie: " + identity.CookieName + "=" + cookie.Value
		p, err := gate.Identify(request("/", header, with))
		if err != nil || !p.May(identity.ScopeRun) || !p.Expires.Equal(cookie.Expires.Truncate(time.Second)) {
			t.Errorf("%+v, %v", p, err)
		}
		changed := identity.NewGate(keys, verifier(t, secret+"-changed"), nil)
		if _, err := changed.Identify(request("/", header, with)); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("after the token was changed: %v", err)
		}
		otherKeys := identity.NewGate(reprise.NewKeyset(), verifier(t, secret), nil)
		if _, err := otherKeys.Identify(request("/", header, with)); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("under other keys: %v", err)
		}
		for i := range cookie.Value {
			forged := []byte(cookie.Value)
			forged[i] ^= 1
			if p, err := gate.Identify(request("/?ticket=" + cookie.Value)); err == nil {
				t.Fatalf("a cookie was taken for a ticket: %+v", p)
			}
			r := request("/", with)
			r.Header.Set("Cookie", identity.CookieName+"="+string(forged))
			if p, err := gate.Identify(r); err == nil {
				t.Fatalf("forged at %d: %+v", i, p)
			}
		}
		time.Sleep(time.Hour) // of the bubble
		if _, err := gate.Identify(request("/", header, with)); err == nil {
			t.Error("the cookie is good for longer than it should be")
		}
	})
}

func TestTicketReadsOneStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, v := range []identity.Verifier{verifier(t, secret), nil} {
			gate := identity.NewGate(reprise.NewKeyset(), v, nil)
			owner, err := gate.Identify(request("/", "Authorization: Bearer "+secret))
			if err != nil {
				t.Fatal(err)
			}
			text, expires, err := gate.Ticket(owner, stream, time.Minute)
			if err != nil || time.Until(expires) > time.Minute {
				t.Fatalf("%v, %v", expires, err)
			}
			p, err := gate.Identify(request("/?ticket=" + text))
			if err != nil || !p.MayRead(stream) || p.May(identity.ScopeRead) || !p.Expires.Equal(expires) {
				t.Errorf("%+v, %v", p, err)
			}
			if p.MayRead(reprise.StreamKey{Tenant: stream.Tenant, Name: "builds/2"}) ||
				p.MayRead(reprise.StreamKey{Tenant: "other", Name: stream.Name}) {
				t.Error("reads more than one stream")
			}
			if _, _, err := gate.Ticket(p, stream, 0); !errors.Is(err, identity.ErrForbidden) {
				t.Errorf("a ticket for a ticket: %v", err)
			}
			if _, _, err := gate.Ticket(owner, reprise.StreamKey{Tenant: "other", Name: "x"}, 0); !errors.Is(err,
				identity.ErrForbidden) {
				t.Errorf("a ticket for another tenant: %v", err)
			}
			for _, ttl := range []time.Duration{-1, time.Millisecond, identity.MaxTicketTTL + 1} {
				if _, _, err := gate.Ticket(owner, stream, ttl); !errors.Is(err, reprise.ErrInvalid) {
					t.Errorf("ttl %v: %v", ttl, err)
				}
			}
			time.Sleep(time.Minute) // of the bubble
			if _, err := gate.Identify(request("/?ticket=" + text)); !errors.Is(err, identity.ErrUnauthenticated) {
				t.Errorf("an expired ticket: %v", err)
			}
		}
	})
}

func TestFailuresAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := identity.NewGate(reprise.NewKeyset(), verifier(t, secret),
			&identity.Options{Failures: 3, FailureEvery: 10 * time.Second})
		try := func(addr, token string) error {
			r := request("/", "Authorization: Bearer "+token)
			r.RemoteAddr = addr
			_, err := gate.Identify(r)
			return err
		}
		for range 3 {
			if err := try("192.0.2.1:1000", "wrong"); !errors.Is(err, identity.ErrUnauthenticated) {
				t.Fatal(err)
			}
		}
		limit, limited := errors.AsType[*identity.LimitError](try("192.0.2.1:2000", "wrong"))
		if !limited || limit.RetryAfter < 9*time.Second || limit.RetryAfter > 10*time.Second {
			t.Errorf("the fourth: %+v", limit)
		}
		if err := try("192.0.2.1:1000", secret); err != nil {
			t.Errorf("the right token of the same address: %v", err)
		}
		if err := try("192.0.2.2:1000", "wrong"); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("another address: %v", err)
		}
		time.Sleep(10 * time.Second) // of the bubble
		if err := try("192.0.2.1:1000", "wrong"); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("after the wait: %v", err)
		}
		for i := range 4 { // one subscriber has a whole /64
			err := try(fmt.Sprintf("[2001:db8::%d]:1", i+1), "wrong")
			if _, limited := errors.AsType[*identity.LimitError](err); limited != (i == 3) {
				t.Errorf("attempt %d of a /64: %v", i+1, err)
			}
		}
	})
}

// However many addresses fail, what is remembered of them is bounded, and those that
// come too late share a limit.
func TestFailuresOfManyAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := identity.NewGate(reprise.NewKeyset(), verifier(t, secret), &identity.Options{Failures: 1})
		limited := 0
		for i := range 10_100 {
			r := request("/", "Authorization: Bearer wrong")
			r.RemoteAddr = fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255)
			_, err := gate.Identify(r)
			if _, ok := errors.AsType[*identity.LimitError](err); ok {
				limited++
			}
		}
		if limited != 99 {
			t.Errorf("%d of the last 100 addresses were limited, want 99", limited)
		}
		time.Sleep(time.Second) // of the bubble: all are rested
		r := request("/", "Authorization: Bearer wrong")
		r.RemoteAddr = "172.16.0.1:1"
		if _, err := gate.Identify(r); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("when there is room again: %v", err)
		}
	})
}
