package mcphttp_test

//lint:file-ignore SA1019 the versions before 2026-07-28 have roots

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/mcp/mcphttp"
	"reprise/store/sqlitestore"
)

// The test binary is a server as well, over a SQLite file, which a test can kill.

const childEnv = "MCPHTTP_CHILD_STORE"

func isChild() bool { return os.Getenv(childEnv) != "" }

// runChild serves until it is killed, or its stdin ends: with the test.
func runChild() {
	path := os.Getenv(childEnv)
	store, err := sqlitestore.Open(context.Background(), path, nil)
	if err != nil {
		panic(err)
	}
	keys, err := reprise.LoadKeyset(path + ".keys")
	if err != nil {
		panic(err)
	}
	log, err := reprise.Open(context.Background(), store, &reprise.Options{Keys: keys})
	if err != nil {
		panic(err)
	}
	ts := newTools()
	handler, err := mcphttp.New(log, mcphttp.Server(func(*http.Request) *mcp.Server { return ts.server }), nil)
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(handler)
	fmt.Println(server.URL)
	_, _ = os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}

// child is a server in a process of its own.
type child struct {
	url string
	cmd *exec.Cmd
}

func startChild(t *testing.T, path string) *child {
	t.Helper()
	exe, err := os.Executable()
	check(t, err)
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	check(t, err)
	stdout, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() {
		t.Fatal("the server has not started")
	}
	return &child{url: lines.Text(), cmd: cmd}
}

// TestKilledServer: SIGKILL in the middle of a call. The next server knows the session, replays what was kept,
// and answers the call with an error; what had been answered is whole.
func TestKilledServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k.db")
	var lastID, doneID, session string
	for life := range 3 {
		ch := startChild(t, path)
		w := &fixture{TB: t, http: &http.Client{Transport: &rewrite{url: ch.url}}}
		c := w.client("2025-11-25")
		if life == 0 {
			c = w.begin("2025-11-25")
			session = c.session
		} else {
			c.session, c.ids = session, 1000*life
			s := c.stream(c.get(lastID))
			s.want(`"code":"server_lost"`)
			s.ends()
			s = c.stream(c.get(doneID))
			s.want(progress(1, 4)...)
			s.want(`"done"`)
			s.ends()
		}
		done := c.tool("steps", toolInput{N: 2})
		done.prime()
		doneID = done.lastID
		for done.next() != "" {
		}
		s := c.tool("steps", toolInput{N: 2, Gate: "never"})
		s.prime()
		s.want(progress(1, 2)...)
		lastID = s.lastID
		check(t, ch.cmd.Process.Kill())
		_ = ch.cmd.Wait()
		s.drop()
	}
}

// rewrite sends requests to another server.
type rewrite struct{ url string }

func (rt *rewrite) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Host = strings.TrimPrefix(rt.url, "http://")
	transport := &http.Transport{DisableKeepAlives: true}
	return transport.RoundTrip(req)
}

// cutter is a transport that breaks each response after some bytes of its body.
type cutter struct {
	inner http.RoundTripper
	after int
	cuts  int
}

func (c *cutter) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := c.inner.RoundTrip(req)
	if err == nil && res.Header.Get("Content-Type") == "text/event-stream" && c.cuts > 0 {
		c.cuts--
		res.Body = &cutBody{ReadCloser: res.Body, left: c.after}
	}
	return res, err
}

type cutBody struct {
	io.ReadCloser
	left int
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// TestRealClient: the client of the Go SDK, whose connections break again and again, gets its result and each
// progress notification once.
func TestRealClient(t *testing.T) {
	w := newFixture(t, setup{opts: mcphttp.Options{Retry: time.Millisecond}})
	cut := &cutter{inner: w.http.Transport, after: 700, cuts: 4}
	progressed := make(chan float64, 100)
	sdk := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			progressed <- req.Params.Progress
		},
	})
	sdk.AddRoots(&mcp.Root{URI: "file:///root"})
	session, err := sdk.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: "http://localhost/mcp", HTTPClient: &http.Client{Transport: cut}, MaxRetries: 10,
	}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	check(t, err)
	params := &mcp.CallToolParams{Name: "steps", Arguments: toolInput{N: 10}}
	params.SetProgressToken("t")
	result, err := session.CallTool(t.Context(), params)
	check(t, err)
	if text := result.Content[0].(*mcp.TextContent).Text; text != "done" {
		t.Errorf("result %q", text)
	}
	for i := range 20 {
		if got := <-progressed; got != float64(i+1) {
			t.Fatalf("progress %v where %d comes next", got, i+1)
		}
	}
	if cut.cuts != 0 || len(progressed) > 0 {
		t.Errorf("%d cuts are left, and %d more notifications", cut.cuts, len(progressed))
	}
	result, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask", Arguments: toolInput{}})
	check(t, err)
	if text := result.Content[0].(*mcp.TextContent).Text; text != "file:///root" {
		t.Errorf("result %q", text)
	}
	check(t, session.Close())
}
