package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/execution"
	"reprise/internal/httpserver"
	"reprise/internal/identity"
	"reprise/store/memstore"
)

func TestHostileNames(t *testing.T) {
	w := start(t, setup{})
	for _, name := range []string{
		"a%2F%2Fb", "%2Fa", "a%2F", "%2e", "%2e%2e", "a%2F..%2Fb", "..%2f..%2fetc%2fpasswd", "a%00b", "a%0Ab", "%20",
		"execution:x", "execution%3Ax", "a%3Ab", "%C3%A9", "%FF%FE", strings.Repeat("n", 256),
		strings.Repeat("n", 10_000),
	} {
		for _, call := range [][3]string{
			{"PUT", "", "{}"},
			{"GET", "", ""},
			{"DELETE", "", ""},
			{"GET", "/events", ""},
			{"POST", "/events", `{"data":1}`},
			{"POST", "/end", `{"outcome":"completed"}`},
		} {
			w.do(call[0], "/v1/streams/"+name+call[1], call[2]).refused(400, "invalid")
		}
	}
	for _, id := range []string{
		"a%2Fb", "%2e%2e", "%2Ehidden", "a%00b", "%0A", "a%3Ab", "%C3%A9", strings.Repeat("i", 10_000),
	} {
		for _, path := range []string{"", "/events", "/stdout"} {
			a := w.do("GET", "/v1/executions/"+id+path, "")
			if a.status != 400 && a.status != 404 && a.status != 422 {
				t.Errorf("GET /v1/executions/%.20s%s: %d %s", id, path, a.status, a.body)
			}
		}
		for _, path := range []string{"/v1/executions/", "/v1/sessions/"} {
			if a := w.do("DELETE", path+id, "").refused(400, "invalid"); a.text("field") != "id" {
				t.Errorf("DELETE %s%.20s: field %q", path, id, a.text("field"))
			}
		}
		w.do("POST", "/v1/executions",
			`{"argv":["true"],"id":"`+strings.ReplaceAll(id, "%00", "\\u0000")+`"}`).refused(422, "invalid")
	}
	for _, path := range []string{
		"/v1/executions/", "/v1//executions", "/v1/streams/../executions", "/v1/./streams", "//", "/v1",
		"/V1/executions", "/",
	} {
		w.do("GET", path, "").refused(404, "not_found")
	}
}

func TestHostilePositions(t *testing.T) {
	w := start(t, setup{})
	s := w.stream("s", "x")
	good := s.Cursor(1).String()
	for _, after := range []string{
		strings.Repeat("9", 100_000), "-1", "+1", "1", "01" + good[1:], good + "%00", "%F0%9F%92%A9", " ", good + ".",
		"99999999999999999999999" + good[1:],
	} {
		w.do("GET", "/v1/streams/s/events?after="+strings.ReplaceAll(after, " ", "%20"),
			"").refused(400, "cursor_malformed")
	}
	for _, id := range []string{"\x80\xff", "café", strings.Repeat("x", 50_000), good + "é"} {
		for _, accept := range []string{asSSE, asLines} {
			w.do("GET", "/v1/streams/s/events", "", accept, "Last-Event-ID: "+id).refused(400, "cursor_malformed")
		}
	}
}

