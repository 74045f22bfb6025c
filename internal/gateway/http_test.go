package gateway_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/internal/freeport"
	"reprise/internal/gateway"
	"reprise/internal/testserver"
)

// remote is an upstream at a URL.
type remote struct {
	cmd  *exec.Cmd
	url  string
	ends sync.Once
}

func startRemote(tb testing.TB, address string, flags ...string) *remote {
	tb.Helper()
	r := &remote{cmd: exec.Command(program, append([]string{"-http", address}, flags...)...)}
	r.cmd.SysProcAttr = new(syscall.SysProcAttr)
	testserver.EndWithParent(r.cmd.SysProcAttr) // should the tests panic
	out, err := r.cmd.StdoutPipe()
	check(tb, err)
	check(tb, r.cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	check(tb, err)
	r.url = strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	tb.Cleanup(r.kill)
	return r
}

func (r *remote) kill() {
	r.ends.Do(func() {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait() // which says that it was killed
	})
}

func TestUpstreamAtURLAnswers(t *testing.T) {
	for _, stateless := range []string{"false", "true"} {
		t.Run("stateless="+stateless, func(t *testing.T) {
			up := startRemote(t, "127.0.0.1:0", "-stateless="+stateless)
			each(t, func(t *testing.T, version string) {
				f := newFixture(t, gateway.Upstream{URL: up.url}).start()
				got := make(chan float64, 10)
				s := f.connect(version, &mcp.ClientOptions{
					ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
						got <- r.Params.Progress
					},
				})
				f.want(s, "echo", args{"text": "hi"}, "hi")
				f.wantError(s, "nothing", nil, "nothing")
				params := &mcp.CallToolParams{Name: "steps", Arguments: args{"n": 3}}
				params.SetProgressToken("t")
				_, err := s.CallTool(t.Context(), params)
				check(t, err)
				for i := range 3 {
					if p := <-got; p != float64(i+1) {
						t.Errorf("progress %v", p)
					}
				}
			})
		})
	}
}

func TestQuestionOfUpstreamAtURLReachesClient(t *testing.T) {
	up := startRemote(t, "127.0.0.1:0")
	f := newFixture(t, gateway.Upstream{URL: up.url}).start()
	s := f.connect("2025-11-25", nil)
	f.want(s, "roots", nil, "file:///root")
}

func TestSessionGoesOnAfterUpstreamAtURLForgotIt(t *testing.T) {
	address, err := freeport.Address()
	check(t, err)
	up := startRemote(t, address)
	f := newFixture(t, gateway.Upstream{URL: up.url}).start()
	s := f.connect("2025-11-25", nil)
	f.want(s, "count", nil, "1")
	f.want(s, "count", nil, "2")
	up.kill()
	f.wantError(s, "count", nil, "")
	startRemote(t, address)
	f.want(s, "count", nil, "1")
}

func TestCallFailsWhenUpstreamAtURLIsKilled(t *testing.T) {
	t.Parallel()
	up := startRemote(t, "127.0.0.1:0")
	f := newFixture(t, gateway.Upstream{URL: up.url}).start()
	s := f.connect("2025-11-25", nil)
	time.AfterFunc(200*time.Millisecond, up.kill)
	f.wantError(s, "sleep", args{"ms": 60_000}, "upstream")
}

// TestAnswerIsResumedAfterConnectionBreaks: the connection to the upstream breaks in the middle of an answer.
func TestAnswerIsResumedAfterConnectionBreaks(t *testing.T) {
	t.Parallel()
	up := startRemote(t, "127.0.0.1:0")
	at, err := url.Parse(up.url)
	check(t, err)
	var conns sync.Map
	var cuts atomic.Int32
	reverse := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at) }, FlushInterval: -1,
		Transport: &http.Transport{DisableKeepAlives: true},
	}
	proxy := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The body is not to be closed when the answer begins: the transport may look for its end, and would fail
		// the answer.
		_ = http.NewResponseController(w).EnableFullDuplex()
		reverse.ServeHTTP(w, r)
	}))
	proxy.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if conns.Store(c, true); state == http.StateClosed {
			conns.Delete(c)
		}
	}
	proxy.Start()
	t.Cleanup(proxy.Close)
	f := newFixture(t, gateway.Upstream{URL: proxy.URL}).start()
	got := make(chan float64, 100)
	s := f.connect("2025-11-25", &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			if int(r.Params.Progress)%5 == 0 {
				conns.Range(func(c, _ any) bool { cuts.Add(1); return c.(net.Conn).Close() == nil || true })
			}
			got <- r.Params.Progress
		},
	})
	params := &mcp.CallToolParams{Name: "steps", Arguments: args{"n": 20, "ms": 20}}
	params.SetProgressToken("t")
	_, err = s.CallTool(t.Context(), params)
	check(t, err)
	for i := range 20 {
		if p := <-got; p != float64(i+1) {
			t.Fatalf("progress %v and not %d", p, i+1)
		}
	}
	if cuts.Load() == 0 {
		t.Error("nothing was cut")
	}
}

func TestConfiguredHeaderIsSentToUpstream(t *testing.T) {
	var authorized atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer ours" {
			authorized.Add(1)
		}
		http.Error(rw, "no", http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	header := map[string]string{"Authorization": "Bearer ours"}
	f := newFixture(t, gateway.Upstream{URL: server.URL, Header: header}).start()
	if _, body := f.post("", initialize("2025-11-25")); !strings.Contains(body, "401 Unauthorized") {
		t.Errorf("the answer is %s", body)
	}
	if authorized.Load() != 1 {
		t.Errorf("%d requests were authorized", authorized.Load())
	}
}
