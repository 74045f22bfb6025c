package mcphttp_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/mcp/mcphttp"
	"reprise/store/memstore"
	"reprise/store/sqlitestore"
)

// A call with many progress events, live and replayed, beside the handler of the Go SDK with its memory store.
// Run with -benchtime=5x.
func BenchmarkProgress(b *testing.B) {
	const events = 50_000
	for _, peer := range []string{"sdk", "memory", "sqlite"} {
		b.Run("server="+peer, func(b *testing.B) {
			c := startPeer(b, peer)
			var live, replay, first time.Duration
			for b.Loop() {
				start := time.Now()
				id := c.call(b, events)
				live += time.Since(start)
				start = time.Now()
				first += c.resume(b, id, events)
				replay += time.Since(start)
			}
			n := float64(b.N) * events
			b.ReportMetric(n/live.Seconds(), "live/s")
			b.ReportMetric(n/replay.Seconds(), "replay/s")
			b.ReportMetric(float64(first.Microseconds())/float64(b.N)/1000, "ms/first")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// A small call, over one connection.
func BenchmarkCall(b *testing.B) {
	for _, peer := range []string{"sdk", "memory", "sqlite"} {
		b.Run("server="+peer, func(b *testing.B) {
			c := startPeer(b, peer)
			for b.Loop() {
				c.call(b, 0)
			}
		})
	}
}

// benchClient is a client that does no more than count.
type benchClient struct {
	url, session string
	n            int
	log          *reprise.Log // nil for the SDK
}

func progressServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	type input struct {
		N int `json:"n"`
	}
	mcp.AddTool(server, &mcp.Tool{
		Name: "count",
	}, func(ctx context.Context, req *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
		token := req.Params.GetProgressToken()
		for i := range in.N {
			p := &mcp.ProgressNotificationParams{
				ProgressToken: token,
				Progress:      float64(i + 1),
				Message:       "a step of the work",
			}
			if err := req.Session.NotifyProgress(ctx, p); err != nil {
				return nil, nil, err
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
	})
	return server
}

func startPeer(b *testing.B, peer string) *benchClient {
	server := progressServer()
	choose := func(*http.Request) *mcp.Server { return server }
	var handler http.Handler
	var log *reprise.Log
	if peer == "sdk" {
		store := mcp.NewMemoryEventStore(nil)
		store.SetMaxBytes(256 << 20)
		handler = mcp.NewStreamableHTTPHandler(choose, &mcp.StreamableHTTPOptions{EventStore: store})
	} else {
		handler, log = openBench(b, peer, choose)
	}
	ts := httptest.NewServer(handler)
	b.Cleanup(ts.Close)
	c := &benchClient{url: ts.URL, log: log}
	res := c.send(b, http.MethodPost, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"b","version":"1"}}}`,
		"")
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
	c.session = res.Header.Get("Mcp-Session-Id")
	res = c.send(b, http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "")
	res.Body.Close()
	return c
}

func openBench(b *testing.B, peer string, choose func(*http.Request) *mcp.Server) (http.Handler, *reprise.Log) {
	var store reprise.Store = memstore.New(nil)
	if peer == "sqlite" {
		var err error
		store, err = sqlitestore.Open(b.Context(), filepath.Join(b.TempDir(), "bench.db"), nil)
		if err != nil {
			b.Fatal(err)
		}
	}
	log, err := reprise.Open(b.Context(), store, nil)
	if err != nil {
		b.Fatal(err)
	}
	h, err := mcphttp.New(log, mcphttp.Server(choose), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		h.Close()
		log.Close()
		store.Close()
	})
	return h, log
}

func (c *benchClient) send(b *testing.B, method, body, lastID string) *http.Response {
	req, err := http.NewRequestWithContext(b.Context(), method, c.url, bytes.NewReader([]byte(body)))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	if lastID != "" {
		req.Header.Set("Last-Event-Id", lastID)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	if res.StatusCode >= 300 {
		text, _ := io.ReadAll(res.Body)
		b.Fatalf("status %d: %s", res.StatusCode, text)
	}
	return res
}

// call makes a call and returns the id of its first event.
func (c *benchClient) call(b *testing.B, events int) string {
	c.n++
	res := c.send(b, http.MethodPost, fmt.Sprintf(
		`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"count","arguments":{"n":%d},"_meta":{"progressToken":"t"}}}`,
		c.n, events), "")
	id, _ := c.count(b, res, events+1, time.Now())
	return id
}

func (c *benchClient) resume(b *testing.B, id string, events int) time.Duration {
	start := time.Now()
	_, first := c.count(b, c.send(b, http.MethodGet, "", id), events+1, start)
	return first
}

// count reads a response whole and holds the number of messages in it against want.
func (c *benchClient) count(b *testing.B, res *http.Response, want int, start time.Time) (
	id string, first time.Duration,
) {
	defer res.Body.Close()
	in := bufio.NewReaderSize(res.Body, 256<<10)
	got := 0
	for {
		line, err := in.ReadSlice('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			b.Fatal(err)
		}
		if text, ok := bytes.CutPrefix(line, []byte("id: ")); ok && id == "" {
			id = string(bytes.TrimSpace(text))
		}
		if bytes.HasPrefix(line, []byte("data: {")) {
			if got++; got == 1 {
				first = time.Since(start)
			}
		}
	}
	if got != want {
		b.Fatalf("%d messages, want %d", got, want)
	}
	return id, first
}

// A small call in a store that holds a million finished ones, beside an empty store. It takes minutes:
//
//	MCPHTTP_FINISHED=1000000 go test ./mcphttp -run xxx -bench Finished -benchtime 2000x
func BenchmarkFinished(b *testing.B) {
	finished, _ := strconv.Atoi(os.Getenv("MCPHTTP_FINISHED"))
	if finished == 0 {
		b.Skip("MCPHTTP_FINISHED is not set")
	}
	for _, peer := range []string{"memory", "sqlite"} {
		for _, n := range []int{0, finished} {
			b.Run(fmt.Sprintf("server=%s/finished=%d", peer, n), func(b *testing.B) {
				c := startPeer(b, peer)
				finish(b, c.log, n)
				runtime.GC()   // of what making them has left
				c.call(b, 100) // what comes first is warm
				before, cycles := used(b)
				for b.Loop() {
					c.call(b, 100)
				}
				after, cyclesAfter := used(b)
				b.ReportMetric(float64(after-before)/float64(b.N), "cpu-ns/op") // on a busy machine it says more
				b.ReportMetric(float64(cyclesAfter-cycles), "gc")
			})
		}
	}
}

// used is the processor time of this process, in nanoseconds, and how often it has collected garbage.
func used(b *testing.B) (cpu int64, cycles uint32) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return u.Utime.Nano() + u.Stime.Nano(), m.NumGC
}

// finish makes the streams of n calls that were answered.
func finish(b *testing.B, log *reprise.Log, n int) {
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := w; i < n; i += 64 {
				name := fmt.Sprintf("mcp:%s/%013d", rand.Text(), i)
				s, _, err := log.Create(b.Context(), reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name},
					reprise.StreamConfig{Meta: []byte(`{"calls":[1]}`)})
				if err == nil {
					_, err = s.End(b.Context(), "completed",
						reprise.Event{Data: []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`), Format: reprise.FormatJSON})
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
