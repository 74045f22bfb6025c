package mcphttp_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/mcp/mcphttp"
	"reprise/store/memstore"
)

// countingStore counts commits, and does not answer reads while it hangs.
type countingStore struct {
	*memstore.Store
	commits atomic.Int64
	hangs   atomic.Bool
}

func (s *countingStore) Append(ctx context.Context, requests []reprise.AppendRequest) []error {
	s.commits.Add(1)
	return s.Store.Append(ctx, requests)
}

func (s *countingStore) CreateAppend(ctx context.Context, info reprise.StreamInfo, first reprise.AppendRequest) (
	reprise.StreamInfo, error,
) {
	s.commits.Add(1)
	return s.Store.CreateAppend(ctx, info, first)
}

func (s *countingStore) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (
	reprise.Page, error,
) {
	if s.hangs.Load() {
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
		return reprise.Page{}, reprise.ErrUnavailable
	}
	return s.Store.Read(ctx, key, after, maxBytes)
}

// heap is how much memory is in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

var finishedCalls = flag.Int("finished", finished, "how many calls are made whose cost is measured")

// TestFinishedCallsCostNothing: what was answered at once and cannot be resumed leaves no stream, no commit and no
// memory behind.
func TestFinishedCallsCostNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("many calls")
	}
	store := &countingStore{Store: memstore.New(nil)}
	defer store.Close()
	w := newFixture(t, setup{store: store, opts: mcphttp.Options{Quick: time.Minute}})
	c := w.begin("2025-11-25")
	bodies := []string{
		`{"jsonrpc":"2.0","id":%d,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"bytes":100}}}`,
	}
	send := func(from, to int) {
		for i := from; i < to; i++ {
			res := httptest.NewRecorder()
			w.handler.ServeHTTP(res, c.request(http.MethodPost, fmt.Sprintf(bodies[i%len(bodies)], i)))
			if res.Code != http.StatusOK || res.Header().Get("Content-Type") != "application/json" {
				t.Fatalf("call %d: %d %s", i, res.Code, res.Body)
			}
		}
	}
	send(0, 1000) // what is made once is there
	before, commits := heap(), store.commits.Load()
	count := *finishedCalls
	send(1000, 1000+count)
	each := (heap() - before) / int64(count)
	t.Logf("%d calls: %d bytes each, %d commits", count, each, store.commits.Load()-commits)
	if each > 30 || store.commits.Load() != commits || w.streams() != 0 {
		t.Errorf("%d bytes each, %d commits, %d streams", each, store.commits.Load()-commits, w.streams())
	}
}

// TestCallsGoWithTheirSession: nobody can resume a call of a session that has ended, so its stream is removed.
func TestCallsGoWithTheirSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, setup{})
		c, other := w.begin("2025-11-25"), w.begin("2025-11-25")
		for _, c := range []*client{c, c, other} {
			s := c.tool("echo", toolInput{})
			s.prime()
			s.want(`"result"`)
			s.ends()
		}
		running := c.tool("steps", toolInput{Gate: "g"})
		running.prime()
		if res := c.do(c.request(http.MethodDelete, "")); res.StatusCode != http.StatusNoContent {
			t.Fatalf("DELETE: %d", res.StatusCode)
		}
		running.drop()
		synctest.Wait()
		if n := w.streams(); n != 1 {
			t.Errorf("%d streams are left, want that of the other session", n)
		}
	})
}

// TestQuickLists: a list is answered without a stream although it takes long.
func TestQuickLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, setup{
			backend: newScript(func(_ context.Context, x *mcphttp.Exchange) error {
				time.Sleep(time.Second)
				return respond(x, "{}")
			}),
			opts: mcphttp.Options{Quick: 5 * time.Millisecond},
		})
		c := w.begin("2025-11-25")
		for method, want := range map[string]string{
			"tools/list":               "application/json",
			"resources/templates/list": "application/json",
			"ping":                     "application/json",
			"tools/call":               "text/event-stream",
		} {
			res := c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q}`, method))
			if got := res.Header.Get("Content-Type"); got != want {
				t.Errorf("%s is answered with %s", method, got)
			}
			c.text(res)
		}
	})
}

// TestRequestOnHangingStoreTimesOut: a request whose store does not answer is refused within the documented time.
func TestRequestOnHangingStoreTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, keys := &countingStore{Store: memstore.New(nil)}, reprise.NewKeyset()
		defer store.Close()
		a := newFixture(t, setup{store: store, log: reprise.Options{Keys: keys}})
		c := a.begin("2025-11-25")
		s := c.tool("echo", toolInput{})
		s.prime()
		id := s.lastID
		s.want(`"result"`)
		s.ends()
		a.close()
		b := newFixture(t, setup{store: store, log: reprise.Options{Keys: keys}})
		store.hangs.Store(true)
		begin := time.Now()
		c.with(b).refused(c.with(b).get(id), http.StatusServiceUnavailable, "store_unavailable")
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("it took %v", took)
		}
		store.hangs.Store(false)
		time.Sleep(time.Minute)
		c.with(b).stream(c.with(b).get(id)).want(`"result"`)
	})
}

// TestFirstGetReceivesEarlierMessages: messages sent before the client listens are kept for it and delivered once.
func TestFirstGetReceivesEarlierMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, keys := memstore.New(nil), reprise.NewKeyset()
		defer store.Close()
		w := newFixture(t, setup{store: store, log: reprise.Options{Keys: keys}})
		c := w.begin("2025-11-25")
		subscribe := c.stream(c.post(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://it"}}`))
		subscribe.prime()
		subscribe.want(`"result"`)
		check(t, w.tools.updated())
		synctest.Wait()
		first := c.stream(c.get(""))
		defer time.AfterFunc(time.Minute, first.drop).Stop() // or it would wait for ever
		first.prime()
		primed := first.lastID
		first.want("notifications/resources/updated")
		first.drop()
		// It has an id to come back with; without one it begins with what comes from then on.
		again := c.stream(c.get(primed))
		again.prime()
		again.want("notifications/resources/updated")
		again.drop()
		w.close()
		b := newFixture(t, setup{store: store, log: reprise.Options{Keys: keys}})
		fresh := c.with(b).stream(c.with(b).get(""))
		fresh.prime()
		synctest.Wait() // it has subscribed again
		check(t, b.tools.updated())
		fresh.want("notifications/resources/updated")
		synctest.Wait()
		if n := strings.Count(b.stored(c), "notifications/resources/updated"); n != 2 {
			t.Errorf("%d messages are kept", n)
		}
		b.handler.Close()
		fresh.ends()
	})
}
