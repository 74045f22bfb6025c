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
	"reprise/gateway"
	"reprise/mcphttp"
	"reprise/mcptask"
	"reprise/memstore"
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
const patience = 20 * time.Second

// versions are those that a client may begin with: one of each era.
var versions = []string{"2025-11-25", "2026-07-28"}

// world is a Handler over a Gateway, at a URL.
type world struct {
	testing.TB
	store   reprise.Store
	up      gateway.Upstream
	opts    mcphttp.Options
	hooks   *gateway.Hooks
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

// newWorld serves an upstream, by default the test's program over stdio.
func newWorld(tb testing.TB, up gateway.Upstream) *world {
	tb.Helper()
	w := &world{TB: tb, store: memstore.New(nil), up: up, logged: &safeBuffer{}, client: &http.Client{Transport: &http.Transport{}}}
	if w.up.Command == nil && w.up.URL == "" {
		w.up.Command = []string{program}
	}
	tb.Cleanup(func() {
		w.stop()
		check(tb, w.store.Close())
		if tb.Failed() {
			tb.Log(w.logged)
		}
	})
	return w
}

// start begins to serve. It may be called again after stop.
func (w *world) start() *world {
	w.Helper()
	var err error
	w.log, err = reprise.Open(context.Background(), w.store, &reprise.Options{SweepEvery: -1, Keys: keys})
	check(w, err)
	logger := slog.New(slog.NewTextHandler(w.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	opts := &gateway.Options{Logger: logger, Hooks: w.hooks, TaskAfter: w.taskAfter}
	if w.taskAfter > 0 {
		opts.Tasks, err = mcptask.New(w.log, &mcptask.Options{Poll: 50 * time.Millisecond, Logger: logger})
		check(w, err)
		w.tasks = opts.Tasks
	}
	w.gateway, err = gateway.New(&w.up, opts)
	check(w, err)
	w.opts.Logger = logger
	w.handler, err = mcphttp.New(w.log, w.gateway, &w.opts)
	check(w, err)
	w.http = httptest.NewServer(w.handler)
	return w
}

func (w *world) stop() {
	if w.http == nil {
		return
	}
	check(w, w.handler.Close())
	if w.tasks != nil {
		check(w, w.tasks.Close())
	}
	check(w, w.gateway.Close())
	w.client.CloseIdleConnections()
	w.http.CloseClientConnections()
	w.http.Close()
	check(w, w.log.Close())
	w.http = nil
}

var keys = reprise.NewKeys()

// connect is a client of the Go SDK.
func (w *world) connect(version string, opts *mcp.ClientOptions) *mcp.ClientSession {
	w.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts)
	client.AddRoots(&mcp.Root{URI: "file:///root"})
	session, err := client.Connect(context.Background(), &mcp.StreamableClientTransport{
		Endpoint: w.http.URL, HTTPClient: w.client, MaxRetries: 10,
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	check(w, err)
	w.Cleanup(func() { _ = session.Close() }) // its server may have ended
	if got := session.InitializeResult().ProtocolVersion; got != version {
		w.Fatalf("the version is %s and not %s", got, version)
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

func (w *world) want(s *mcp.ClientSession, tool string, in args, text string) {
	w.Helper()
	got, err := call(s, tool, in)
	check(w, err)
	if got != text {
		w.Errorf("%s answers %q and not %q", tool, got, text)
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

func (w *world) wantError(s *mcp.ClientSession, tool string, in args, part string) {
	w.Helper()
	got, err := call(s, tool, in)
	if err == nil || !strings.Contains(err.Error(), part) {
		w.Errorf("%s answers %q, %v; want an error with %q", tool, got, err, part)
	}
}

func (w *world) eventually(what string, ok func() bool) {
	w.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	w.Fatalf("it did not come to that: %s", what)
}

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
