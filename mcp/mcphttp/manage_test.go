package mcphttp_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/mcp/mcphttp"
)

// TestSessionsCanBeSeen: they are listed and shown with what they hold, to their tenant alone, until they have ended.
func TestSessionsCanBeSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, setup{opts: mcphttp.Options{Identify: func(r *http.Request) (reprise.Tenant, string, error) {
			if r.Header.Get("X-Tenant") != "" {
				return reprise.Tenant(r.Header.Get("X-Tenant")), "p", nil
			}
			return reprise.DefaultTenant, "p", nil
		}}})
		begun := time.Now()
		c := w.begin("2025-11-25")
		time.Sleep(time.Minute)
		other := w.begin("2025-06-18")
		s := c.tool("echo", toolInput{Bytes: 1000})
		s.prime()
		s.want(`"result"`)
		s.ends()
		running := c.tool("steps", toolInput{Gate: "g"})
		running.prime()
		got, err := w.handler.SessionInfo(t.Context(), reprise.DefaultTenant, c.session)
		check(t, err)
		if got.Client != "test" || got.ClientVersion != "1" || got.Version != "2025-11-25" || got.Principal != "p" ||
			!got.Created.Equal(begun) || got.Used.Sub(begun) < time.Minute || got.Streams != 2 || got.Running != 1 ||
			got.Bytes < 1000 {
			t.Errorf("%+v", got)
		}
		page, err := w.handler.Sessions(t.Context(), reprise.DefaultTenant, 10, "")
		check(t, err)
		if len(page.Sessions) != 2 || page.Next != "" || page.Sessions[0].ID != other.session ||
			page.Sessions[1] != got {
			t.Errorf("%+v", page)
		}
		first, err := w.handler.Sessions(t.Context(), reprise.DefaultTenant, 1, "")
		check(t, err)
		second, err := w.handler.Sessions(t.Context(), reprise.DefaultTenant, 1, first.Next)
		check(t, err)
		if len(first.Sessions) != 1 || len(second.Sessions) != 1 || second.Sessions[0].ID != c.session {
			t.Errorf("%+v, then %+v", first, second)
		}
		for _, id := range []string{"", "x", strings.Repeat("A", 26)} {
			if _, err := w.handler.SessionInfo(
				t.Context(), reprise.DefaultTenant, id,
			); !errors.Is(err, reprise.ErrNotFound) {
				t.Errorf("%q: %v", id, err)
			}
		}
		if _, err := w.handler.SessionInfo(t.Context(), "elsewhere", c.session); !errors.Is(err, reprise.ErrNotFound) {
			t.Errorf("another tenant: %v", err)
		}
		if err := w.handler.EndSession(t.Context(), "elsewhere", c.session); !errors.Is(err, reprise.ErrNotFound) {
			t.Errorf("another tenant ends it: %v", err)
		}
		w.tools.release("g")
		running.want(`"done"`)
		running.ends()
	})
}

// TestCallsCanBeSeen: the kept calls of a session are listed with their tool, state, times and size, in pages.
func TestCallsCanBeSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, setup{})
		c, other := w.begin("2025-11-25"), w.begin("2025-11-25")
		begun := time.Now()
		for range 3 {
			s := c.tool("echo", toolInput{Bytes: 1000})
			s.prime()
			s.want(`"result"`)
			s.ends()
			o := other.tool("echo", toolInput{Bytes: 10})
			o.prime()
			o.want(`"result"`)
			o.ends()
		}
		time.Sleep(time.Minute)
		running := c.tool("steps", toolInput{Gate: "g"})
		running.prime()
		all, err := w.handler.Calls(t.Context(), reprise.DefaultTenant, c.session, 100, "")
		check(t, err)
		if len(all.Calls) != 4 || all.Next != "" {
			t.Fatalf("%+v", all)
		}
		if r := all.Calls[0]; r.Method != "tools/call" || r.Name != "steps" || r.Requests != 1 || !r.Ended.IsZero() ||
			r.Created.Sub(begun) < time.Minute {
			t.Errorf("the one that runs: %+v", r)
		}
		for _, r := range all.Calls[1:] {
			if r.Method != "tools/call" || r.Name != "echo" || r.Ended.IsZero() || r.Bytes < 1000 || r.Events == 0 {
				t.Errorf("one that was answered: %+v", r)
			}
		}
		var paged []mcphttp.CallInfo
		for after, pages := "", 0; pages == 0 || after != ""; pages++ {
			page, err := w.handler.Calls(t.Context(), reprise.DefaultTenant, c.session, 1, after)
			check(t, err)
			if paged, after = append(paged, page.Calls...), page.Next; len(page.Calls) > 1 || pages > 9 {
				t.Fatalf("page %d: %+v", pages, page)
			}
		}
		if !slices.Equal(paged, all.Calls) {
			t.Errorf("in pages: %+v", paged)
		}
		for tenant, session := range map[reprise.Tenant]string{
			"elsewhere": c.session, reprise.DefaultTenant: strings.Repeat("A", 26),
		} {
			if _, err := w.handler.Calls(t.Context(), tenant, session, 1, ""); !errors.Is(err, reprise.ErrNotFound) {
				t.Errorf("%s in %s: %v", session, tenant, err)
			}
		}
		w.tools.release("g")
		running.want(`"done"`)
		running.ends()
	})
}

// TestEndedByOthers: a client whose session was ended is told, when to come back too, and gets 404 from then on.
func TestEndedByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var why []mcphttp.SessionEnd
		w := newFixture(t, setup{opts: mcphttp.Options{Retry: 7 * time.Second, Hooks: &mcphttp.Hooks{
			SessionEnded: func(_ reprise.Tenant, end mcphttp.SessionEnd) { why = append(why, end) },
		}}})
		for _, version := range []string{"2025-11-25", "2025-06-18"} {
			c := w.begin(version)
			whole := c.do(c.request(http.MethodGet, ""))
			running := c.tool("steps", toolInput{Gate: "never"})
			if w.handler.Open() != 1 {
				t.Errorf("%d sessions", w.handler.Open())
			}
			check(t, w.handler.EndSession(t.Context(), reprise.DefaultTenant, c.session))
			text := c.text(whole)
			retries := strings.Count(text, "retry: 7000\n")
			if !strings.Contains(text, `"code":"session_ended"`) || (version == "2025-11-25") != (retries == 2) {
				t.Errorf("%s: the client is told %q", version, text)
			}
			running.next()
			running.drop()
			c.refused(c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q}`, "ping")),
				http.StatusNotFound, "session_not_found")
			if err := w.handler.EndSession(
				t.Context(), reprise.DefaultTenant, c.session,
			); !errors.Is(err, reprise.ErrNotFound) {
				t.Errorf("again: %v", err)
			}
			page, err := w.handler.Sessions(t.Context(), reprise.DefaultTenant, 10, "")
			if err != nil || len(page.Sessions) != 0 || w.handler.Open() != 0 {
				t.Errorf("%+v, %v", page, err)
			}
		}
		if len(why) != 2 || why[0] != mcphttp.Ended {
			t.Errorf("ended: %v", why)
		}
	})
}
