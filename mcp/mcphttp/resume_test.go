package mcphttp_test

import (
	"context"
	"maps"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/mcp/mcphttp"
)

var sessionVersions = []string{"2025-03-26", "2025-06-18", "2025-11-25"}

// TestResumeInMidCallOnEachVersion: a client that drops in the middle of a call gets the rest of it, on every version
// that can, and the tool runs once.
func TestResumeInMidCallOnEachVersion(t *testing.T) {
	for _, version := range sessionVersions {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t, setup{})
				c := w.begin(version)
				s := c.tool("steps", toolInput{N: 3, Gate: "g"})
				if version >= "2025-11-25" {
					s.prime()
				}
				s.want(progress(1, 2)...)
				s.drop()
				w.tools.release("g")
				synctest.Wait()
				s = c.stream(c.get(s.lastID))
				s.want(progress(3, 6)...)
				s.want(`"done"`)
				s.ends()
				if n := w.tools.called("steps"); n != 1 {
					t.Errorf("the tool was called %d times", n)
				}
			})
		})
	}
}

// TestResumeLive: what comes while the resumed response is open is in it, once.
func TestResumeLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, setup{})
		c := w.begin("2025-11-25")
		s := c.tool("steps", toolInput{N: 2, Gate: "g"})
		s.prime()
		primed := s.lastID
		s.want(progress(1, 2)...)
		s.drop()
		s = c.stream(c.get(primed))
		s.want(progress(1, 2)...)
		w.tools.release("g")
		s.want(progress(3, 4)...)
		s.want(`"done"`)
		s.ends()
	})
}

// TestResumeByMcpLastEventID: clients that call the header so are resumed, and Last-Event-ID takes precedence.
func TestResumeByMcpLastEventID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, setup{})
		c := w.begin("2025-11-25")
		s := c.tool("steps", toolInput{N: 2, Gate: "g"})
		s.prime()
		primed := s.lastID
		s.want(progress(1, 2)...)
		s.drop()
		w.tools.release("g")
		synctest.Wait()
		for _, header := range []http.Header{
			{"Mcp-Last-Event-Id": {primed}}, {"Mcp-Last-Event-Id": {"nonsense"}, "Last-Event-Id": {primed}},
		} {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute) // another stream would not end
			defer stop()
			req := c.request(http.MethodGet, "").WithContext(ctx)
			maps.Copy(req.Header, header)
			s = c.stream(c.do(req))
			s.want(progress(1, 4)...)
			s.want(`"done"`)
			s.ends()
		}
	})
}

// TestOnlyTheDisconnectedStreamIsReplayed, of several, and not what concerns the session as a whole.
func TestOnlyTheDisconnectedStreamIsReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, setup{})
		c := w.begin("2025-11-25")
		whole := c.stream(c.get(""))
		whole.prime()
		a := c.tool("steps", toolInput{N: 2, Gate: "a"})
		b := c.tool("steps", toolInput{N: 1, Gate: "b"})
		a.prime()
		b.prime()
		a.want(progress(1, 1)...)
		a.drop()
		b.drop()
		w.tools.server.AddPrompt(aPrompt(), nil)
		whole.want("notifications/prompts/list_changed")
		w.tools.release("a")
		w.tools.release("b")
		synctest.Wait()
		a = c.stream(c.get(a.lastID))
		a.want(progress(2, 4)...)
		a.want(`"id":1,`)
		a.ends()
		b = c.stream(c.get(b.lastID))
		b.want(progress(1, 2)...)
		b.want(`"id":2,`)
		b.ends()
		whole.drop()
	})
}

// TestTakeoverFromHalfOpenConnection: a half-open connection does not keep the client out. The newest connection has
// the stream, the older one ends.
func TestTakeoverFromHalfOpenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := 0
		w := newFixture(t,
			setup{opts: mcphttp.Options{Hooks: &mcphttp.Hooks{TakenOver: func(reprise.Tenant) { taken++ }}}})
		c := w.begin("2025-11-25")
		old := c.tool("steps", toolInput{N: 2, Gate: "g"})
		old.prime()
		old.want(progress(1, 2)...)
		fresh := c.stream(c.get(old.lastID)) // while old is open
		fresh.prime()
		old.ends()
		w.tools.release("g")
		fresh.want(progress(3, 4)...)
		fresh.want(`"done"`)
		fresh.ends()
		first := c.stream(c.get(""))
		first.prime()
		second := c.stream(c.get(""))
		second.prime()
		first.ends()
		second.drop()
		if taken != 2 {
			t.Errorf("%d takeovers were told, want 2", taken)
		}
	})
}

