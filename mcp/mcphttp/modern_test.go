package mcphttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/mcp/mcphttp"
	"reprise/store/memstore"
)

const modern = "2026-07-28"

// modernBody is a request of version 2026-07-28.
func modernBody(id, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{},"progressToken":"t"}}}`, id, method, params)
}

// modern makes a request with the headers that it needs.
func (c *client) modern(method, name, params string) *http.Request {
	req := c.request(http.MethodPost, modernBody("7", method, params))
	req.Header.Set("Mcp-Protocol-Version", modern)
	req.Header.Set("Mcp-Method", method)
	if name != "" {
		req.Header.Set("Mcp-Name", name)
	}
	return req
}

func toolParams(name, args string) string {
	return fmt.Sprintf(`"name":%q,"arguments":{%s},`, name, args)
}

// TestModernCall: one endpoint serves both eras; no session and no event ids.
func TestModernCall(t *testing.T) {
	w := newFixture(t, setup{})
	c := w.client(modern)
	res := c.do(c.modern("tools/call", "echo", toolParams("echo", `"bytes":3`)))
	if text := c.text(res); res.StatusCode != 200 || !strings.Contains(text, `"xxx"`) ||
		res.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %s", res.StatusCode, text)
	}
	res = c.do(c.modern("tools/call", "steps", toolParams("steps", `"n":2`)))
	if got := res.Header.Get("Mcp-Session-Id"); got != "" {
		t.Errorf("a session %q", got)
	}
	text := c.text(res)
	if strings.Contains(text, "id: ") || strings.Contains(text, "retry:") ||
		strings.Count(text, "notifications/progress") != 4 {
		t.Errorf("%s", text)
	}
	for range 100 { // whoever is scheduled first
		res = c.do(c.modern("server/discover", "", ""))
		if text := c.text(res); !strings.Contains(text, `"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26"]`) {
			t.Fatalf("%s", text)
		}
	}
	w.begin("2025-06-18").tool("echo", toolInput{}).want(`"result"`)
}

// TestModernHeaders: what is missing, or does not match the body, has its code.
func TestModernHeaders(t *testing.T) {
	w := newFixture(t, setup{})
	schema := `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"in":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}}`
	w.tools.server.AddTool(&mcp.Tool{
		Name:        "mirror",
		InputSchema: json.RawMessage(schema),
	}, func(_ context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{}, nil
	})
	c := w.client(modern)
	echo, mirror := toolParams("echo", ""), toolParams("mirror", `"region":"Hällo","in":{"n":42}`)
	set := func(pairs ...string) func(*http.Request) {
		return func(r *http.Request) {
			for i := 0; i < len(pairs); i += 2 {
				r.Header.Set(pairs[i], pairs[i+1])
			}
		}
	}
	del := func(name string) func(*http.Request) { return func(r *http.Request) { r.Header.Del(name) } }
	swap := func(from, to string) func(*http.Request) {
		return func(r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			text := strings.Replace(string(body), from, to, 1)
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
		}
	}
	const encoded = "=?base64?SMOkbGxv?="
	for _, tt := range []struct {
		what, method, name, params string
		change                     func(*http.Request)
		status, code               int
	}{
		{"nothing wrong", "tools/call", "echo", echo, set(), 200, 0},
		{"spaces", "tools/call", "echo", echo, set("Mcp-Name", "  echo  "), 200, 0},
		{"base64", "tools/call", "echo", echo, set("Mcp-Name", "=?base64?ZWNobw==?="), 200, 0},
		{"no version header", "tools/call", "echo", echo, del("Mcp-Protocol-Version"), 400, -32020},
		{"another version", "tools/call", "echo", echo, set("Mcp-Protocol-Version", "2025-11-25"), 400, -32020},
		{"no method", "tools/call", "echo", echo, del("Mcp-Method"), 400, -32020},
		{"another method", "tools/call", "echo", echo, set("Mcp-Method", "tools/list"), 400, -32020},
		{"case", "tools/call", "echo", echo, set("Mcp-Method", "Tools/Call"), 400, -32020},
		{"no name", "tools/call", "", echo, set(), 400, -32020},
		{"another name", "tools/call", "x", echo, set(), 400, -32020},
		{"bad base64", "tools/call", "=?base64?*?=", echo, set(), 400, -32020},
		{"no uri", "resources/read", "", `"uri":"test://it",`, set(), 400, -32020},
		{"uri", "resources/read", "test://it", `"uri":"test://it",`, set(), 200, 0},
		{"no task", "tasks/get", "", `"taskId":"x",`, set(), 400, -32020},
		{
			"no meta version", "tools/call", "echo", echo, swap("io.modelcontextprotocol/protocolVersion", "x"), 400,
			-32602,
		},
		{
			"no capabilities", "tools/call", "echo", echo,
			swap(`"io.modelcontextprotocol/clientCapabilities":{}`, `"x":1`), 400, -32602,
		},
		{
			"capabilities are a list", "tools/call", "echo", echo, swap(`Capabilities":{}`, `Capabilities":[]`), 400,
			-32602,
		},
		{"unknown method", "x/y", "", "", set(), 404, -32601},
		{"removed method", "ping", "", "", set(), 404, -32601},
		{"future version", "tools/call", "echo", echo, func(r *http.Request) {
			swap(modern, "2999-01-01")(r)
			set("Mcp-Protocol-Version", "2999-01-01")(r)
		}, 400, -32022},
		{"mirrored", "tools/call", "mirror", mirror, set("Mcp-Param-Region", encoded, "Mcp-Param-N", "42.0"), 200, 0},
		{"not mirrored", "tools/call", "mirror", mirror, set("Mcp-Param-Region", encoded), 400, -32020},
		{
			"another value", "tools/call", "mirror", mirror, set("Mcp-Param-Region", encoded, "Mcp-Param-N", "43"),
			400, -32020,
		},
		{"not in the body", "tools/call", "mirror", toolParams("mirror", ""), set("Mcp-Param-N", "1"), 400, -32020},
		{"nothing to mirror", "tools/call", "mirror", toolParams("mirror", `"region":null`), set(), 200, 0},
		{
			"not encoded", "tools/call", "mirror", mirror, set("Mcp-Param-Region", "Hällo", "Mcp-Param-N", "42"), 400,
			-32020,
		},
	} {
		t.Run(tt.what, func(t *testing.T) {
			req := c.modern(tt.method, tt.name, tt.params)
			tt.change(req)
			res := c.do(req)
			text := c.text(res)
			code := fmt.Sprintf(`"code":%d`, tt.code)
			if res.StatusCode != tt.status ||
				tt.code != 0 && (!strings.Contains(text, code) || !strings.Contains(text, `"id":7`)) {
				t.Errorf("%d %s, want %d and code %d", res.StatusCode, text, tt.status, tt.code)
			}
			if tt.code == -32022 && !strings.Contains(text, `"data":{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26"],"requested":"2999-01-01"}`) {
				t.Errorf("%s", text)
			}
		})
	}
}

