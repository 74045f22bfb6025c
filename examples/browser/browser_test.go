package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/store/memstore"
)

// TestBrowserGetsEachEventOnceAfterACut lets a real browser follow a stream with nothing but EventSource, cuts its
// connection once in the middle, and expects each event once. (G1)
func TestBrowserGetsEachEventOnceAfterACut(t *testing.T) {
	pages := httptest.NewServer(http.FileServer(http.Dir(".")))
	defer pages.Close()
	server := newServer(t, pages.URL)
	proxy := newCutter(t, server.addr)
	events := server.ticket(t)

	// The stream goes on only when the first part has arrived and the connection was cut.
	go func() {
		server.publish(t, 1, 5)
		<-proxy.done
		server.publish(t, 6, 10)
		server.end(t)
	}()

	dom := browse(t, pages.URL+"/index.html#http://"+proxy.addr()+events)
	if want := "ended: completed, events 1,2,3,4,5,6,7,8,9,10"; !strings.Contains(dom, want) {
		t.Errorf("%q is not in the page:\n%s", want, dom)
	}
	if proxy.cuts.Load() != 1 || proxy.accepted.Load() < 2 {
		t.Errorf("%d cuts, %d connections", proxy.cuts.Load(), proxy.accepted.Load())
	}
}

// browse returns what a page has become when it has nothing left to do.
func browse(t *testing.T, url string) (dom string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := browser(ctx, t, "--timeout=15000", "--virtual-time-budget=600000", "--dump-dom", url).Output()
	check(t, err)
	return string(out)
}

// browser is a browser without a screen and with a profile of its own.
func browser(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("chromium is missing: apt-get install chromium")
		}
		t.Skip("chromium is missing")
	}
	return exec.CommandContext(ctx, chromium, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--user-data-dir=" + profile(t),
	}, args...)...)
}

// profile is a new directory for a profile. The processes of a browser that was ended write to it for a moment longer.
func profile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "chromium-")
	check(t, err)
	t.Cleanup(func() {
		deadline := time.Now().Add(2 * time.Minute)
		for os.RemoveAll(dir) != nil && time.Now().Before(deadline) {
			time.Sleep(50 * time.Millisecond)
		}
	})
	return dir
}

// reloading shows the page in a frame, which it reloads once when event 5 is there, and then reports what became of it.
const reloading = `<!doctype html><iframe id="page"></iframe><script>
	const frame = document.getElementById('page')
	frame.src = 'index.html' + location.hash
	let reloads = 0
	const timer = setInterval(() => {
		const page = frame.contentDocument
		const output = page?.getElementById('output')?.textContent ?? ''
		if (reloads === 0 && output.includes('5\n')) {
			reloads++
			frame.contentWindow.location.reload()
			fetch('reloaded', {method: 'POST'})
		} else if (page?.title === 'ended') {
			clearInterval(timer)
			fetch('result', {method: 'POST', body: output + page.getElementById('state').textContent})
		}
	}, 20)
</script>`

// TestReloadGoesOn reloads the page in the middle of a stream. It shows what it had shown, and the rest.
func TestReloadGoesOn(t *testing.T) {
	reloaded, result := make(chan struct{}), make(chan string, 1)
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(".")))
	mux.HandleFunc("GET /reloading.html", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, reloading)
	})
	mux.HandleFunc("POST /reloaded", func(http.ResponseWriter, *http.Request) { close(reloaded) })
	mux.HandleFunc("POST /result", func(_ http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		result <- string(text)
	})
	pages := httptest.NewServer(mux)
	defer pages.Close()
	server := newServer(t, pages.URL)
	events := server.ticket(t)
	go func() {
		server.publish(t, 1, 5)
		<-reloaded
		server.publish(t, 6, 7)
		_, err := server.stream.Append(t.Context(), reprise.Event{Type: "message", Data: []byte("caf\xe9\n")})
		if err != nil {
			t.Error(err)
		}
		server.end(t)
	}()
	ctx, cancel := context.WithCancel(t.Context())
	running := browser(ctx, t, "--remote-debugging-port=0", pages.URL+"/reloading.html#"+server.url+events)
	running.Cancel = func() error { return running.Process.Signal(syscall.SIGTERM) } // its other processes end first
	running.WaitDelay = 10 * time.Second
	check(t, running.Start())
	defer func() {
		cancel()
		_ = running.Wait() // how it ended does not matter
	}()
	want := "1\n2\n3\n4\n5\n6\n7\ncaf\uFFFD\nended: completed, events 1,2,3,4,5,6,7,8"
	select {
	case got := <-result:
		if got != want {
			t.Errorf("the page shows %q, want %q", got, want)
		}
	case <-time.After(time.Minute):
		t.Error("the page does not come to its end")
	}
}

