package mcphttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/mcp/mcphttp"
	"reprise/store/memstore"
)

// TestMalformedMessagesAreRefused: what is no JSON-RPC is refused as what it is, and nothing of it reaches the backend.
func TestMalformedMessagesAreRefused(t *testing.T) {
	w := newFixture(t, setup{})
	c := w.begin("2025-11-25")
	for body, code := range map[string]string{
		``:  "-32700",
		`{`: "-32700",
		`{"jsonrpc":"2.0","id":1,"method":"ping"} x`: "-32700",
		`"x"`:  "-32600",
		`null`: "-32600",
		`{}`:   "-32600",
		`[]`:   "-32600",
		`[1]`:  "-32600",
		`{"jsonrpc":"1.0","id":1,"method":"ping"}`:                       "-32600",
		`{"jsonrpc":"2.0","id":1,"method":""}`:                           "-32600",
		`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`:                     "-32600",
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`:                      "-32600",
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`:                    "-32600",
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":7}`:            "-32600",
		`{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`:           "-32600",
		`{"jsonrpc":"2.0","id":1}`:                                       "-32600",
		`{"jsonrpc":"2.0","id":1,"method":` + strings.Repeat(`[`, 20000): "-32700",
	} {
		res := c.post(body)
		if text := c.text(res); res.StatusCode != http.StatusBadRequest || !strings.Contains(text, `"code":`+code) {
			t.Errorf("%.80q: %d %s", body, res.StatusCode, text)
		}
	}
	c.tool("echo", toolInput{}).want(`"result"`)
}

// TestNamesAreToldApartByCase: what is checked here is what others read, so that nothing gets past it.
func TestNamesAreToldApartByCase(t *testing.T) {
	w := newFixture(t, setup{})
	c := w.client(modern)
	for from, to := range map[string]string{
		`"method":"tools/call"`: `"Method":"tools/call","method":"tools/list"`,
		`"name":"echo"`:         `"Name":"echo","name":"ask"`,
	} {
		for _, swapped := range []bool{false, true} {
			body := modernBody("7", "tools/call", toolParams("echo", ""))
			if first, second, _ := strings.Cut(to, ","); swapped {
				to = second + "," + first
			}
			req := c.modern("tools/call", "echo", "")
			text := strings.Replace(body, from, to, 1)
			req.Body, req.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
			res := c.do(req)
			if got := c.text(res); res.StatusCode != 400 || !strings.Contains(got, "-32020") {
				t.Errorf("%s: %d %s", to, res.StatusCode, got)
			}
		}
	}
}