// TestModernHasNoStreamsToComeBackTo.
func TestModernHasNoStreamsToComeBackTo(t *testing.T) {
	w := newFixture(t, setup{})
	c := w.client(modern)
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		req := c.request(method, "")
		req.Header.Set("Mcp-Protocol-Version", modern)
		c.refused(c.do(req), http.StatusMethodNotAllowed, "invalid")
	}
	req := c.request(http.MethodPost, `[`+modernBody("1", "server/discover", "")+`]`)
	req.Header.Set("Mcp-Protocol-Version", modern)
	c.refused(c.do(req), http.StatusBadRequest, "invalid")
}

// TestModernDisconnectCancels, with and without something said before.
func TestModernDisconnectCancels(t *testing.T) {
	for _, steps := range []string{"0", "1"} {
		synctest.Test(t, func(t *testing.T) {
			w := newFixture(t, setup{})
			c := w.client(modern)
			ctx, stop := context.WithCancel(t.Context())
			req := c.modern("tools/call", "steps", toolParams("steps", `"gate":"g","n":`+steps)).WithContext(ctx)
			go func() {
				if res, err := w.http.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			}()
			<-w.tools.began
			stop()
			if gate := <-w.tools.cancelled; gate != "g" {
				t.Errorf("cancelled %q", gate)
			}
		})
	}
}

