package gateway_test

//lint:file-ignore SA1019 the versions before 2026-07-28 have roots and logging

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/gateway"
	"reprise/internal/gateway/credential"
	"reprise/mcp/mcphttp"
	"reprise/mcp/mcptask"
	"reprise/store/memstore"
)

// program is the server of testdata/upstream, compiled.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "gateway-test-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program = filepath.Join(dir, "upstream")
	build := exec.Command("go", "build", "-o", program, "./testdata/upstream")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %s\n", err, out)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// patience bounds everything that a test waits for.
const patience = 2 * time.Minute

// versions are those that a client may begin with: one of each era.
var versions = []string{"2025-11-25", "2026-07-28"}

// fixture is a Handler over a Gateway, at a URL.
type fixture struct {
	testing.TB
	store   reprise.Store
	up      gateway.Upstream
	opts    mcphttp.Options
	hooks   *gateway.Hooks
	claims  func(r *http.Request, tenant reprise.Tenant, principal string) map[string]string
	secrets credential.Secrets
	admit   func(*mcphttp.Exchange) (release func(), err error)
	log     *reprise.Log
	gateway *gateway.Gateway
	// taskAfter has long calls become tasks, unless it is 0.
	taskAfter time.Duration
	tasks     *mcptask.Tasks
	handler   *mcphttp.Handler
	http      *httptest.Server
	logged    *safeBuffer
	client    *http.Client
}

// newFixture serves an upstream, by default the test's program over stdio.
func newFixture(tb testing.TB, up gateway.Upstream) *fixture {
	tb.Helper()
	f := &fixture{
		TB: tb, store: memstore.New(nil), up: up, logged: &safeBuffer{},
		client: &http.Client{Transport: &http.Transport{}},
	}
	if f.up.Command == nil && f.up.URL == "" && f.up.Merge == nil {
		f.up.Command = []string{program}
	}
	tb.Cleanup(func() {
		f.stop()
		check(tb, f.store.Close())
		if tb.Failed() {
			tb.Log(f.logged)
		}
	})
	return f
}

// start begins to serve. It may be called again after stop.
func (f *fixture) start() *fixture {
	f.Helper()
	var err error
	f.log, err = reprise.Open(context.Background(), f.store, &reprise.Options{SweepEvery: -1, Keys: keys})
	check(f, err)
	logger := slog.New(slog.NewTextHandler(f.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	opts := &gateway.Options{
		Logger: logger, Hooks: f.hooks, TaskAfter: f.taskAfter, Claims: f.claims, Secrets: f.secrets, Admit: f.admit,
	}
	if f.taskAfter > 0 {
		opts.Tasks, err = mcptask.New(f.log, &mcptask.Options{Poll: 50 * time.Millisecond, Logger: logger})
		check(f, err)
		f.tasks = opts.Tasks
	}
	f.gateway, err = gateway.New(&f.up, opts)
	check(f, err)
	f.opts.Logger = logger
	f.handler, err = mcphttp.New(f.log, f.gateway, &f.opts)
	check(f, err)
	f.http = httptest.NewServer(f.handler)
	return f
}

func (f *fixture) stop() {
	if f.http == nil {
		return
	}
	check(f, f.handler.Close())
	if f.tasks != nil {
		check(f, f.tasks.Close())
	}
	check(f, f.gateway.Close())
	f.client.CloseIdleConnections()
	f.http.CloseClientConnections()
	f.http.Close()
	check(f, f.log.Close())
	f.http = nil
}

var keys = reprise.NewKeyset()

// connect is a client of the Go SDK.
func (f *fixture) connect(version string, opts *mcp.ClientOptions) *mcp.ClientSession {
	f.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts)
	client.AddRoots(&mcp.Root{URI: "file:///root"})
	session, err := client.Connect(context.Background(), &mcp.StreamableClientTransport{
		Endpoint: f.http.URL, HTTPClient: f.client, MaxRetries: 10,
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	check(f, err)
	f.Cleanup(func() { _ = session.Close() }) // its server may have ended
	if got := session.InitializeResult().ProtocolVersion; got != version {
		f.Fatalf("the version is %s and not %s", got, version)
	}
	return session
}

type args map[string]any

// call calls a tool and returns its text, or its error.
func call(s *mcp.ClientSession, tool string, in args) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if in == nil {
		in = args{}
	}
	result, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: in})
	if err != nil {
		return "", err
	}
	text := ""
	for _, c := range result.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			text += t.Text
		}
	}
	if result.IsError {
		return "", fmt.Errorf("the tool failed: %s", text)
	}
	return text, nil
}

func (f *fixture) want(s *mcp.ClientSession, tool string, in args, text string) {
	f.Helper()
	got, err := call(s, tool, in)
	check(f, err)
	if got != text {
		f.Errorf("%s answers %q and not %q", tool, got, text)
	}
}

// codeOf is the code in the data of a JSON-RPC error.
func codeOf(err error) string {
	var data struct {
		Code string `json:"code"`
	}
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
		_ = json.Unmarshal(wire.Data, &data)
	}
	return data.Code
}

func (f *fixture) wantError(s *mcp.ClientSession, tool string, in args, part string) {
	f.Helper()
	got, err := call(s, tool, in)
	if err == nil || !strings.Contains(err.Error(), part) {
		f.Errorf("%s answers %q, %v; want an error with %q", tool, got, err, part)
	}
}

func (f *fixture) eventually(what string, ok func() bool) {
	f.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	f.Fatalf("condition not met: %s", what)
}

// slept is how many calls of the tool sleep have begun.
func (f *fixture) slept() int { return strings.Count(f.logged.String(), "text=sleeping") }

// safeBuffer is what was logged.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func each(t *testing.T, f func(t *testing.T, version string)) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) { f(t, version) })
	}
}
