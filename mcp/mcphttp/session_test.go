package mcphttp_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/problem"
	"reprise/mcp/mcphttp"
	"reprise/store/memstore"
	"reprise/store/sqlitestore"
)

// TestSessionIDs are unguessable and visible ASCII, and no two are alike.
func TestSessionIDs(t *testing.T) {
	w := newFixture(t, setup{})
	seen := map[string]bool{}
	for range 50 {
		id := w.begin("2025-11-25").session
		if !regexp.MustCompile(`^[A-Z2-7]{26}$`).MatchString(id) || seen[id] {
			t.Fatalf("session id %q", id)
		}
		seen[id] = true
	}
}

// TestTerminatedSession: 404 from then on, for every request, and what was open ends.
func TestTerminatedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := []mcphttp.SessionEnd{}
		w := newFixture(t, setup{opts: mcphttp.Options{Hooks: &mcphttp.Hooks{
			SessionEnded: func(_ reprise.Tenant, why mcphttp.SessionEnd) { ended = append(ended, why) },
		}}})
		c := w.begin("2025-11-25")
		call := c.tool("steps", toolInput{N: 1, Gate: "g"})
		call.prime()
		<-w.tools.began
		whole := c.stream(c.get(""))
		whole.prime()
		res := c.do(c.request(http.MethodDelete, ""))
		if c.text(res); res.StatusCode != http.StatusNoContent {
			t.Fatalf("DELETE: %d", res.StatusCode)
		}
		if gate := <-w.tools.cancelled; gate != "g" {
			t.Errorf("the tool at %q was cancelled", gate)
		}
		whole.ends()
		c.refused(c.post(`{"jsonrpc":"2.0","id":9,"method":"ping"}`), http.StatusNotFound, "session_not_found")
		c.refused(c.post(`{"jsonrpc":"2.0","method":"notifications/x"}`), http.StatusNotFound, "session_not_found")
		c.refused(c.get(""), http.StatusNotFound, "session_not_found")
		c.refused(c.get(call.lastID), http.StatusNotFound, "session_not_found")
		c.refused(c.do(c.request(http.MethodDelete, "")), http.StatusNotFound, "session_not_found")
		call.drop()
		if len(ended) != 1 || ended[0] != mcphttp.Terminated {
			t.Errorf("ends were told as %v", ended)
		}
	})
}

// byWho identifies the sender of a request by its header Who, such as "tenant/principal".
func byWho(r *http.Request) (reprise.Tenant, string, error) {
	tenant, principal, _ := strings.Cut(r.Header.Get("Who"), "/")
	return reprise.Tenant(tenant), principal, nil
}

// TestAnotherPrincipal: a session is not there for others.
func TestAnotherPrincipal(t *testing.T) {
	w := newFixture(t, setup{opts: mcphttp.Options{Identify: byWho}})
	ann := w.beginAs("2025-11-25", "a/ann")
	s := ann.tool("echo", toolInput{})
	s.want(`"result"`)
	s.ends()
	for _, who := range []string{"a/bob", "a/", "b/ann"} {
		bob := ann.with(w)
		bob.header.Set("Who", who)
		bob.refused(bob.post(`{"jsonrpc":"2.0","id":9,"method":"ping"}`), http.StatusNotFound, "session_not_found")
		bob.refused(bob.get(s.lastID), http.StatusNotFound, "session_not_found")
		bob.refused(bob.do(bob.request(http.MethodDelete, "")), http.StatusNotFound, "session_not_found")
	}
	ann.stream(ann.get(s.lastID)).ends()
}

// TestRestartKeepsSessions: what a client has agreed on and was sent outlives the process; a call that it could not
// answer has an error for an answer.
func TestRestartKeepsSessions(t *testing.T) {
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "r.db"), nil)
	check(t, err)
	defer store.Close()
	keys := reprise.NewKeyset()
	w := newFixture(t, setup{store: store, log: reprise.Options{Keys: keys}})
	c := w.begin("2025-11-25")
	c.stream(c.post(`{"jsonrpc":"2.0","id":"l","method":"logging/setLevel","params":{"level":"info"}}`)).
		want(`"result"`)
	c.stream(c.post(`{"jsonrpc":"2.0","id":"s","method":"resources/subscribe","params":{"uri":"test://it"}}`)).
		want(`"result"`)
	done := c.tool("steps", toolInput{N: 2})
	done.prime()
	primed := done.lastID
	done.want(progress(1, 4)...)
	done.want(`"done"`)
	open := c.tool("steps", toolInput{N: 1, Gate: "g"})
	open.prime()
	open.want(progress(1, 1)...)
	<-w.tools.began
	open.drop()
	w.close()

	w = newFixture(t, setup{store: store, log: reprise.Options{Keys: keys}})
	c = c.with(w)
	s := c.stream(c.get(primed))
	s.want(progress(1, 4)...)
	s.want(`"done"`)
	s.ends()
	s = c.stream(c.get(open.lastID))
	s.want(`"id":2,"error":`)
	s.ends()
	s = c.tool("level", toolInput{})
	s.want("notifications/message", `"logged"`) // the level that was set before
	s.ends()
	whole := c.stream(c.get(""))
	whole.prime()
	// What was subscribed to before the restart is subscribed to again.
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		check(t, w.tools.updated())
		if strings.Contains(w.stored(c), "notifications/resources/updated") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no update came")
		}
	}
	whole.want("notifications/resources/updated")
	whole.drop()
}