// TestListenSendsWhatWasAskedFor: acknowledged first, then what was asked for and nothing else, with keep-alive
// comments; a stop of the server ends it in good order.
func TestListenSendsWhatWasAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, setup{opts: mcphttp.Options{JSONResponse: true}})
		c := w.client(modern)
		s := c.stream(c.do(c.modern("subscriptions/listen", "", `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["test://it"]},`)))
		s.want(`"method":"notifications/subscriptions/acknowledged"`)
		begin := time.Now()
		go func() {
			time.Sleep(40 * time.Second)
			w.tools.server.AddPrompt(aPrompt(), nil)
			w.tools.server.RemoveTools("ask")
			check(t, w.tools.updated())
		}()
		got := s.next() + s.next()
		if !strings.Contains(got, "tools/list_changed") || !strings.Contains(got, "resources/updated") ||
			strings.Contains(got, "prompts") {
			t.Errorf("got %s", got)
		}
		if strings.Count(got, `"io.modelcontextprotocol/subscriptionId":7`) != 2 {
			t.Errorf("got %s", got)
		}
		if waited := time.Since(begin); waited < 40*time.Second || waited > 42*time.Second {
			t.Errorf("it took %v", waited)
		}
		go w.close()
		s.want(`"result":{"resultType":"complete"`)
		s.ends()
	})
}

// TestKeepAlive: a silent response of either era has a comment every 15 s.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, setup{})
		old, fresh := w.begin("2025-11-25"), w.client(modern)
		for _, send := range []func() *http.Response{
			func() *http.Response { return old.get("") },
			func() *http.Response {
				return fresh.do(fresh.modern("subscriptions/listen", "", `"notifications":{"toolsListChanged":true},`))
			},
			func() *http.Response { // whose head comes with the first comment
				return fresh.do(fresh.modern("tools/call", "steps", toolParams("steps", `"gate":"g"`)))
			},
		} {
			begin := time.Now()
			res := send()
			done := make(chan string)
			go func() {
				text, _ := io.ReadAll(res.Body)
				done <- string(text)
			}()
			time.Sleep(61*time.Second - time.Since(begin))
			_ = res.Body.Close()
			if n := strings.Count("\n"+<-done, "\n:"); n != 4 {
				t.Errorf("%d comments in a minute", n)
			}
		}
	})
}

// TestKeepAliveDespiteEmptyWakeUps: a wake-up that brings no message is silence to the client. Here the Log reads the
// state of the stream again after each append that the store refuses, and wakes all readers.
func TestKeepAliveDespiteEmptyWakeUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &refusing{Store: memstore.New(nil)}
		defer func() { check(t, store.Close()) }()
		w := newFixture(t, setup{store: store})
		defer w.close()
		c := w.begin("2025-11-25")
		res := c.get("")
		store.refuses.Store(true)
		done := make(chan string)
		go func() {
			text, _ := io.ReadAll(res.Body)
			done <- string(text)
		}()
		streams, err := w.log.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 100})
		check(t, err)
		for begin := time.Now(); time.Since(begin) < 61*time.Second; time.Sleep(300 * time.Millisecond) {
			for i := range streams.Streams {
				s, err := w.log.Stream(t.Context(), streams.Streams[i].Key)
				check(t, err)
				_, _ = s.Append(t.Context(), reprise.Event{Data: []byte("{}"), Format: reprise.FormatJSON})
				check(t, s.Trim(t.Context(), 0))
			}
		}
		_ = res.Body.Close()
		if n := strings.Count("\n"+<-done, "\n:"); n != 4 {
			t.Errorf("%d comments in a minute", n)
		}
	})
}

// refusing is a Store that takes no events while refuses is true.
type refusing struct {
	*memstore.Store
	refuses atomic.Bool
}

func (s *refusing) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	if !s.refuses.Load() {
		return s.Store.Append(ctx, reqs)
	}
	errs := make([]error, len(reqs))
	for i := range errs {
		errs[i] = reprise.ErrUnavailable
	}
	return errs
}