// TestHeadersThatAreWrongHaveAStatus: what is missing or wrong has its status.
func TestHeadersThatAreWrongHaveAStatus(t *testing.T) {
	w := newFixture(t, setup{
		opts: mcphttp.Options{AllowedHosts: []string{"localhost"}, AllowedOrigins: []string{"https://good.example"}},
	})
	c := w.begin("2025-11-25")
	const ping = `{"jsonrpc":"2.0","id":"p","method":"ping"}`
	for _, tt := range []struct {
		what, method, body string
		change             func(*http.Request)
		status             int
	}{
		{"no session", "POST", ping, func(r *http.Request) { r.Header.Del("Mcp-Session-Id") }, 400},
		{"no session", "GET", "", func(r *http.Request) { r.Header.Del("Mcp-Session-Id") }, 400},
		{"no session", "DELETE", "", func(r *http.Request) { r.Header.Del("Mcp-Session-Id") }, 400},
		{
			"unknown session", "POST", ping,
			func(r *http.Request) { r.Header.Set("Mcp-Session-Id", strings.Repeat("A", 26)) }, 404,
		},
		{"forged session", "POST", ping, func(r *http.Request) { r.Header.Set("Mcp-Session-Id", "../../x") }, 404},
		{"two sessions", "POST", ping, func(r *http.Request) { r.Header.Add("Mcp-Session-Id", "x") }, 400},
		{"no content type", "POST", ping, func(r *http.Request) { r.Header.Del("Content-Type") }, 415},
		{"text", "POST", ping, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415},
		{
			"charset", "POST", ping,
			func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=utf-8") }, 200,
		},
		{"JSON alone", "POST", ping, func(r *http.Request) { r.Header.Set("Accept", "application/json") }, 406},
		{"SSE alone", "POST", ping, func(r *http.Request) { r.Header.Set("Accept", "text/event-stream") }, 406},
		{"no accept", "POST", ping, func(r *http.Request) { r.Header.Del("Accept") }, 406},
		{"anything", "POST", ping, func(r *http.Request) { r.Header.Set("Accept", "*/*") }, 200},
		{"JSON alone", "GET", "", func(r *http.Request) { r.Header.Set("Accept", "application/json") }, 406},
		{
			"unknown version", "POST", ping,
			func(r *http.Request) { r.Header.Set("Mcp-Protocol-Version", "1999-01-01") }, 400,
		},
		{"garbage version", "GET", "", func(r *http.Request) { r.Header.Set("Mcp-Protocol-Version", "x") }, 400},
		{"no version", "POST", ping, func(r *http.Request) { r.Header.Del("Mcp-Protocol-Version") }, 200},
		{"another host", "POST", ping, func(r *http.Request) { r.Host = "evil.example" }, 403},
		{"another origin", "POST", ping, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		{"no origin", "POST", ping, func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		{"the origin", "POST", ping, func(r *http.Request) { r.Header.Set("Origin", "https://good.example") }, 200},
		{"PUT", "PUT", ping, func(*http.Request) {}, 405},
		{"batch", "POST", "[" + ping + "]", func(*http.Request) {}, 400},
		{"initialize again", "POST", fmt.Sprintf(initialize, "2025-11-25"), func(*http.Request) {}, 400},
	} {
		t.Run(tt.what+" "+tt.method, func(t *testing.T) {
			c.ids++
			req := c.request(tt.method, strings.Replace(tt.body, `"p"`, fmt.Sprint(c.ids), 1))
			tt.change(req)
			res := c.do(req)
			if res.StatusCode != tt.status {
				t.Errorf("status %d, want %d: %s", res.StatusCode, tt.status, c.text(res))
			} else if res.StatusCode >= 400 {
				if text := c.text(res); !strings.HasPrefix(text, `{"jsonrpc":"2.0",`) {
					t.Errorf("%s is no JSON-RPC error", text)
				}
			}
			_ = res.Body.Close()
		})
	}
}

// TestLongBody is answered clearly, and by its length alone.
func TestLongBody(t *testing.T) {
	w := newFixture(t, setup{})
	c := w.begin("2025-11-25")
	body := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", 5<<20) + `"}}`
	res, err := c.http.Do(c.request(http.MethodPost, body))
	// a pipe has no buffer: the body may fail before the answer is read
	for tries := 0; err != nil && tries < 50; tries++ {
		res, err = c.http.Do(c.request(http.MethodPost, body))
	}
	check(t, err)
	text := c.refused(res, http.StatusRequestEntityTooLarge, "payload_too_large")
	if !strings.Contains(text, "4194304") {
		t.Errorf("%s does not say how much is taken", text)
	}
	c.tool("echo", toolInput{}).want(`"result"`)
}

// TestBatchOnTheVersionThatHasIt is taken on the one version that has it, and each request has its response.
func TestBatchOnTheVersionThatHasIt(t *testing.T) {
	w := newFixture(t, setup{})
	c := w.begin("2025-03-26")
	s := c.stream(c.post(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":"two","method":"ping"}]`))
	got := s.next() + s.next()
	s.ends()
	if !strings.Contains(got, `"id":1`) || !strings.Contains(got, `"id":"two"`) {
		t.Errorf("responses %s", got)
	}
	c.accepted(`[{"jsonrpc":"2.0","method":"notifications/x"}]`)
	c.refused(c.post(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"ping"}]`), 400,
		"invalid")
}

// TestIDInUse: a second request with the id of one that waits is refused, and does the first no harm.
func TestIDInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, setup{})
		c := w.begin("2025-11-25")
		s := c.tool("steps", toolInput{Gate: "g"})
		s.prime()
		c.refused(c.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), http.StatusBadRequest, "invalid")
		w.tools.release("g")
		s.want(`"done"`)
		s.ends()
		c.stream(c.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)).want(`"result"`)
	})
}

// TestIDsComeBackAsTheyWere, whatever a program can make of them.
func TestIDsComeBackAsTheyWere(t *testing.T) {
	w := newFixture(t, setup{})
	c := w.begin("2025-11-25")
	for _, id := range []string{`0`, `-7`, `9007199254740993`, `"x"`, `"1"`, `"<&> \u00e9 \" \\"`, `"é"`} {
		text := c.stream(c.post(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)).next()
		want := strings.ReplaceAll(id, `\u00e9`, "é")
		if got := strings.TrimSuffix(idOf(text), "}"); got != want {
			t.Errorf("id %s came back as %s", id, got)
		}
	}
}

// TestClientThatNeverReads is closed after WriteTimeout; the call goes on and can be resumed.
func TestClientThatNeverReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, setup{})
		c := w.begin("2025-11-25")
		s := c.tool("steps", toolInput{N: 2000, Gate: "g"})
		s.prime()
		w.tools.release("g")
		begin := time.Now()
		time.Sleep(31 * time.Second)
		synctest.Wait()
		var n int
		for s.next() != "" { // what had been written before
			n++
		}
		if n >= 4001 || time.Since(begin) > 32*time.Second {
			t.Fatalf("%d messages were written to a client that reads none", n)
		}
		s = c.stream(c.get(s.lastID))
		for s.next() != "" {
			n++
		}
		if n != 4001 {
			t.Errorf("%d messages in all, want 4001", n)
		}
	})
}

// failing is a Store that fails as long as it is told to.
type failing struct {
	reprise.Store
	fails chan struct{} // closed while it works
}

func (f *failing) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	select {
	case <-f.fails:
		return f.Store.Append(ctx, reqs)
	default:
	}
	errs := make([]error, len(reqs))
	for i := range errs {
		errs[i] = reprise.ErrUnavailable
	}
	return errs
}

// TestStoreFailsInTheMiddle: nothing is shown that is not kept, nothing is lost or doubled, and the call goes on
// when the store works again.
func TestStoreFailsInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		works := make(chan struct{})
		close(works)
		store := &failing{Store: memstore.New(nil), fails: works}
		defer store.Close()
		w := newFixture(t, setup{store: store})
		c := w.begin("2025-11-25")
		s := c.tool("steps", toolInput{N: 3, Gate: "g"})
		s.prime()
		primed := s.lastID
		s.want(progress(1, 3)...)
		<-w.tools.began
		synctest.Wait()
		broken := make(chan struct{})
		store.fails = broken
		w.tools.release("g")
		time.Sleep(time.Minute)
		c.refused(c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`),
			http.StatusServiceUnavailable, "store_unavailable")
		again := c.stream(c.get(primed)) // what was kept can be had meanwhile
		again.want(progress(1, 3)...)
		s.ends()
		close(broken)
		again.want(progress(4, 6)...)
		again.want(`"done"`)
		again.ends()
	})
}

// hanging is a Store whose reads, while it hangs, wait for the end of their context.
type hanging struct {
	reprise.Store
	hangs bool
}

func (h *hanging) Read(ctx context.Context, key reprise.StreamKey, after uint64, n int) (reprise.Page, error) {
	if h.hangs {
		<-ctx.Done()
		return reprise.Page{}, context.Cause(ctx)
	}
	return h.Store.Read(ctx, key, after, n)
}

// TestHangingStoreIsToldInTime: a request is refused after the patience of 3 s, however long the store takes.
func TestHangingStoreIsToldInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memstore.New(nil)
		defer inner.Close()
		w := newFixture(t, setup{store: inner})
		c := w.begin("2025-11-25")
		w.close()
		store := &hanging{Store: inner}
		w = newFixture(t, setup{store: store})
		store.hangs = true
		began := time.Now()
		c.with(w).refused(c.with(w).get(""), http.StatusServiceUnavailable, "store_unavailable")
		if took := time.Since(began); took < 3*time.Second || took > 3500*time.Millisecond {
			t.Errorf("refused after %v", took)
		}
		store.hangs = false
		c.with(w).stream(c.with(w).get("")).drop()
	})
}
