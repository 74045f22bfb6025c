package mcphttp_test

//lint:file-ignore SA1019 the versions before 2026-07-28 have roots and logging

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/httpserver"
	"reprise/mcp/mcphttp"
	"reprise/sse"
	"reprise/store/memstore"
)

func TestMain(m *testing.M) {
	if isChild() {
		runChild()
		return
	}
	// The Go SDK's own handler, the peer of the benchmarks, leaves this behind when it is closed.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/modelcontextprotocol/go-sdk/mcp.(*streamableServerConn).Read"))
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// setup is what a test wants to be different. The zero value is a Handler of the tools below over memory.
type setup struct {
	store   reprise.Store // stays the test's
	log     reprise.Options
	opts    mcphttp.Options
	backend mcphttp.Backend
	conns   *httpserver.Options // bounds on connections; nil for none
}

// fixture is a Handler and an HTTP client connected over pipes, so that both can run in a synctest bubble.
type fixture struct {
	testing.TB
	log     *reprise.Log
	handler *mcphttp.Handler
	tools   *tools
	pipes   *pipes
	http    *http.Client
	logged  *safeBuffer
	closing sync.Once
	server  *http.Server
	served  chan struct{}
	store   reprise.Store // ours to close, or nil
}

func newFixture(tb testing.TB, s setup) *fixture {
	tb.Helper()
	w := &fixture{
		TB: tb, pipes: &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}, logged: &safeBuffer{},
		tools: newTools(), served: make(chan struct{}),
	}
	if s.store == nil {
		w.store = memstore.New(nil)
		s.store = w.store
	}
	var err error
	s.log.SweepEvery = -1
	w.log, err = reprise.Open(context.Background(), s.store, &s.log)
	check(tb, err)
	if s.backend == nil {
		s.backend = mcphttp.Server(func(*http.Request) *mcp.Server { return w.tools.server })
	}
	if s.opts.Quick == 0 {
		s.opts.Quick = -1 // what is tested is streams
	}
	s.opts.Logger = slog.New(slog.NewTextHandler(w.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.handler, err = mcphttp.New(w.log, s.backend, &s.opts)
	check(tb, err)
	w.server = &http.Server{Handler: w.handler}
	if s.conns != nil {
		w.server = httpserver.New(w.handler, s.conns)
	}
	go func() {
		defer close(w.served)
		_ = w.server.Serve(w.pipes)
	}()
	w.http = &http.Client{Transport: &http.Transport{DialContext: w.pipes.dial, DisableKeepAlives: true}}
	tb.Cleanup(w.close)
	return w
}

// close ends all of it, once.
func (w *fixture) close() {
	w.closing.Do(func() {
		check(w, w.handler.Close())
		w.tools.releaseAll()
		_ = w.server.Close()
		<-w.served
		w.http.CloseIdleConnections()
		check(w, w.log.Close())
		if w.store != nil {
			check(w, w.store.Close())
		}
	})
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

// pipes is a listener without a network.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// tools is a server of the Go SDK whose tools do what the test says.
type tools struct {
	server *mcp.Server
	mu     sync.Mutex
	gates  map[string]chan struct{}
	// began and cancelled get the name of a gate when its tool waits, and when it was cancelled.
	began, cancelled chan string
	calls            map[string]int
}

type toolInput struct {
	Gate  string `json:"gate,omitempty"`
	N     int    `json:"n,omitempty"`
	Bytes int    `json:"bytes,omitempty"`
}

func newTools() *tools {
	ts := &tools{
		gates:     map[string]chan struct{}{},
		began:     make(chan string, 1000),
		cancelled: make(chan string, 1000),
		calls:     map[string]int{},
	}
	ts.server = mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	add := func(name string, f func(context.Context, *mcp.CallToolRequest, toolInput) (string, error)) {
		mcp.AddTool(ts.server, &mcp.Tool{
			Name: name,
		}, func(ctx context.Context, req *mcp.CallToolRequest, in toolInput) (*mcp.CallToolResult, any, error) {
			ts.mu.Lock()
			ts.calls[name]++
			ts.mu.Unlock()
			text, err := f(ctx, req, in)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, err
		})
	}
	add("echo", func(_ context.Context, _ *mcp.CallToolRequest, in toolInput) (string, error) {
		return strings.Repeat("x", in.Bytes), nil
	})
	add("steps", ts.steps)
	add("poll", func(ctx context.Context, req *mcp.CallToolRequest, in toolInput) (string, error) {
		req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 40 * time.Millisecond})
		return "polled", ts.wait(ctx, in.Gate)
	})
	add("ask", func(ctx context.Context, req *mcp.CallToolRequest, _ toolInput) (string, error) {
		roots, err := req.Session.ListRoots(ctx, nil)
		if err != nil {
			return "", err
		}
		return roots.Roots[0].URI, nil
	})
	add("level", func(ctx context.Context, req *mcp.CallToolRequest, _ toolInput) (string, error) {
		return "logged", req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: "heard"})
	})
	ts.server.AddResource(&mcp.Resource{
		URI:  "test://it",
		Name: "it",
	}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "test://it", Text: "it"}}}, nil
	})
	return ts
}

