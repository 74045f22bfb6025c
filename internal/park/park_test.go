package park_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/httpserver"
	"reprise/internal/park"
	"reprise/sse/ssehttp"
	"reprise/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a server that parks the readers of the stream "s".
type fixture struct {
	testing.TB
	log     *reprise.Log
	stream  *reprise.Stream
	lot     *park.Lot
	http    *httptest.Server
	readers atomic.Int64
}

func start(t *testing.T, opts *httpserver.Options, around func(http.Handler) http.Handler) *fixture {
	t.Helper()
	w := &fixture{TB: t}
	var err error
	if w.lot, err = park.New(&park.Options{After: time.Nanosecond}); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("responses are not parked on this system")
	}
	w.ok(err)
	store := memstore.New(nil)
	w.log, err = reprise.Open(t.Context(), store, &reprise.Options{Hooks: &reprise.Hooks{
		ReaderOpened: func(reprise.StreamKey, error) { w.readers.Add(1) },
		ReaderClosed: func(reprise.StreamKey) { w.readers.Add(-1) },
	}})
	w.ok(err)
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s"}
	w.stream, _, err = w.log.Create(t.Context(), key, reprise.StreamConfig{})
	w.ok(err)
	var h http.Handler = &ssehttp.Handler{
		Stream:  func(*http.Request) (*reprise.Stream, error) { return w.stream, nil },
		Options: &ssehttp.Options{WriteTimeout: time.Minute},
	}
	if around != nil {
		h = around(h)
	}
	w.http = httptest.NewUnstartedServer(nil)
	w.http.Config = httpserver.New(w.lot.Handler(h), opts)
	w.http.Start()
	go func() { _ = w.lot.Serve(w.http.Config) }()
	t.Cleanup(func() {
		w.http.CloseClientConnections()
		w.http.Close()
		w.ok(w.lot.Close())
		w.ok(w.log.Close())
		w.ok(store.Close())
	})
	return w
}

func (w *fixture) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *fixture) await(what string, condition func() bool) {
	w.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !condition(); <-tick.C {
		if time.Now().After(deadline) {
			w.Fatalf("not within a minute: %s", what)
		}
	}
}

// open opens a connection that reads the stream, and waits until n are parked.
func (w *fixture) open(n int, header string) (net.Conn, *bufio.Reader) {
	w.Helper()
	conn, err := net.Dial("tcp", w.http.Listener.Addr().String())
	w.ok(err)
	w.Cleanup(func() { conn.Close() })
	w.ok(conn.SetDeadline(time.Now().Add(2 * time.Minute)))
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: s\r\n"+header+"\r\n")
	w.ok(err)
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	w.ok(err)
	w.await(fmt.Sprint(n, " are parked"), func() bool { return w.lot.Parked() == n })
	return conn, bufio.NewReader(res.Body)
}

func (w *fixture) add(data string) {
	w.Helper()
	_, err := w.stream.Append(w.Context(), reprise.Event{Data: []byte(data)})
	w.ok(err)
}

// sees reads until a line contains text.
func (w *fixture) sees(in *bufio.Reader, text string) {
	w.Helper()
	for {
		line, err := in.ReadString('\n')
		w.ok(err)
		if strings.Contains(line, text) {
			return
		}
	}
}

// TestStrangersGiveWayWhileParked: a parked connection counts for its address, and its reader ends at once when the
// connection is closed for a new one.
func TestStrangersGiveWayWhileParked(t *testing.T) {
	w := start(t, &httpserver.Options{MaxPerAddress: 3}, nil)
	var all []*bufio.Reader
	for i := range 3 {
		_, in := w.open(i+1, "")
		all = append(all, in)
	}
	_, fourth := w.open(3, "") // in place of the first
	w.await("three readers are left", func() bool { return w.readers.Load() == 3 })
	if rest, err := io.ReadAll(all[0]); err == nil {
		t.Errorf("the response of the oldest is whole: %q", rest)
	}
	w.add("for those who are left")
	for _, in := range append(all[1:], fourth) {
		w.sees(in, "left")
	}
}