func TestHostileBodies(t *testing.T) {
	w := start(t, setup{})
	for _, c := range []struct {
		body   string
		status int
		field  string
	}{
		{``, 400, ""},
		{`{`, 400, ""},
		{`{"argv":["true"]} x`, 400, ""},
		{"{\"argv\":[\"\xff\"]}", 400, ""},
		{strings.Repeat("[", 100_000), 422, ""},
		{`null`, 422, ""},
		{`[]`, 422, ""},
		{`"x"`, 422, ""},
		{`{}`, 422, "argv"},
		{`{"argv":"true"}`, 422, "argv"},
		{`{"argv":["true",1]}`, 422, "argv"},
		{`{"argv":["true"],"extra":1}`, 422, "extra"},
		{`{"Argv":["true"]}`, 422, "Argv"},
		{`{"tty":{"colour":1},"tty":{},"argv":["true"]}`, 422, "tty.colour"},
		{`{"argv":["true"],"argv":["false"]}`, 422, "argv"},
		{`{"argv":["true"],"tty":{"cols":80,"color":true}}`, 422, "tty.color"},
		{`{"argv":["true"],"tty":[]}`, 422, "tty"},
		{`{"argv":["true"],"limits":{"processes":1.5}}`, 422, "limits.processes"},
		{`{"argv":["true"],"limits":{"cpu_time":5}}`, 422, "limits.cpu_time"},
		{`{"argv":["true"],"timeout":"soon"}`, 422, "timeout"},
		{`{"argv":["true"],"timeout":90}`, 422, "timeout"},
		{`{"argv":["true"],"timeout":"-1s"}`, 422, "timeout"},
		{`{"argv":["true"],"env":{"A":1}}`, 422, "env"},
		{`{"argv":["true"],"stdin_base64":"%%%"}`, 422, "stdin_base64"},
		{`{"argv":["true"],"isolation":"magic"}`, 422, "isolation"},
		{`{"argv":["true"],"isolation":7}`, 422, "isolation"},
		{`{"argv":["true"],"access":{"network":"maybe"}}`, 422, "access.network"},
		{`{"argv":["true"],"access":{"writable":"/tmp"}}`, 422, "access.writable"},
		{`{"argv":["true"],"access":{"runnable":["/tmp"]}}`, 422, "access.runnable"},
		{`{"argv":["true"],"access":{"hidden":["relative"]}}`, 422, "access.hidden"},
		{`{"argv":["true"],"isolation":"none","access":{"network":"off"}}`, 422, "isolation"},
		{`{"language":"cobol","code":"x"}`, 422, "language"},
		{`{"argv":["true"],"IdempotencyKey":"x"}`, 422, "IdempotencyKey"},
		{`{"argv":["true"],"":1}`, 422, ""},
		{`{"argv":["true"],"labels":null}`, 422, "labels"},
		{`{"argv":["true"],"tty":null}`, 422, "tty"},
		{`{"argv":["true"],"retention":{"max_age":null}}`, 422, "retention.max_age"},
	} {
		a := w.do("POST", "/v1/executions", c.body, "Content-Type: application/json")
		if a.status != c.status || a.text("code") != "invalid" || a.text("field") != c.field {
			t.Errorf("%.60s: %d %.300s", c.body, a.status, a.body)
		}
	}
	if a := w.do(
		"POST", "/v1/executions", `{"argv":[{}]}`,
	); a.text("detail") != "argv: an object does not belong here" {
		t.Errorf("detail %q", a.text("detail"))
	}
	for _, contentType := range []string{
		"", "text/plain", "application/xml", "application/json-seq", "application/x-www-form-urlencoded", ";;",
	} {
		w.do("POST", "/v1/executions", `{"argv":["true"]}`, "Content-Type: "+contentType).refused(415, "invalid")
	}
	w.do("POST", "/v1/executions/none/stdin", strings.Repeat("x", 16<<20+1),
		"Content-Type: application/octet-stream").refused(413, "payload_too_large")
	if ids := names(w.do("GET", "/v1/executions", ""), "executions", "id"); ids != "" {
		t.Errorf("something was started: %q", ids)
	}
}

// A body whose length is not announced is bounded all the same.
func TestBodyWithoutLength(t *testing.T) {
	w := start(t, setup{})
	w.stream("s")
	endless := io.LimitReader(neverEnding('x'), 64<<20)
	req, err := http.NewRequestWithContext(t.Context(), "POST", w.url+"/v1/streams/s/events", io.NopCloser(endless))
	w.ok(err)
	req.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	w.ok(err)
	defer res.Body.Close()
	if res.StatusCode != 413 {
		t.Errorf("status %d", res.StatusCode)
	}
}

type neverEnding byte

func (b neverEnding) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b)
	}
	return len(p), nil
}

// pipeListener hands out connections without a network, whose time is that of the bubble.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.IPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// inBubble runs a server in a bubble of fake time.
func inBubble(t *testing.T, test func(t *testing.T, log *reprise.Log, l *pipeListener)) {
	inBubbleOf(t, nil, test)
}