// TestExpiredTicketIsTold: the browser does not try again after a refusal, and the page says what to do.
func TestExpiredTicketIsTold(t *testing.T) {
	pages := httptest.NewServer(http.FileServer(http.Dir(".")))
	defer pages.Close()
	server := newServer(t, pages.URL)
	events, _, _ := strings.Cut(server.ticket(t), "?")
	dom := browse(t, pages.URL+"/index.html#"+server.url+events+"?ticket=expired")
	if want := "refused: the ticket has expired"; !strings.Contains(dom, want) {
		t.Errorf("%q is not in the page:\n%s", want, dom)
	}
}

// testServer is a server whose pages come from another origin.
type testServer struct {
	addr   string
	url    string
	stream *reprise.Stream
}

func newServer(t *testing.T, origin string) *testServer {
	t.Helper()
	ctx := t.Context()
	store := memstore.New(nil)
	keys := reprise.NewKeyset()
	log, err := reprise.Open(ctx, store, &reprise.Options{Keys: keys})
	check(t, err)
	host, err := execution.Open(ctx, log, nil)
	check(t, err)
	// What is compressed could not be cut at a certain event.
	options := &api.Options{Origins: []string{origin}, NoCompression: true}
	handler, err := api.New(log, host, identity.NewGate(keys, nil, nil), options)
	check(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		handler.Drain()
		server.CloseClientConnections()
		server.Close()
		check(t, host.Close())
		check(t, log.Close())
		check(t, store.Close())
	})
	stream, _, err := log.Create(ctx, reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "numbers"},
		reprise.StreamConfig{})
	check(t, err)
	return &testServer{addr: server.Listener.Addr().String(), url: server.URL, stream: stream}
}

func (s *testServer) publish(t *testing.T, from, to int) {
	for i := from; i <= to; i++ {
		_, err := s.stream.Append(t.Context(),
			reprise.Event{Type: "message", Data: fmt.Append(nil, i), Format: reprise.FormatJSON})
		if err != nil {
			t.Error(err)
		}
	}
}

func (s *testServer) end(t *testing.T) {
	_, err := s.stream.End(t.Context(), "completed",
		reprise.Event{Data: []byte(`{"outcome":"completed"}`), Format: reprise.FormatMembers})
	if err != nil {
		t.Error(err)
	}
}

// ticket is the path of the events with a ticket in it.
func (s *testServer) ticket(t *testing.T) string {
	t.Helper()
	answer, err := http.Post(s.url+"/v1/tickets", "application/json", strings.NewReader(`{"stream":"numbers"}`))
	check(t, err)
	defer answer.Body.Close()
	var ticket struct {
		Events string `json:"events"`
	}
	check(t, json.NewDecoder(answer.Body).Decode(&ticket))
	return ticket.Events
}

// cutAfter is the text of the event after which the connection is cut.
const cutAfter = `"data":5`

// cutter passes connections on and cuts the first one that has carried cutAfter.
type cutter struct {
	listener net.Listener
	target   string
	done     chan struct{} // closed by the cut
	accepted atomic.Int64
	cuts     atomic.Int64
}

func newCutter(t *testing.T, target string) *cutter {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	c := &cutter{listener: listener, target: target, done: make(chan struct{})}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			c.accepted.Add(1)
			go c.pass(client)
		}
	}()
	return c
}

func (c *cutter) addr() string { return c.listener.Addr().String() }

func (c *cutter) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	carried := ""
	for buffer := make([]byte, 4096); ; {
		n, err := server.Read(buffer)
		if _, writeErr := client.Write(buffer[:n]); err != nil || writeErr != nil {
			return
		}
		if c.cuts.Load() == 0 {
			if carried += string(buffer[:n]); strings.Contains(carried, cutAfter) {
				c.cuts.Add(1)
				_ = client.(*net.TCPConn).SetLinger(0)
				close(c.done)
				return
			}
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
