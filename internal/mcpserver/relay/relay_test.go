package relay_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/mcpserver/relay"
	"reprise/mcp/mcphttp"
	"reprise/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const progressed = 30

// fixture is a server over HTTP and a client of a relay to it.
type fixture struct {
	t   *testing.T
	log *reprise.Log
	web *httptest.Server
	// cutAfter is how many bytes of each answer pass, 0 for all. away answers nothing but 503.
	cutAfter atomic.Int64
	away     atomic.Bool
	token    string

	silence time.Duration
	hangs   chan struct{} // requests wait for its end, without a byte; nil: they do not
	stuck   chan struct{} // a call of peek or poke waits for the end of its server
	calls   atomic.Int64  // of them

	mu      sync.Mutex
	handler *mcphttp.Handler
	seen    []float64
}

func newFixture(t *testing.T) *fixture {
	w := &fixture{t: t, stuck: make(chan struct{}, 1)}
	w.serve()
	w.web = httptest.NewServer(http.HandlerFunc(w.pass))
	t.Cleanup(func() {
		w.handler.Close()
		w.web.CloseClientConnections()
		w.web.Close()
		w.log.Close()
	})
	return w
}

// serve makes a server that knows nothing yet.
func (w *fixture) serve() {
	w.t.Helper()
	log, err := reprise.Open(w.t.Context(), memstore.New(nil), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.log = log
	w.restart()
}

// restart makes another server on the same Log.
func (w *fixture) restart() {
	w.t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "über"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, "called", nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "count"},
		func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			for i := 1; i <= progressed; i++ {
				if err := req.Session.NotifyProgress(ctx,
					&mcp.ProgressNotificationParams{
						ProgressToken: req.Params.GetProgressToken(),
						Progress:      float64(i),
					}); err != nil {
					return nil, nil, err
				}
				time.Sleep(5 * time.Millisecond)
			}
			return nil, "counted", nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "ask"},
		func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			got, err := req.Session.Elicit(ctx,
				&mcp.ElicitParams{Message: "Well?", RequestedSchema: map[string]any{"type": "object"}})
			if err != nil {
				return nil, nil, err
			}
			return nil, got.Action, nil
		})
	for name, reads := range map[string]bool{"peek": true, "poke": false} {
		tool := &mcp.Tool{Name: name, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: reads}}
		mcp.AddTool(server, tool, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (
			*mcp.CallToolResult, any, error,
		) {
			if w.calls.Add(1) == 1 {
				w.stuck <- struct{}{}
				<-ctx.Done()
			}
			return nil, name, nil
		})
	}
	handler, err := mcphttp.New(w.log, mcphttp.Server(func(*http.Request) *mcp.Server { return server }),
		&mcphttp.Options{Retry: 10 * time.Millisecond})
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.handler = handler
	w.mu.Unlock()
}

// pass hands requests on, and cuts their answers.
func (w *fixture) pass(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	handler := w.handler
	w.mu.Unlock()
	w.mu.Lock()
	hangs := w.hangs
	w.mu.Unlock()
	if hangs != nil {
		<-hangs
		return
	}
	switch {
	case w.away.Load():
		out.WriteHeader(http.StatusServiceUnavailable)
		return
	case w.token != "" && r.Header.Get("Authorization") != "Bearer "+w.token:
		out.WriteHeader(http.StatusUnauthorized)
		return
	}
	handler.ServeHTTP(&cutter{ResponseWriter: out, left: w.cutAfter.Load()}, r)
}

type cutter struct {
	http.ResponseWriter
	left int64
}

func (c *cutter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *cutter) Write(b []byte) (int, error) {
	if c.left == 0 {
		return c.ResponseWriter.Write(b)
	}
	n := min(int64(len(b)), c.left)
	_, _ = c.ResponseWriter.Write(b[:n])
	_ = http.NewResponseController(c.ResponseWriter).Flush()
	if c.left -= n; c.left == 0 {
		panic(http.ErrAbortHandler)
	}
	return int(n), nil
}

// client is one that speaks stdio, to the relay.
func (w *fixture) client(version string) *mcp.ClientSession {
	w.t.Helper()
	in, toRelay := io.Pipe()
	fromRelay, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := relay.Run(context.Background(), in, out,
			&relay.Options{
				URL: w.web.URL, Token: w.token, GiveUp: 5 * time.Second, Silence: w.silence,
				HTTPClient: &http.Client{Transport: &http.Transport{}},
			})
		out.Close()
		done <- err
	}()
	client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.seen = append(w.seen, r.Params.Progress)
		},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "decline"}, nil
		},
	})
	session, err := client.Connect(w.t.Context(), &mcp.IOTransport{Reader: fromRelay, Writer: toRelay},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		session.Close()
		if err := <-done; err != nil {
			w.t.Errorf("the relay ends with %v", err)
		}
	})
	return session
}

func (w *fixture) count(session *mcp.ClientSession) (string, error) {
	params := &mcp.CallToolParams{Name: "count"}
	params.SetProgressToken("p")
	return textOf(session.CallTool(w.t.Context(), params))
}

func textOf(result *mcp.CallToolResult, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return result.Content[0].(*mcp.TextContent).Text, nil
}

// patience bounds everything that a test waits for.
const patience = 2 * time.Minute

