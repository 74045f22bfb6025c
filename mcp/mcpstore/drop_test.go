package mcpstore_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/shared"
	"reprise/mcp/mcpstore"
	"reprise/store/memstore"
)

// counter is a tool that counts, and is called once.
type counter struct {
	calls atomic.Int64
	// half is closed when the client has lost its connection, and the tool counts on.
	half chan struct{}
}

const counts = 40

// count calls step counts times, and waits for the drop in the middle.
func (c *counter) count(step func(i int)) string {
	c.calls.Add(1)
	for i := range counts {
		if i == counts/2 {
			<-c.half
		}
		step(i)
	}
	return fmt.Sprintf("counted to %d", counts)
}

// goSDKServer is a handler of the Go SDK with the tool.
func goSDKServer(c *counter, events mcp.EventStore) http.Handler {
	s := mcp.NewServer(&mcp.Implementation{Name: "counter", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "count"}, func(
		ctx context.Context, req *mcp.CallToolRequest, _ struct{},
	) (*mcp.CallToolResult, any, error) {
		text := c.count(func(i int) {
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(), Progress: float64(i), Total: counts,
			})
		})
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{EventStore: events})
}

// mcpGoServer is a server of mcp-go with the tool.
func mcpGoServer(c *counter, events server.EventStore) http.Handler {
	s := server.NewMCPServer("counter", "1")
	s.AddTool(mcpgo.NewTool("count"), func(
		ctx context.Context, req mcpgo.CallToolRequest,
	) (*mcpgo.CallToolResult, error) {
		text := c.count(func(i int) {
			_ = s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{
				"progressToken": req.Params.Meta.ProgressToken, "progress": i, "total": counts,
			})
			time.Sleep(time.Millisecond) // its channel is short, and drops what does not fit
		})
		return mcpgo.NewToolResultText(text), nil
	})
	return server.NewStreamableHTTPServer(s, server.WithEventStore(events), server.WithStateful(true))
}

// cutting breaks the first response to a POST that has shown some progress, once.
type cutting struct {
	inner http.RoundTripper
	after int // messages of progress
	once  sync.Once
	cut   func()
}

func (c *cutting) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.inner.RoundTrip(req)
	if err == nil && req.Method == http.MethodPost {
		resp.Body = &cuttingBody{ReadCloser: resp.Body, cutting: c}
	}
	return resp, err
}

type cuttingBody struct {
	io.ReadCloser
	cutting *cutting
	seen    strings.Builder
}

func (b *cuttingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.seen.Write(p[:n])
	if strings.Count(b.seen.String(), "notifications/progress") >= b.cutting.after {
		cut := false
		b.cutting.once.Do(func() { cut = true })
		if cut {
			_ = b.ReadCloser.Close()
			b.cutting.cut()
			return n, io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// callAndDrop calls the tool, drops the connection in the middle, and checks that nothing is missed.
func callAndDrop(t *testing.T, c *counter, handler http.Handler) {
	t.Helper()
	ts := httptest.NewServer(handler)
	defer ts.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	var mu sync.Mutex
	var progress []float64
	client := mcp.NewClient(&mcp.Implementation{Name: "dropper", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			progress = append(progress, req.Params.Progress)
		},
	})
	cutter := &cutting{inner: transport, after: 5, cut: func() { close(c.half) }}
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: ts.URL, HTTPClient: &http.Client{Transport: cutter}, DisableStandaloneSSE: true,
	}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	check(t, err)
	params := &mcp.CallToolParams{Name: "count", Arguments: map[string]any{}}
	params.SetProgressToken("p")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	result, err := session.CallTool(ctx, params)
	check(t, err)
	if text := result.Content[0].(*mcp.TextContent).Text; text != fmt.Sprintf("counted to %d", counts) {
		t.Errorf("got %q", text)
	}
	check(t, session.Close())
	mu.Lock()
	defer mu.Unlock()
	if len(progress) != counts {
		t.Fatalf("got %d of %d: %v", len(progress), counts, progress)
	}
	for i, p := range progress {
		if p != float64(i) {
			t.Fatalf("out of order: %v", progress)
		}
	}
	if n := c.calls.Load(); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}

func TestGoSDKClientDropsInMidCall(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		c := &counter{half: make(chan struct{})}
		s := newStore(t, store, nil)
		callAndDrop(t, c, goSDKServer(c, s))
	})
}

func TestMCPGoClientDropsInMidCall(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		c := &counter{half: make(chan struct{})}
		s := mcpstore.NewForMCPGo(openLog(t, store, nil), nil)
		t.Cleanup(func() { check(t, s.Close()) })
		callAndDrop(t, c, mcpGoServer(c, s))
	})
}

// recording tells the names under which a server stores its events.
type recording struct {
	mcp.EventStore
	mu    sync.Mutex
	names [][2]string
}

func (r *recording) Open(ctx context.Context, session, stream string) error {
	r.mu.Lock()
	r.names = append(r.names, [2]string{session, stream})
	r.mu.Unlock()
	return r.EventStore.Open(ctx, session, stream)
}

// SessionClosed keeps the events, for the other replica to be asked for.
func (r *recording) SessionClosed(context.Context, string) error { return nil }

// TestAnotherReplicaHasWhatTheSDKHasSent: the SDK of another replica does not know the session, but the events are
// there.
func TestAnotherReplicaHasWhatTheSDKHasSent(t *testing.T) {
	hub := shared.New(memstore.New(nil))
	one, other := newStore(t, closed(t, hub.Store()), nil), newStore(t, closed(t, hub.Store()), nil)
	c := &counter{half: make(chan struct{})}
	r := &recording{EventStore: one}
	callAndDrop(t, c, goSDKServer(c, r))
	messages := 0
	for _, name := range r.names {
		mine, err := after(one, name[0], name[1], -1)
		check(t, err)
		wantAfter(t, other, name[0], name[1], -1, mine...)
		messages = max(messages, len(mine))
	}
	if messages != 1+counts+1 { // priming event, progress, response
		t.Fatalf("the longest stream has %d messages", messages)
	}
}

// TestStoreFailsInMidCall: the SDK goes on, and the client misses nothing.
func TestStoreFailsInMidCall(t *testing.T) {
	f := &faulty{Store: closed(t, memstore.New(nil))}
	c := &counter{half: make(chan struct{})}
	s := newStore(t, f, nil)
	callAndDrop(t, c, goSDKServer(c, &failAt{EventStore: s, f: f}))
	f.set(func() { f.before = false })
}

// failAt makes the store fail at an append in the middle of the call.
type failAt struct {
	mcp.EventStore
	f *faulty
	n atomic.Int64
}

func (s *failAt) Append(ctx context.Context, session, stream string, data []byte) error {
	if s.n.Add(1) == 4 {
		s.f.set(func() { s.f.before = true })
	}
	return s.EventStore.Append(ctx, session, stream, data)
}