// TestProxyConnectionsWhileParked: the connection of a proxy counts for the client of its parked response until that
// ends, and not for longer.
func TestProxyConnectionsWhileParked(t *testing.T) {
	proxies, err := httpserver.ParseProxies([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	w := start(t, &httpserver.Options{MaxPerAddress: 2, TrustedProxies: proxies}, nil)
	from := func(client string) string { return "X-Forwarded-For: " + client + "\r\n" }
	_, first := w.open(1, from("192.0.2.1"))
	w.open(2, from("192.0.2.1"))
	w.open(3, from("192.0.2.2"))
	w.open(3, from("192.0.2.1")) // in place of the first
	if rest, err := io.ReadAll(first); err == nil {
		t.Errorf("the response of the oldest is whole: %q", rest)
	}
	_, err = w.stream.End(t.Context(), "completed", reprise.Event{})
	w.ok(err)
	w.await("all have ended", func() bool { return w.lot.Parked() == 0 && w.readers.Load() == 0 })
}

// TestParkedReaderThatTakesNothing: its socket fills, and it is closed after the time for writes.
func TestParkedReaderThatTakesNothing(t *testing.T) {
	w := start(t, nil, func(next http.Handler) http.Handler {
		next.(*ssehttp.Handler).Options.WriteTimeout = 5 * time.Second
		return next
	})
	w.open(1, "")
	_, other := w.open(2, "")
	for i := 0; w.readers.Load() == 2; i++ {
		w.add(fmt.Sprint(i, strings.Repeat("x", 200_000)))
		w.sees(other, fmt.Sprint(`"`, i, "x"))
	}
	w.await("it is gone", func() bool { return w.lot.Parked() == 1 })
	w.add("the other goes on")
	w.sees(other, "goes on")
}

// TestPanicWhileParked: the client sees that its response is not whole, and nothing is left of the reader.
func TestPanicWhileParked(t *testing.T) {
	w := start(t, nil, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			next.(*ssehttp.Handler).Options.Sent = func(uint64) { panic("a test") }
			next.ServeHTTP(rw, r)
		})
	})
	_, in := w.open(1, "")
	w.add("x")
	if rest, err := io.ReadAll(in); err == nil {
		t.Errorf("the response is whole: %q", rest)
	}
	w.await("nothing is left", func() bool { return w.lot.Parked() == 0 && w.readers.Load() == 0 })
}

// TestDisconnectsWhileParked: a reset and an end of the requests are both noticed, though nothing is sent.
func TestDisconnectsWhileParked(t *testing.T) {
	w := start(t, nil, nil)
	ended, _ := w.open(1, "")
	reset, _ := w.open(2, "")
	w.ok(ended.(*net.TCPConn).CloseWrite())
	w.await("one is gone", func() bool { return w.lot.Parked() == 1 && w.readers.Load() == 1 })
	w.ok(reset.(*net.TCPConn).SetLinger(0))
	w.ok(reset.Close())
	w.await("both are gone", func() bool { return w.lot.Parked() == 0 && w.readers.Load() == 0 })
}

// TestNotParked: what cannot be parked is served as without parking.
func TestNotParked(t *testing.T) {
	w := start(t, nil, nil)
	conn, err := net.Dial("tcp", w.http.Listener.Addr().String())
	w.ok(err)
	defer conn.Close()
	w.ok(conn.SetDeadline(time.Now().Add(2 * time.Minute)))
	_, err = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
	w.ok(err)
	in := bufio.NewReader(conn)
	w.sees(in, "retry")
	w.await("it is a reader", func() bool { return w.readers.Load() == 1 })
	w.add("over HTTP/1.0")
	w.sees(in, "over HTTP/1.0")
	if n := w.lot.Parked(); n != 0 {
		t.Errorf("%d are parked", n)
	}
}

// hijacked calls then when a handler has taken the connection.
type hijacked struct {
	http.ResponseWriter
	then func()
}

func (h *hijacked) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, in, err := h.ResponseWriter.(http.Hijacker).Hijack()
	h.then()
	return conn, in, err
}

// TestParkedIsNeverMissed: Wait waits for a response as soon as net/http has forgotten its connection.
func TestParkedIsNeverMissed(t *testing.T) {
	w := start(t, nil, nil)
	parking := w.lot.Handler(&ssehttp.Handler{
		Stream: func(*http.Request) (*reprise.Stream, error) { return w.stream, nil },
	})
	counted := make(chan int, 1)
	server := httptest.NewUnstartedServer(nil)
	server.Config = httpserver.New(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		parking.ServeHTTP(&hijacked{rw, func() { counted <- w.lot.Parked() }}, r)
	}), nil)
	server.Start()
	defer server.Close()
	res, err := server.Client().Get(server.URL)
	w.ok(err)
	select {
	case n := <-counted:
		if n != 1 {
			t.Errorf("%d responses are counted when the connection has left net/http", n)
		}
	case <-time.After(time.Minute):
		t.Error("the response is not parked")
	}
	w.ok(res.Body.Close())
	w.await("it is gone", func() bool { return w.lot.Parked() == 0 })
}

// TestLargeAndSmallChunks: what is gathered and what is not come in order, as whole chunks.
func TestLargeAndSmallChunks(t *testing.T) {
	w := start(t, nil, nil)
	_, in := w.open(1, "")
	var want []string
	for i, size := range []int{1, 3000, 4096, 5000, 100_000, 2, 4000} {
		want = append(want, fmt.Sprint(i, strings.Repeat("y", size), "z"))
		w.add(want[i])
	}
	for _, text := range want {
		w.sees(in, text)
	}
	_, err := w.stream.End(t.Context(), "completed", reprise.Event{})
	w.ok(err)
	if _, err := io.ReadAll(in); err != nil {
		t.Error(err)
	}
}