// TestIdleSessionsExpire, and one that is used does not.
func TestIdleSessionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		defer store.Close()
		keys := reprise.NewKeyset()
		idle := 0
		opts := mcphttp.Options{
			SessionIdle: time.Hour,
			Hooks: &mcphttp.Hooks{SessionEnded: func(_ reprise.Tenant, why mcphttp.SessionEnd) {
				if why == mcphttp.Idle {
					idle++
				}
			}},
		}
		w := newFixture(t, setup{store: store, opts: opts, log: reprise.Options{Keys: keys}})
		listens, calls, used, left := w.begin("2025-11-25"), w.begin("2025-11-25"), w.begin("2025-11-25"),
			w.begin("2025-11-25")
		whole := listens.stream(listens.get(""))
		whole.prime()
		go io.Copy(io.Discard, whole.body) // reads the keep-alive comments
		call := calls.tool("steps", toolInput{N: 0, Gate: "g"})
		call.prime()
		call.drop()
		for range 5 {
			time.Sleep(30 * time.Minute)
			used.stream(used.post(`{"jsonrpc":"2.0","id":9,"method":"ping"}`)).want(`"result"`)
		}
		left.refused(left.get(""), http.StatusNotFound, "session_not_found")
		calls.stream(calls.get(call.lastID)).drop()
		whole.drop()
		if idle != 1 {
			t.Errorf("%d sessions were told as idle, want 1", idle)
		}
		w.close()

		// Those that a process has left behind are ended by the next one.
		w = newFixture(t, setup{store: store, opts: opts, log: reprise.Options{Keys: keys}})
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		for _, c := range []*client{listens, calls, used} {
			c = c.with(w)
			c.refused(c.get(""), http.StatusNotFound, "session_not_found")
		}
		if idle != 4 {
			t.Errorf("%d sessions were told as idle, want 4", idle)
		}
	})
}

// TestAbandonedSessionsGiveMemoryBack: 10,000 clients that go away and do not come back.
func TestAbandonedSessionsGiveMemoryBack(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of sessions")
	}
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t,
			setup{opts: mcphttp.Options{SessionIdle: time.Hour}, log: reprise.Options{Remember: time.Minute}})
		heap := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		abandon := func(n int) {
			for range n {
				c := w.begin("2025-11-25")
				whole := c.stream(c.get("")) // with all that the backend makes for it
				whole.prime()
				whole.drop()
			}
		}
		expire := func() {
			time.Sleep(3 * time.Hour)
			for range 3 {
				_, err := w.log.Sweep(t.Context())
				check(t, err)
				time.Sleep(time.Hour)
			}
			synctest.Wait()
		}
		abandon(100) // what is made once is there
		expire()
		before := heap()
		abandon(abandoned)
		full := heap()
		expire()
		after := heap()
		t.Logf("heap: %d KiB before, %d KiB with %d sessions, %d KiB after they expired",
			before>>10, full>>10, abandoned, after>>10)
		if after > before+(full-before)/2 { // maps keep their room, for those that come next
			t.Errorf("memory does not come back: %d, %d, %d bytes", before, full, after)
		}
	})
}

// TestRevokedClientLosesItsResponse: a response does not go on when its client is not let in any more.
func TestRevokedClientLosesItsResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var revoked atomic.Bool
		w := newFixture(t, setup{opts: mcphttp.Options{Identify: func(*http.Request) (reprise.Tenant, string, error) {
			if revoked.Load() {
				return "", "", problem.New(problem.CodeUnauthenticated, "revoked")
			}
			return reprise.DefaultTenant, "ann", nil
		}}})
		c := w.begin("2025-11-25")
		s := c.stream(c.get(""))
		s.prime()
		revoked.Store(true)
		begin := time.Now()
		s.ends()
		if waited := time.Since(begin); waited > 30*time.Second {
			t.Errorf("the response ended after %v", waited)
		}
		c.refused(c.get(""), http.StatusUnauthorized, "unauthenticated")
	})
}