func (w *fixture) checkSeen() {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		w.mu.Lock()
		n := len(w.seen)
		w.mu.Unlock()
		if n >= progressed || time.Now().After(deadline) { // the last one may come after the call has returned
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, n := range w.seen {
		if n != float64(i+1) {
			w.t.Fatalf("seen: %v", w.seen)
		}
	}
	if len(w.seen) != progressed {
		w.t.Errorf("%d notifications, want %d", len(w.seen), progressed)
	}
	w.seen = nil
}

func TestRelayOnEachVersion(t *testing.T) {
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			w := newFixture(t)
			session := w.client(version)
			if got, err := w.count(session); err != nil || got != `"counted"` {
				t.Errorf("%q, %v", got, err)
			}
			w.checkSeen()
			if got, err := textOf(session.CallTool(t.Context(), &mcp.CallToolParams{Name: "über"})); err != nil ||
				got != `"called"` {
				t.Errorf("a name that no header holds: %q, %v", got, err)
			}
			if version < "2026" {
				if got, err := textOf(session.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask"})); err != nil ||
					got != `"decline"` {
					t.Errorf("asked: %q, %v", got, err)
				}
			}
		})
	}
}

// TestCutConnectionsLoseNothing: all connections are cut all the time; nothing is missing and nothing is there twice.
func TestCutConnectionsLoseNothing(t *testing.T) {
	for _, bytes := range []int64{500, 700, 1500} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			w := newFixture(t)
			session := w.client("2025-11-25")
			w.cutAfter.Store(bytes)
			if got, err := w.count(session); err != nil || got != `"counted"` {
				t.Errorf("%q, %v", got, err)
			}
			w.checkSeen()
			w.cutAfter.Store(0)
		})
	}
	w := newFixture(t)
	session := w.client("2026-07-28")
	w.cutAfter.Store(700)
	if got, err := w.count(session); err == nil {
		t.Errorf("what cannot be resumed is answered with %q", got)
	}
}

// TestRelayReopensForgottenSession: the relay opens a new session when the server has forgotten the old one, and the
// client does not notice.
func TestRelayReopensForgottenSession(t *testing.T) {
	w := newFixture(t)
	session := w.client("2025-11-25")
	if _, err := w.count(session); err != nil {
		t.Fatal(err)
	}
	w.checkSeen()
	w.handler.Close()
	w.log.Close()
	w.serve()
	if got, err := w.count(session); err != nil || got != `"counted"` {
		t.Errorf("%q, %v", got, err)
	}
	w.checkSeen()
}

// TestReadsAreSentAgain: a call that only reads is sent again when its server is lost, and no other call.
func TestReadsAreSentAgain(t *testing.T) {
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		for name, calls := range map[string]int64{"peek": 2, "poke": 1} {
			t.Run(version+"/"+name, func(t *testing.T) {
				w := newFixture(t)
				session := w.client(version)
				if _, err := session.ListTools(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				done := make(chan error, 1)
				var text string
				go func() {
					var err error
					text, err = textOf(session.CallTool(t.Context(), &mcp.CallToolParams{Name: name}))
					done <- err
				}()
				<-w.stuck
				w.handler.Close()
				w.restart()
				if err := <-done; (err == nil) != (calls == 2) || calls == 2 && text != `"peek"` {
					t.Errorf("answered with %q, %v", text, err)
				}
				if n := w.calls.Load(); n != calls {
					t.Errorf("called %d times, want %d", n, calls)
				}
			})
		}
	}
}

// TestStoppedServerIsNamed: a server that accepts connections and says nothing, as one that was stopped, does not hang
// its clients.
func TestStoppedServerIsNamed(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			w := newFixture(t)
			w.silence = 300 * time.Millisecond
			session := w.client(version)
			w.mu.Lock()
			w.hangs = make(chan struct{})
			w.mu.Unlock()
			if _, err := session.ListTools(t.Context(), nil); err == nil {
				t.Error("answered")
			}
			w.mu.Lock()
			close(w.hangs)
			w.hangs = nil
			w.mu.Unlock()
			if _, err := session.ListTools(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRelayWaitsForServer: requests wait until the server is reachable again.
func TestRelayWaitsForServer(t *testing.T) {
	w := newFixture(t)
	session := w.client("2025-11-25")
	w.away.Store(true)
	time.AfterFunc(500*time.Millisecond, func() { w.away.Store(false) })
	if got, err := w.count(session); err != nil || got != `"counted"` {
		t.Errorf("%q, %v", got, err)
	}
	w.checkSeen()
}

func TestTokenThatIsWrongIsRefused(t *testing.T) {
	w := newFixture(t)
	w.token = "secret"
	session := w.client("2025-11-25")
	if _, err := w.count(session); err != nil {
		t.Error(err)
	}
	w.token = "another"
	if _, err := w.count(session); err == nil {
		t.Error("it is let in")
	}
	w.token = "secret"
}

func TestMalformedClientMessagesAreAnswered(t *testing.T) {
	w := newFixture(t)
	for _, tt := range []struct{ line, answer string }{
		{"garbage", `"code":-32600.*"id":null`},
		{"[]", `"code":-32600.*"id":null`},
		{`{"jsonrpc":"2.0","id":1}`, `"code":-32600.*"id":1`},
		{"\n", ""},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":7}`, `"code":-32600.*"id":null`},
	} {
		var answers bytes.Buffer
		err := relay.Run(t.Context(), strings.NewReader(tt.line+"\n"), &answers,
			&relay.Options{URL: w.web.URL, HTTPClient: &http.Client{Transport: &http.Transport{}}})
		if err != nil {
			t.Errorf("%q: %v", tt.line, err)
		}
		want := "^$"
		if tt.answer != "" {
			want = "^[^\n]*" + tt.answer + "[^\n]*\n$"
		}
		if !regexp.MustCompile(want).Match(answers.Bytes()) {
			t.Errorf("%q is answered with %q, want %q", tt.line, answers.String(), want)
		}
	}
}