// TestFreshGetReplaysNothing: only who shows an id gets what was before.
func TestFreshGetReplaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, setup{})
		c := w.begin("2025-11-25")
		s := c.stream(c.get(""))
		s.prime()
		w.tools.server.AddPrompt(aPrompt(), nil)
		s.want("notifications/prompts/list_changed")
		seen := s.lastID
		s.drop()
		synctest.Wait()
		w.tools.server.RemovePrompts("p")
		time.Sleep(time.Second)
		s = c.stream(c.get(""))
		s.prime()
		w.tools.server.RemoveResources("test://it")
		s.want("notifications/resources/list_changed")
		s.drop()
		s = c.stream(c.get(seen))
		s.want("notifications/prompts/list_changed", "notifications/resources/list_changed")
		s.drop()
	})
}

// TestRefusedEventIDs: each has its own answer, and none is that of another.
func TestRefusedEventIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results := map[mcphttp.Resumption]int{}
		w := newFixture(t, setup{opts: mcphttp.Options{
			Retention: reprise.Retention{MaxEvents: 3},
			Hooks:     &mcphttp.Hooks{Resumed: func(_ reprise.Tenant, r mcphttp.Resumption, _ uint64) { results[r]++ }},
		}})
		mine, other := w.begin("2025-11-25"), w.begin("2025-11-25")
		s := mine.tool("steps", toolInput{N: 4})
		s.prime()
		first := s.lastID
		for s.next() != "" { // some of it is gone before it is read
		}
		theirs := other.tool("echo", toolInput{})
		theirs.prime()
		theirs.want(`"result"`)
		theirs.ends()
		forged := s.lastID[:len(s.lastID)-1] + "0"
		if forged == s.lastID {
			forged = s.lastID[:len(s.lastID)-1] + "1"
		}

		mine.refused(mine.get(first), http.StatusGone, "cursor_expired")
		mine.refused(mine.get(theirs.lastID), http.StatusBadRequest, "cursor_foreign")
		other.refused(other.get(s.lastID), http.StatusBadRequest, "cursor_foreign")
		mine.refused(mine.get(forged), http.StatusBadRequest, "cursor_foreign")
		mine.refused(mine.get("0~"+s.lastID[14:]), http.StatusBadRequest, "cursor_foreign")
		for _, garbage := range []string{"1", "~", "x~y", "../../etc~1", "%00", s.lastID + "x"} {
			mine.refused(mine.get(garbage), http.StatusBadRequest, "cursor_malformed")
		}
		done := mine.stream(mine.get(s.lastID))
		done.ends() // there is nothing more, and nothing to wait for
		want := map[mcphttp.Resumption]int{mcphttp.Expired: 1, mcphttp.Foreign: 10, mcphttp.Nothing: 1}
		for result, n := range want {
			if results[result] != n {
				t.Errorf("%d resumptions were told as %s, want %d", results[result], result, n)
			}
		}
	})
}

// TestClosedConnectionIsPolled: a tool closes the connection and not the stream.
func TestClosedConnectionIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, setup{})
		c := w.begin("2025-11-25")
		s := c.tool("poll", toolInput{Gate: "g"})
		s.prime()
		s.ends()
		if retry, _ := s.decoder.Retry(); retry != 40*time.Millisecond {
			t.Errorf("the client is told to wait %v, want 40ms", retry)
		}
		w.tools.release("g")
		s = c.stream(c.get(s.lastID))
		s.want(`"polled"`)
		s.ends()

		// A client of an older version cannot come back at that point, and is left alone.
		c = w.begin("2025-06-18")
		s = c.tool("poll", toolInput{})
		s.want(`"polled"`)
		s.ends()
	})
}

// TestDropBeforeTheFirstEvent: the priming event is enough to come back.
func TestDropBeforeTheFirstEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, setup{})
		c := w.begin("2025-11-25")
		s := c.tool("steps", toolInput{N: 0, Gate: "g"})
		s.prime()
		id := s.lastID
		s.drop()
		for range 3 { // and again, before any event
			s = c.stream(c.get(id))
			s.prime()
			s.drop()
		}
		w.tools.release("g")
		s = c.stream(c.get(id))
		s.want(`"done"`)
		s.ends()
	})
}

// TestLongMessages: longer than an event of the Log may be, whole and replayed whole.
func TestLongMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, setup{})
		c := w.begin("2025-11-25")
		for _, size := range []int{1, 4 << 10, 512 << 10, 600 << 10, 5 << 20} {
			s := c.tool("echo", toolInput{Bytes: size})
			s.prime()
			primed := s.lastID
			long := s.next()
			s.ends()
			if len(long) < size {
				t.Fatalf("%d bytes came, of %d", len(long), size)
			}
			s = c.stream(c.get(primed))
			if again := s.next(); again != long {
				t.Fatalf("%d bytes came again, of %d", len(again), len(long))
			}
			s.ends()
		}
		s := c.tool("echo", toolInput{Bytes: 8 << 20})
		s.want(`at most 7340032 are sent`)
		s.ends()
	})
}