// TestVersionsThatAreNotServed: a client that asks for another version is offered the newest that has sessions.
func TestVersionsThatAreNotServed(t *testing.T) {
	w := newFixture(t, setup{})
	old := newFixture(t, setup{opts: mcphttp.Options{Versions: []string{"2025-03-26", "2025-06-18"}}})
	for _, version := range []string{"2024-11-05", "1.0", "2099-01-01", modern} {
		for want, w := range map[string]*fixture{"2025-11-25": w, "2025-06-18": old} {
			c := w.client("")
			text := c.text(c.post(fmt.Sprintf(initialize, version)))
			if !strings.Contains(text, `"protocolVersion":"`+want+`"`) {
				t.Errorf("%s is answered with %s, want %s", version, text, want)
			}
		}
	}
}

// TestVersionsCanBeRestricted: a Handler serves those that it is told to.
func TestVersionsCanBeRestricted(t *testing.T) {
	w := newFixture(t, setup{opts: mcphttp.Options{Versions: []string{modern}}})
	res := w.client("2025-11-25").post(fmt.Sprintf(initialize, "2025-11-25"))
	text := w.client("").text(res)
	if res.StatusCode != 400 || !strings.Contains(text, `"supported":["2026-07-28"],"requested":"2025-11-25"`) {
		t.Errorf("%d %s", res.StatusCode, text)
	}
	w = newFixture(t, setup{opts: mcphttp.Options{Versions: []string{"2025-11-25", "2025-06-18"}}})
	c := w.client(modern)
	res = c.do(c.modern("server/discover", "", ""))
	if text := c.text(res); res.StatusCode != 400 || !strings.Contains(text, `"supported":["2025-11-25","2025-06-18"],"requested":"2026-07-28"`) {
		t.Errorf("%d %s", res.StatusCode, text)
	}
}

// TestInitializeOfTheSameClientInstanceRejoinsItsSession, and each other one begins a session.
func TestInitializeOfTheSameClientInstanceRejoinsItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var admitted atomic.Int64
		w := newFixture(t, setup{opts: mcphttp.Options{
			Identify: byWho,
			Admit: func(reprise.Tenant, string, bool) (func(), error) {
				admitted.Add(1)
				return func() { admitted.Add(-1) }, nil
			},
		}})
		initializeAs := func(version, who, instance, session string) (*http.Response, string) {
			c := w.client(version)
			c.header = http.Header{"Who": {who}, "Mcp-Client-Instance-Id": {instance}}
			if session != "" {
				c.header.Set("Mcp-Session-Id", session)
			}
			res := c.post(fmt.Sprintf(initialize, version))
			return res, c.text(res)
		}
		res, _ := initializeAs("2025-11-25", "x/ann", "one", "")
		c := w.client("2025-11-25")
		c.session = res.Header.Get("Mcp-Session-Id")
		c.header.Set("Who", "x/ann")
		c.accepted(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		s := c.tool("steps", toolInput{N: 2, Gate: "g"})
		s.prime()
		primed := s.lastID
		s.drop()
		w.tools.release("g")
		synctest.Wait()
		for _, other := range []struct{ version, who, instance, session string }{
			{"2025-11-25", "x/ann", "two", c.session},
			{"2025-11-25", "x/bob", "one", c.session},
			{"2025-06-18", "x/ann", "one", c.session},
			{"2025-11-25", "x/ann", "one", "unknown"},
			{"2025-11-25", "x/ann", "one", ""},
		} {
			res, text := initializeAs(other.version, other.who, other.instance, other.session)
			if id := res.Header.Get("Mcp-Session-Id"); res.StatusCode != 200 || id == "" || id == c.session {
				t.Errorf("%v: status %d, session %q: %s", other, res.StatusCode, id, text)
			}
		}
		for _, instance := range []string{"", strings.Repeat("x", 129)} {
			if res, _ := initializeAs("2025-11-25", "x/ann", instance, c.session); res.StatusCode != 400 {
				t.Errorf("instance %q: status %d, want 400", instance, res.StatusCode)
			}
		}
		before := admitted.Load()
		res, text := initializeAs("2025-11-25", "x/ann", "one", c.session)
		if after := admitted.Load(); after != before {
			t.Errorf("%d sessions are admitted after the session was rejoined, want %d", after, before)
		}
		if id := res.Header.Get("Mcp-Session-Id"); id != c.session || !strings.Contains(text, `"id":"init"`) {
			t.Fatalf("status %d, session %q, want %q: %s", res.StatusCode, id, c.session, text)
		}
		s = c.stream(c.get(primed))
		s.want(progress(1, 4)...)
		s.want(`"done"`)
		s.ends()
	})
}