// inBubbleOf is inBubble with the bounds of conns on connections, unless that is nil.
func inBubbleOf(t *testing.T, conns *httpserver.Options, test func(t *testing.T, log *reprise.Log, l *pipeListener)) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		log, err := reprise.Open(context.Background(), store, nil)
		if err != nil {
			t.Fatal(err)
		}
		host, err := execution.Open(context.Background(), log, &execution.Options{DisableCgroups: true})
		if err != nil {
			t.Fatal(err)
		}
		server, err := api.New(log, host, identity.NewGate(reprise.NewKeyset(), nil, nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		l := newPipeListener()
		httpServer := api.NewHTTPServer(server)
		if conns != nil {
			httpServer = httpserver.New(server, conns)
		}
		go httpServer.Serve(l)
		test(t, log, l)
		httpServer.Close()
		host.Close()
		log.Close()
		store.Close()
	})
}

func TestHeaderAByteAMinute(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *reprise.Log, l *pipeListener) {
		conn := l.dial()
		begin := time.Now()
		var writer sync.WaitGroup
		defer writer.Wait()
		defer conn.Close()
		writer.Go(func() {
			for _, b := range []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") {
				if _, err := conn.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Minute) // of the bubble
			}
		})
		answer, _ := io.ReadAll(conn)
		if took := time.Since(begin); took > 15*time.Second {
			t.Errorf("the server waited for %v and said %q", took, answer)
		}
	})
}

func TestBodyAByteAMinute(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *reprise.Log, l *pipeListener) {
		conn := l.dial()
		begin := time.Now()
		var writer sync.WaitGroup
		defer writer.Wait()
		defer conn.Close()
		writer.Go(func() {
			fmt.Fprintf(conn, "POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
			for {
				if _, err := conn.Write([]byte("{")); err != nil {
					return
				}
				time.Sleep(time.Minute) // of the bubble
			}
		})
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); res.StatusCode != 400 || took > 90*time.Second {
			t.Errorf("status %d after %v", res.StatusCode, took)
		}
	})
}

// A reader that reads nothing is closed, in both forms, and costs the writer nothing.
func TestClientThatNeverReads(t *testing.T) {
	for _, accept := range []string{"text/event-stream", "application/x-ndjson"} {
		inBubble(t, func(t *testing.T, log *reprise.Log, l *pipeListener) {
			key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s"}
			s, _, err := log.Create(t.Context(), key, reprise.StreamConfig{})
			if err != nil {
				t.Fatal(err)
			}
			conn := l.dial()
			defer conn.Close()
			fmt.Fprintf(conn, "GET /v1/streams/s/events HTTP/1.1\r\nHost: localhost\r\nAccept: %s\r\n\r\n", accept)
			begin := time.Now()
			for range 50 {
				if _, err := s.Append(t.Context(), reprise.Event{Data: make([]byte, 100_000)}); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(begin); took > 0 {
				t.Errorf("%s: the writer waited for %v", accept, took)
			}
			time.Sleep(time.Minute) // of the bubble
			synctest.Wait()
			conn.SetReadDeadline(time.Now().Add(time.Hour))
			if _, err := io.Copy(io.Discard, conn); err != nil {
				t.Errorf("%s: the connection is still open: %v", accept, err)
			}
		})
	}
}

// Two thousand readers at once all get everything.
func TestTwoThousandReaders(t *testing.T) {
	const readers = 2000
	needFiles(t, 2*readers+500)
	w := start(t, setup{open: true})
	w.token = ""
	s := w.stream("s", "first")
	transport := &http.Transport{MaxIdleConnsPerHost: readers}
	defer transport.CloseIdleConnections()
	var group sync.WaitGroup
	var mu sync.Mutex
	complete := 0
	for i := range readers {
		group.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), "GET", w.url+"/v1/streams/s/events", nil)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Accept", []string{"text/event-stream", "application/x-ndjson"}[i%2])
			res, err := transport.RoundTrip(req)
			if err != nil {
				t.Error(err)
				return
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			if err == nil && strings.Contains(string(body), "first") && strings.Contains(string(body), "second") &&
				strings.Contains(string(body), "completed") {
				complete++
			}
		})
	}
	w.eventually("all readers are there", func() bool { return w.metric("reprise_readers") == fmt.Sprint(readers) })
	_, err := s.Append(t.Context(), reprise.Event{Data: []byte("second")})
	w.ok(err)
	_, err = s.End(t.Context(), "completed",
		reprise.Event{Data: []byte(`{"outcome":"completed"}`), Format: reprise.FormatMembers})
	w.ok(err)
	group.Wait()
	if complete != readers {
		t.Errorf("%d of %d readers got everything", complete, readers)
	}
}

