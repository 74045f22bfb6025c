package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/internal/mcpserver"
	"reprise/mcp/mcphttp"
	"reprise/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a server over HTTP.
type fixture struct {
	t      *testing.T
	log    *reprise.Log
	host   *execution.Host
	server *mcpserver.Server
	url    string
	close  func()
}

func newFixture(t *testing.T, opts *mcpserver.Options) *fixture {
	log, err := reprise.Open(t.Context(), memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	w := newFixtureOn(t, log, opts)
	t.Cleanup(func() { log.Close() })
	t.Cleanup(w.close)
	return w
}

// newFixtureOn returns a fixture on log. The caller closes it.
func newFixtureOn(t *testing.T, log *reprise.Log, opts *mcpserver.Options) *fixture {
	t.Helper()
	host, err := execution.Open(t.Context(), log,
		&execution.Options{StateDir: t.TempDir(), Grace: patience, Secret: []byte("secret"), Drive: interpreter.Drive})
	if err != nil {
		t.Fatal(err)
	}
	server, err := mcpserver.New(log, host, opts)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := mcphttp.New(log, server.Backend(), &mcphttp.Options{
		Identify: func(r *http.Request) (reprise.Tenant, string, error) {
			if user := r.Header.Get("X-User"); user != "" {
				return reprise.Tenant(user), user, nil
			}
			return reprise.DefaultTenant, "", nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(handler)
	return &fixture{t: t, log: log, host: host, server: server, url: web.URL, close: func() {
		server.Close()
		handler.Close()
		web.CloseClientConnections()
		web.Close()
		host.Close()
		http.DefaultClient.CloseIdleConnections()
	}}
}

// as adds the header of a user.
type as string

func (u as) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-User", string(u))
	return http.DefaultTransport.RoundTrip(r)
}

// patience bounds everything that a test waits for.
const patience = 2 * time.Minute

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("condition not met: %s", what)
		}
	}
}

// gate is a file that commands wait for.
type gate string

func newGate(t *testing.T) gate { return gate(filepath.Join(t.TempDir(), "open")) }

// wait is a command that ends when the gate is open.
func (g gate) wait() string { return fmt.Sprintf("until [ -e %s ]; do sleep 0.02; done", g) }

func (g gate) open(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(string(g), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// eras are a version of each.
var eras = []string{"2025-11-25", "2026-07-28"}

func (w *fixture) session(version, user string, opts *mcp.ClientOptions) *mcp.ClientSession {
	w.t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts)
	transport := &mcp.StreamableClientTransport{Endpoint: w.url, HTTPClient: &http.Client{Transport: as(user)}}
	session, err := client.Connect(w.t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { session.Close() })
	return session
}

// caller calls tools.
type caller struct {
	t       *testing.T
	session *mcp.ClientSession
}

func (w *fixture) caller(version, user string) *caller {
	return &caller{w.t, w.session(version, user, nil)}
}

// call calls a tool, into out, and returns the text. Errors of tools are those of the test.
func (c *caller) call(tool string, arguments map[string]any, out any) string {
	c.t.Helper()
	text, result := c.try(c.t.Context(), tool, arguments, out)
	if result.IsError {
		c.t.Fatalf("%s %v: %s", tool, arguments, text)
	}
	return text
}

// try calls a tool. Into out goes the structured content, or the facts in _meta, with the output in the text. A *read
// asks for events.
func (c *caller) try(ctx context.Context, tool string, arguments map[string]any,
	out any,
) (string, *mcp.CallToolResult) {
	c.t.Helper()
	if _, ok := out.(*read); ok {
		arguments = maps.Clone(arguments)
		arguments["events"] = true
	}
	result, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		c.t.Fatalf("%s %v: %v", tool, arguments, err)
	}
	text := textOf(result)
	facts := result.StructuredContent
	if facts == nil {
		facts = result.Meta["reprise/execution"]
	}
	if facts != nil && out != nil {
		data, err := json.Marshal(facts)
		if err == nil {
			err = json.Unmarshal(data, out)
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
	if x, ok := out.(*executed); ok {
		x.fill(text)
	}
	return text, result
}

func textOf(result *mcp.CallToolResult) string {
	var b strings.Builder
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			b.WriteString(text.Text)
		}
	}
	return b.String()
}

// fill finds the output in the text of a result.
func (x *executed) fill(text string) {
	if i := strings.LastIndex(text, "[execution "); i >= 0 {
		text = text[:i]
	}
	if i := strings.LastIndex(text, "[not all output is kept: "); i >= 0 {
		text = text[:i]
	}
	stdout, stderr := text, ""
	if x.Stderr.Bytes > 0 {
		stdout, stderr, _ = strings.Cut(text, "[stderr]\n")
	}
	x.Stdout.fill(stdout)
	x.Stderr.fill(stderr)
}

func (c *channel) fill(text string) {
	switch {
	case c.Binary:
		c.Text = ""
	case c.Omitted == 0 && int64(len(text)) == c.Bytes+1:
		c.Text = text[:c.Bytes] // without the line break that a result ends its output with
	default:
		c.Text = text
	}
}

// refuse calls a tool that must answer with an error of a code.
func (c *caller) refuse(tool string, arguments map[string]any, code string) {
	c.t.Helper()
	text, result := c.try(c.t.Context(), tool, arguments, nil)
	meta, _ := result.Meta["reprise/error"].(map[string]any)
	if !result.IsError || !strings.HasPrefix(text, code+": ") || meta["code"] != code {
		c.t.Errorf("%s %v is answered with %q and %v, want %s", tool, arguments, text, meta, code)
	}
}

type channel struct {
	Text    string
	Bytes   int64
	Omitted int64
	Cursor  string
	Binary  bool
}

// executed is what execute_code returns.
type executed struct {
	ID             string `json:"execution_id"`
	Status         string
	Outcome        string
	ExitCode       *int `json:"exit_code"`
	Attached       bool
	Cursor         string
	Stdout, Stderr channel
}

// read is what get_execution_output returns.
type read struct {
	Events []struct {
		ID     string `json:"event_id"`
		Type   string
		Text   string
		Base64 []byte
	}
	Cursor    string
	HasMore   bool `json:"has_more"`
	Truncated *struct {
		Missed    uint64
		TakenBack uint64 `json:"taken_back"`
	}
	End *struct {
		Outcome  string
		ExitCode *int `json:"exit_code"`
	}
}