// steps sends N progress notifications, waits for the gate, and sends as many again.
func (ts *tools) steps(ctx context.Context, req *mcp.CallToolRequest, in toolInput) (string, error) {
	for i := range max(1, 2*in.N) {
		if i == in.N {
			if err := ts.wait(ctx, in.Gate); err != nil {
				return "", err
			}
		}
		if in.N == 0 {
			break
		}
		p := &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1)}
		if err := req.Session.NotifyProgress(ctx, p); err != nil {
			return "", err
		}
	}
	return "done", nil
}

func (ts *tools) gate(name string) chan struct{} {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.gates[name] == nil {
		ts.gates[name] = make(chan struct{})
	}
	return ts.gates[name]
}

func (ts *tools) wait(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	ts.began <- name
	select {
	case <-ts.gate(name):
		return nil
	case <-ctx.Done():
		ts.cancelled <- name
		return context.Cause(ctx)
	}
}

// release lets the tools go on that wait for a gate.
func (ts *tools) release(name string) { close(ts.gate(name)) }

func (ts *tools) releaseAll() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, gate := range ts.gates {
		select {
		case <-gate:
		default:
			close(gate)
		}
	}
}

func (ts *tools) called(name string) int {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.calls[name]
}

// client is a client of the protocol that hides nothing.
type client struct {
	*fixture
	session, version string
	header           http.Header // for each request
	ids              int
}

func (w *fixture) client(version string) *client {
	return &client{fixture: w, version: version, header: http.Header{}}
}

const initialize = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":%q,"capabilities":{"roots":{}},"clientInfo":{"name":"test","version":"1"}}}`

// begin opens a session.
func (w *fixture) begin(version string) *client { return w.beginAs(version, "") }

// beginAs opens a session of a user; see byWho.
func (w *fixture) beginAs(version, who string) *client {
	w.Helper()
	c := w.client(version)
	c.header.Set("Who", who)
	res := c.post(fmt.Sprintf(initialize, version))
	text := c.text(res)
	c.session = res.Header.Get("Mcp-Session-Id")
	if c.session == "" || !strings.Contains(text, `"protocolVersion":"`+version+`"`) {
		w.Fatalf("initialize: %d %s", res.StatusCode, text)
	}
	c.accepted(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

// with returns a client that uses the same session through another fixture.
func (c *client) with(w *fixture) *client {
	return &client{fixture: w, session: c.session, version: c.version, header: c.header.Clone(), ids: c.ids + 1000}
}

func (c *client) request(method, body string) *http.Request {
	c.Helper()
	req, err := http.NewRequestWithContext(c.Context(), method, "http://localhost/mcp", strings.NewReader(body))
	check(c, err)
	req.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
		req.Header.Set("Mcp-Protocol-Version", c.version)
	}
	maps.Copy(req.Header, c.header)
	return req
}

func (c *client) do(req *http.Request) *http.Response {
	c.Helper()
	res, err := c.http.Do(req)
	check(c, err)
	return res
}

func (c *client) post(body string) *http.Response {
	c.Helper()
	return c.do(c.request(http.MethodPost, body))
}

// text reads a response whole.
func (c *client) text(res *http.Response) string {
	c.Helper()
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	check(c, err)
	return string(text)
}

// accepted sends what has no answer.
func (c *client) accepted(body string) {
	c.Helper()
	res := c.post(body)
	if text := c.text(res); res.StatusCode != http.StatusAccepted || text != "" {
		c.Fatalf("status %d %q, want 202 and no body", res.StatusCode, text)
	}
}

// refused holds a response against a status and the code in the data of its error.
func (c *client) refused(res *http.Response, status int, code string) string {
	c.Helper()
	text := c.text(res)
	var body struct {
		JSONRPC string `json:"jsonrpc"`
		Error   struct {
			Code int `json:"code"`
			Data struct {
				Code string `json:"code"`
			} `json:"data"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(text), &body); err != nil || body.JSONRPC != "2.0" || body.Error.Code == 0 {
		c.Fatalf("status %d, body %q is no JSON-RPC error: %v", res.StatusCode, text, err)
	}
	if res.StatusCode != status || body.Error.Data.Code != code {
		c.Fatalf("status %d, code %q, want %d %q: %s", res.StatusCode, body.Error.Data.Code, status, code, text)
	}
	return text
}

// tool calls a tool and returns the stream of its response.
func (c *client) tool(name string, in toolInput) *stream {
	c.Helper()
	c.ids++
	args, err := json.Marshal(in)
	check(c, err)
	return c.stream(c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"progressToken":"t"}}}`,
		c.ids, name, args)))
}