// The Log is closed under its readers: nobody takes that for the end.
func TestStoreClosesUnderReaders(t *testing.T) {
	w := start(t, setup{})
	w.stream("s", "x")
	sse, lines := w.follow("/v1/streams/s/events", asSSE), w.follow("/v1/streams/s/events", asLines)
	waiting := make(chan *answer)
	go func() { waiting <- w.do("GET", "/v1/streams/s/events?wait=60s&after=tail", "") }()
	w.eventually("three readers wait", func() bool { return w.metric("reprise_readers") == "3" })
	w.ok(w.log.Close())
	for name, f := range map[string]*follower{"sse": sse, "lines": lines} {
		rest, err := io.ReadAll(f.in)
		if err != nil || strings.Contains(string(rest), "end") {
			t.Errorf("%s: %q, %v", name, rest, err)
		}
		if name == "sse" && !strings.HasSuffix(string(rest), "\nretry: 250\n") {
			t.Errorf("the last words are %q", rest)
		}
		f.close()
	}
	(<-waiting).refused(503, "shutting_down")
	w.do("GET", "/v1/streams/s/events", "").refused(503, "shutting_down")
}

// A stream is removed under its readers: they are to come back at once, and are told then that there is none.
func TestRemovalTellsReadersToComeBack(t *testing.T) {
	w := start(t, setup{})
	w.stream("s", "x")
	sse, lines := w.follow("/v1/streams/s/events", asSSE), w.follow("/v1/streams/s/events", asLines)
	w.eventually("two readers wait", func() bool { return w.metric("reprise_readers") == "2" })
	w.do("DELETE", "/v1/streams/s", "").is(204)
	for name, f := range map[string]*follower{"sse": sse, "lines": lines} {
		rest, err := io.ReadAll(f.in)
		told := name != "sse" || strings.Contains(string(rest), "\nretry: 250\nevent: removed\n")
		if err != nil || strings.Contains(string(rest), "end") || !told {
			t.Errorf("%s: %q, %v", name, rest, err)
		}
		f.close()
	}
	w.do("GET", "/v1/streams/s/events", "", asSSE).refused(404, "not_found")
}

func TestDrainTellsReadersToComeBack(t *testing.T) {
	w := start(t, setup{})
	s := w.stream("s", "x")
	sse, lines := w.follow("/v1/streams/s/events", asSSE), w.follow("/v1/streams/s/events", asLines)
	w.eventually("two readers wait", func() bool { return w.metric("reprise_readers") == "2" })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	w.ok(w.http.Config.Shutdown(ctx))
	for name, f := range map[string]*follower{"sse": sse, "lines": lines} {
		rest, err := io.ReadAll(f.in)
		if err != nil || name == "sse" && !strings.HasSuffix(string(rest), "\nretry: 250\n") {
			t.Errorf("%s: %q, %v", name, rest, err)
		}
		f.close()
	}
	if _, err := s.Append(t.Context(), reprise.Event{}); err != nil {
		t.Errorf("the stream does not go on: %v", err)
	}
}

// Who has reached the server by an address may call it by that address.
func TestHostMayBeTheAddressThatWasReached(t *testing.T) {
	w := start(t, setup{})
	for host, status := range map[string]int{"192.0.2.7:7070": 200, "192.0.2.8:7070": 403, "[2001:db8::1]": 403} {
		r := httptest.NewRequest("GET", "http://"+host+"/openapi.yaml", nil)
		local := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 7070}
		answer := httptest.NewRecorder()
		w.server.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local)))
		if answer.Code != status {
			t.Errorf("%s: status %d, want %d", host, answer.Code, status)
		}
	}
}

// A load balancer checks its servers by a name of its own, or none; it learns nothing else.
func TestHealthIsServedForAnyHost(t *testing.T) {
	w := start(t, setup{})
	for path, status := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 403, "/v1/executions": 403} {
		r := httptest.NewRequest("GET", path, nil)
		r.Host = ""
		answer := httptest.NewRecorder()
		w.server.ServeHTTP(answer, r)
		if answer.Code != status {
			t.Errorf("%s: status %d, want %d", path, answer.Code, status)
		}
	}
}