// TestEventNeedsFewGoroutines: an event to many parked readers, and their heartbeats, start no goroutine for each.
func TestEventNeedsFewGoroutines(t *testing.T) {
	const readers, silence = 200, 300 * time.Millisecond
	var most atomic.Int64
	w := start(t, nil, func(next http.Handler) http.Handler {
		opts := next.(*ssehttp.Handler).Options
		opts.Heartbeat = silence
		opts.Sent = func(uint64) { most.Store(max(most.Load(), int64(runtime.NumGoroutine()))) }
		return next
	})
	var all []*bufio.Reader
	for i := range readers {
		_, in := w.open(i+1, "")
		all = append(all, in)
	}
	for i := range 3 {
		w.add(fmt.Sprint("event ", i))
		for _, in := range all {
			w.sees(in, fmt.Sprint("event ", i))
		}
	}
	for _, in := range all {
		w.sees(in, ":\n")
	}
	if n := most.Load(); n > int64(readers/2+runtime.GOMAXPROCS(0)) {
		t.Errorf("%d goroutines while an event was sent to %d parked readers", n, readers)
	}
	if n := w.lot.Parked(); n != readers {
		t.Errorf("%d of %d are parked", n, readers)
	}
}

// TestParkedReaderThatIsSlow: what its socket does not accept at once comes later, in order, and no byte is lost.
func TestParkedReaderThatIsSlow(t *testing.T) {
	for name, size := range map[string]int{"small chunks": 3000, "large chunks": 20_000} {
		t.Run(name, func(t *testing.T) {
			w := start(t, nil, nil)
			_, slow := w.open(1, "")
			_, quick := w.open(2, "")
			events := (16 << 20) / size // more than sockets hold
			// The event that fills the socket may come before the reader is parked again.
			for round := range 4 {
				for i := range events {
					text := fmt.Sprint(round, "-", i, strings.Repeat("x", size))
					w.add(text)
					w.sees(quick, text)
				}
				for i := range events {
					w.sees(slow, fmt.Sprintf(`"%d-%dxx`, round, i))
				}
			}
			w.add("last")
			w.sees(slow, "last")
			_, err := w.stream.End(t.Context(), "completed", reprise.Event{})
			w.ok(err)
			if _, err := io.ReadAll(slow); err != nil {
				t.Errorf("the chunks are not whole: %v", err)
			}
		})
	}
}

// TestEndLongAfterAWriteThatWaited: the deadline of the last write that could wait is not that of the end, which comes
// long after it.
func TestEndLongAfterAWriteThatWaited(t *testing.T) {
	const timeout = 2 * time.Second
	w := start(t, nil, func(next http.Handler) http.Handler {
		next.(*ssehttp.Handler).Options.WriteTimeout = timeout
		return next
	})
	_, in := w.open(1, "")
	w.add(strings.Repeat("x", 40_000)) // more than is sent to a parked reader, which is parked again after it
	w.sees(in, "xxx")
	<-time.After(2 * timeout)
	_, err := w.stream.End(t.Context(), "completed", reprise.Event{})
	w.ok(err)
	if _, err := io.ReadAll(in); err != nil {
		t.Errorf("the chunks are not whole: %v", err)
	}
}

// TestParkedReaderIsSmall: little is left of a reader that waits, beside its connection.
func TestParkedReaderIsSmall(t *testing.T) {
	const readers = 500
	w := start(t, nil, nil)
	memory := func() (bytes, objects int) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc), int(m.HeapObjects)
	}
	request, head := []byte("GET / HTTP/1.1\r\nHost: s\r\n\r\n"), make([]byte, 4<<10)
	conns := make([]net.Conn, 0, readers+10)
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	open := func(n int) {
		for range n {
			conn, err := net.Dial("tcp", w.http.Listener.Addr().String())
			w.ok(err)
			conns = append(conns, conn)
			_, err = conn.Write(request)
			w.ok(err)
			_, err = conn.Read(head)
			w.ok(err)
		}
	}
	open(10)
	w.await("10 are parked", func() bool { return w.lot.Parked() == 10 })
	bytes, objects := memory()
	open(readers)
	w.await("all are parked", func() bool { return w.lot.Parked() == readers+10 })
	after, objectsAfter := memory()
	t.Logf("%d bytes, %d objects per reader", (after-bytes)/readers, (objectsAfter-objects)/readers)
	if n := (after - bytes) / readers; n > 2000 {
		t.Errorf("%d bytes per reader, with the connection of the client, want at most 2000", n)
	}
}