// listen opens the stream of the session as a whole, or resumes after an id.
func (c *client) get(lastID string) *http.Response {
	c.Helper()
	req := c.request(http.MethodGet, "")
	if lastID != "" {
		req.Header.Set("Last-Event-Id", lastID)
	}
	return c.do(req)
}

// stream is a response as it comes.
type stream struct {
	testing.TB
	body    io.ReadCloser
	decoder *sse.Decoder
	lastID  string
}

func (c *client) stream(res *http.Response) *stream {
	c.Helper()
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		c.Fatalf("status %d, content type %q: %s", res.StatusCode, res.Header.Get("Content-Type"), c.text(res))
	}
	return &stream{TB: c, body: res.Body, decoder: sse.NewDecoder(res.Body, nil)}
}

// next is the data of the next message, "" at the end of the response.
func (s *stream) next() string {
	s.Helper()
	for {
		e, err := s.decoder.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return ""
		}
		check(s, err)
		s.lastID = e.LastEventID
		if len(e.Data) > 0 {
			return string(e.Data)
		}
	}
}

// prime reads the priming event.
func (s *stream) prime() {
	s.Helper()
	e, err := s.decoder.Next()
	check(s, err)
	if e.ID == "" || len(e.Data) != 0 {
		s.Fatalf("%+v is no priming event", e)
	}
	s.lastID = e.LastEventID
}

// want reads messages that hold the given texts, one after the other.
func (s *stream) want(texts ...string) {
	s.Helper()
	for _, text := range texts {
		if got := s.next(); !strings.Contains(got, text) || got == "" {
			s.Fatalf("message %.300q, want one with %q", got, text)
		}
	}
}

// ends reads up to the end of the response, where there must be nothing else.
func (s *stream) ends() {
	s.Helper()
	if got := s.next(); got != "" {
		s.Fatalf("%.300q comes where the response should end", got)
	}
	s.drop()
}

// drop closes the connection.
func (s *stream) drop() { _ = s.body.Close() }

// progress are the texts of the progress notifications from..to.
func progress(from, to int) (texts []string) {
	for i := from; i <= to; i++ {
		texts = append(texts, fmt.Sprintf(`"progress":%d}`, i))
	}
	return texts
}

func aPrompt() *mcp.Prompt { return &mcp.Prompt{Name: "p"} }

// updated tells those who have subscribed to test://it.
func (ts *tools) updated() error {
	return ts.server.ResourceUpdated(context.Background(), &mcp.ResourceUpdatedNotificationParams{URI: "test://it"})
}

// stored is what the stream of the session as a whole holds.
func (w *fixture) stored(c *client) string {
	stream, err := w.log.Stream(w.Context(),
		reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "mcp:" + c.session + "/0"})
	check(w, err)
	reader, err := stream.Reader(w.Context(), reprise.Earliest())
	check(w, err)
	defer reader.Close()
	var text []byte
	for {
		run, err := reader.Poll(w.Context())
		check(w, err)
		if run.Len() == 0 {
			return string(text)
		}
		for e := range run.All() {
			text = append(append(text, e.Data...), '\n')
		}
	}
}
