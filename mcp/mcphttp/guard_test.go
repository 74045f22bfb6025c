package mcphttp_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/mcpguard"
	"reprise/internal/problem"
	"reprise/mcp/mcphttp"
)

// TestPanicIsAnErrorOfItsCall: a tool that panics fails its call, on each way to it, and nothing else.
func TestPanicIsAnErrorOfItsCall(t *testing.T) {
	const panics = `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"panics","arguments":{}}}`
	for name, opts := range map[string]mcphttp.Options{
		"streams": {}, "quick": {Quick: time.Minute}, "JSON": {JSONResponse: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, setup{opts: opts})
			mcp.AddTool(w.tools.server, &mcp.Tool{Name: "panics"},
				func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
					panic("oops")
				})
			failed := func(text string) {
				t.Helper()
				if !strings.Contains(text, `"error":{"code":-32603`) || strings.Contains(text, "oops") {
					t.Errorf("a panic is answered with %s", text)
				}
			}
			c := w.begin("2025-11-25")
			failed(c.text(c.post(panics)))
			if text := c.text(
				c.post(strings.Replace(panics, "panics", "echo", 1)),
			); !strings.Contains(text, `"result"`) {
				t.Errorf("the next call: %s", text)
			}
			old := w.begin("2025-03-26")
			text := old.text(old.post(
				"[" + panics + "," + strings.NewReplacer("panics", "echo", `:9,`, `:10,`).Replace(panics) + "]",
			))
			failed(text)
			if !strings.Contains(text, `"result"`) {
				t.Errorf("the other call of a batch: %s", text)
			}
			m := w.client(modern)
			failed(m.text(m.do(m.modern("tools/call", "panics", toolParams("panics", "")))))
			if !strings.Contains(w.logged.String(), "guard_test.go") {
				t.Errorf("the stack is not logged: %s", w.logged.String())
			}
		})
	}
}

// TestPanicOfABackend: a Backend that panics fails what it was serving.
func TestPanicOfABackend(t *testing.T) {
	w := newFixture(t,
		setup{backend: panicking{newScript(func(context.Context, *mcphttp.Exchange) error { panic("oops") })}})
	c := w.begin("2025-11-25")
	for range 2 {
		s := c.stream(c.post(call))
		s.want(`"error":{"code":-32603`)
		s.ends()
		c.accepted(`{"jsonrpc":"2.0","method":"notifications/panic"}`)
	}
	m := w.client(modern)
	m.text(m.do(m.modern("notifications/panic", "", "")))
	if text := m.text(m.do(m.modern("tools/call", "x", toolParams("x", "")))); !strings.Contains(text, "-32603") {
		t.Errorf("%s", text)
	}
}

// panicking is a script that panics on notifications too.
type panicking struct{ *script }

func (b panicking) Serve(ctx context.Context, x *mcphttp.Exchange) error {
	if x.Messages[0].Method == "notifications/panic" {
		panic("oops")
	}
	return b.script.Serve(ctx, x)
}

// TestChallengeOfRefusedRequest: who is not let in is told how to be.
func TestChallengeOfRefusedRequest(t *testing.T) {
	w := newFixture(t, setup{opts: mcphttp.Options{Identify: func(*http.Request) (reprise.Tenant, string, error) {
		return "", "", problem.New(problem.CodeUnauthenticated, "")
	}}})
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		c := w.client("2025-11-25")
		res := c.do(c.request(method, call))
		c.refused(res, http.StatusUnauthorized, "unauthenticated")
		if got := res.Header.Get("WWW-Authenticate"); got != "Bearer" {
			t.Errorf("%s: WWW-Authenticate is %q", method, got)
		}
	}
}

// TestAllowRefusesBeforeACallBegins: with a status and a challenge, under the id of the request, on both eras of the
// protocol; what is allowed goes on.
func TestAllowRefusesBeforeACallBegins(t *testing.T) {
	refusal := problem.New(problem.CodeForbidden, "not this tool")
	refusal.Challenge = `Bearer error="insufficient_scope", scope="more"`
	w := newFixture(t, setup{opts: mcphttp.Options{Allow: func(_ *http.Request, messages []mcphttp.Message) error {
		if messages[0].Method == "tools/call" {
			return refusal
		}
		return nil
	}}})
	c := w.begin("2025-11-25")
	for era, req := range map[string]*http.Request{
		"2025-11-25": c.request(http.MethodPost, `{"jsonrpc":"2.0","id":"x7","method":"tools/call","params":{"name":"echo"}}`),
		modern:       w.client(modern).modern("tools/call", "echo", toolParams("echo", `"bytes":3`)),
	} {
		res := c.do(req)
		challenge := res.Header.Get("WWW-Authenticate")
		text := c.text(res)
		if res.StatusCode != http.StatusForbidden || challenge != refusal.Challenge ||
			!strings.Contains(text, "not this tool") ||
			!strings.Contains(text, `"id":"x7"`) && !strings.Contains(text, `"id":7`) {
			t.Errorf("%s: %d %q %s", era, res.StatusCode, challenge, text)
		}
	}
	if res := c.post(`{"jsonrpc":"2.0","id":8,"method":"ping"}`); res.StatusCode != http.StatusOK {
		t.Errorf("ping: %d %s", res.StatusCode, c.text(res))
	} else {
		c.text(res)
	}
}

// TestOrdinarySessionLogsNothing: an SDK server logs nothing above debug level in an ordinary session.
func TestOrdinarySessionLogsNothing(t *testing.T) {
	var logged bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelInfo}))
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"},
		&mcp.ServerOptions{Logger: mcpguard.Quiet(logger)})
	mcp.AddTool(server, &mcp.Tool{Name: "echo"},
		func(context.Context, *mcp.CallToolRequest, toolInput) (*mcp.CallToolResult, any, error) {
			return nil, "x", nil
		})
	w := newFixture(t, setup{backend: mcphttp.Server(func(*http.Request) *mcp.Server { return server })})
	for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26"} {
		c := w.begin(version)
		listening := c.stream(c.get(""))
		for _, method := range []string{"ping", "tools/list"} {
			c.text(c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q}`, method)))
		}
		c.tool("echo", toolInput{}).want(`"result"`)
		c.do(c.request(http.MethodDelete, ""))
		listening.ends()
	}
	m := w.client(modern)
	m.text(m.do(m.modern("tools/call", "echo", toolParams("echo", ""))))
	w.close()
	if logged.Len() > 0 {
		t.Errorf("it is logged: %s", logged.String())
	}
	for _, level := range []string{"level=ERROR", "level=WARN", "level=INFO"} {
		if text := w.logged.String(); strings.Contains(text, level) {
			t.Errorf("the Handler logs %s", text)
		}
	}
}
