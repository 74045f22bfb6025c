package relay_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/relay"
	"reprise/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a relay in front of a backend, which counts its calls.
type fixture struct {
	testing.TB
	url     string
	log     *reprise.Log
	relay   *relay.Relay
	opts    relay.Options
	served  *httptest.Server
	client  *http.Client
	calls   atomic.Int64
	ended   chan bool // gets a value for each request that is over
	backend http.HandlerFunc
}

func start(tb testing.TB, opts relay.Options, backend http.HandlerFunc) *fixture {
	tb.Helper()
	w := &fixture{TB: tb, opts: opts, backend: backend}
	behind := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.calls.Add(1)
		w.backend(rw, r)
	}))
	var err error
	w.log, err = reprise.Open(context.Background(), memstore.New(nil),
		&reprise.Options{Retention: reprise.Retention{MaxBytes: 16 << 20}})
	w.ok(err)
	w.opts.Backend, err = url.Parse(behind.URL)
	w.ok(err)
	w.opts.Secret = []byte("a secret of the tests")
	out := &http.Transport{}
	w.opts.Transport = out
	w.open()
	w.ended = make(chan bool, 1000)
	w.served = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		defer func() { w.ended <- true }()
		w.relay.ServeHTTP(rw, r)
	}))
	transport := &http.Transport{DisableCompression: true}
	w.url, w.client = w.served.URL, &http.Client{Transport: transport}
	tb.Cleanup(func() {
		w.relay.Close()
		transport.CloseIdleConnections()
		w.served.Close()
		out.CloseIdleConnections()
		behind.Close()
		w.ok(w.log.Close())
	})
	return w
}

// open opens a relay, as a process that starts does.
func (w *fixture) open() {
	w.Helper()
	var err error
	w.relay, err = relay.Open(w.Context(), w.log, &w.opts)
	w.ok(err)
}

func (w *fixture) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *fixture) send(method, path, body string, header ...string) *http.Response {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), method, w.url+path, strings.NewReader(body))
	w.ok(err)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	res, err := w.client.Do(r)
	w.ok(err)
	return res
}

// get returns a whole answer. The error is that of reading it.
func (w *fixture) get(method, path, body string, header ...string) (*http.Response, string, error) {
	w.Helper()
	res := w.send(method, path, body, header...)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res, string(text), err
}

// events are the data of the events that are whole in text, and the id of the last of them.
func events(text string) (data []string, last string) {
	for {
		block, rest, whole := strings.Cut(text, "\n\n")
		if !whole {
			return data, last
		}
		for line := range strings.Lines(block + "\n") {
			line = strings.TrimSuffix(line, "\n")
			if value, ok := strings.CutPrefix(line, "data: "); ok {
				data = append(data, value)
			}
			if value, ok := strings.CutPrefix(line, "id: "); ok {
				last = value
			}
		}
		text = rest
	}
}

// answer is a backend that streams five events.
func answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Of-The-Backend", "yes")
	for i := range 4 {
		fmt.Fprintf(w, "data: %d %s\n\n", i, body)
		_ = http.NewResponseController(w).Flush()
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

var whole = []string{"0 x", "1 x", "2 x", "3 x", "[DONE]"}

// TestCutAtEveryByte: a client comes back to the same path, or to the address of the recording, by the last id that it
// has, or by the same key, and has every event once. The backend is called once.
func TestCutAtEveryByte(t *testing.T) {
	w := start(t, relay.Options{}, answer)
	res, text, err := w.get("POST", "/chat?a=b", "x", "Idempotency-Key: k")
	w.ok(err)
	got, _ := events(text)
	if fmt.Sprint(got) != fmt.Sprint(whole) || res.Header.Get("X-Of-The-Backend") != "yes" ||
		res.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
		t.Fatalf("%q %v", text, res.Header)
	}
	location := res.Header.Get("Location")
	for cut := range len(text) {
		read, last := events(text[:cut])
		if last == "" {
			continue
		}
		for _, again := range []struct{ method, path string }{
			{"GET", "/chat?a=b"}, {"POST", "/other"}, {"GET", location},
		} {
			_, rest, err := w.get(again.method, again.path, "", "Last-Event-ID: "+last)
			w.ok(err)
			more, _ := events(rest)
			if all := append(read[:len(read):len(read)], more...); fmt.Sprint(all) != fmt.Sprint(whole) {
				t.Fatalf("cut at %d, %v: %q", cut, again, all)
			}
		}
	}
	if _, again, err := w.get("POST", "/chat?a=b", "x", "Idempotency-Key: k"); err != nil || again != text {
		t.Errorf("the same request: %q, %v", again, err)
	}
	if n := w.calls.Load(); n != 1 {
		t.Errorf("the backend was called %d times", n)
	}
	_, last := events(text)
	if res, _, _ := w.get("GET", "/chat", "", "Last-Event-ID: "+last); res.StatusCode != http.StatusNoContent {
		t.Errorf("with all events: %s", res.Status)
	}
}

// TestKeys: by the header, by a header of a rule, by members of the body. Another request under a key is refused.
func TestKeys(t *testing.T) {
	w := start(t, relay.Options{
		Keys: []relay.Rule{"header:X-Request", "json:/chat/id,/messages/1/n"}, Credentials: []string{"X-Tenant"},
	}, answer)
	body := `{"chat":{"id":"c"},"messages":[{"n":1},{"n":2}]}`
	for n, r := range []struct {
		body   string
		header []string
	}{
		{"x", []string{"Idempotency-Key: 1"}},
		{"x", []string{"X-Request: 1"}},
		{body, nil},
		{body, []string{"X-Request: 2"}},
		{body, []string{"X-Request: 2", "Authorization: Bearer other"}},
		{body, []string{"X-Request: 2", "X-Api-Key: other"}},
		{body, []string{"X-Request: 2", "X-Tenant: other"}},
	} {
		for range 2 {
			_, _, err := w.get("POST", "/", r.body, r.header...)
			w.ok(err)
		}
		if got := w.calls.Load(); got != int64(n+1) {
			t.Errorf("%v: %d calls", r, got)
		}
	}
	for _, r := range []struct {
		method, path, body string
		header             string
	}{
		{"POST", "/", "y", "Idempotency-Key: 1"},
		{"PUT", "/", "x", "X-Request: 1"},
		{"POST", "/?other", body, "X-Other: 1"},
	} {
		if res, text, _ := w.get(r.method, r.path, r.body, r.header); res.StatusCode != http.StatusConflict {
			t.Errorf("%v: %s %s", r, res.Status, text)
		}
	}
	calls := w.calls.Load()
	for range 2 { // no rule finds a value
		_, _, err := w.get("POST", "/", `{"chat":{"id":{}},"messages":[]}`)
		w.ok(err)
	}
	if got := w.calls.Load() - calls; got != 2 {
		t.Errorf("without a key: %d calls", got)
	}
}

// held is a backend that sends an event and waits for what comes.
type held struct {
	more    chan string // further data; closed for the end
	stopped chan error  // why the request has ended
}

func newHeld() *held { return &held{make(chan string), make(chan error, 10)} }

func (h *held) serve(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "data: first\n\n")
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case text, ok := <-h.more:
			if !ok {
				return
			}
			if text == "break" {
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, text)
		case <-r.Context().Done():
			h.stopped <- context.Cause(r.Context())
			return
		}
	}
}

// first reads a response up to its first event, and returns the id of that.
func (w *fixture) first(res *http.Response) (id string, in *bufio.Reader) {
	w.Helper()
	in = bufio.NewReader(res.Body)
	for {
		line, err := in.ReadString('\n')
		w.ok(err)
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			return strings.TrimSpace(id), in
		}
	}
}

// TestBackendGoesOn when the client is gone, and a second request with the same key follows the first.
func TestBackendGoesOn(t *testing.T) {
	h := newHeld()
	w := start(t, relay.Options{}, h.serve)
	res := w.send("POST", "/", "q", "Idempotency-Key: k")
	id, _ := w.first(res)
	second := w.send("POST", "/", "q", "Idempotency-Key: k")
	_, in := w.first(second)
	w.ok(res.Body.Close())
	<-w.ended
	select {
	case h.more <- "data: second\n\n":
	case err := <-h.stopped:
		t.Fatal("the backend was stopped:", err)
	}
	close(h.more)
	rest, err := io.ReadAll(in)
	w.ok(err)
	w.ok(second.Body.Close())
	if got, _ := events(string(rest)); fmt.Sprint(got) != "[second]" {
		t.Errorf("the second reader: %q", rest)
	}
	_, text, err := w.get("GET", "/", "", "Last-Event-ID: "+id)
	if got, _ := events(text); err != nil || fmt.Sprint(got) != "[second]" || w.calls.Load() != 1 {
		t.Errorf("%q, %v, %d calls", text, err, w.calls.Load())
	}
}

// TestStop: DELETE stops the backend, and no reader takes what came for whole.
func TestStop(t *testing.T) {
	h := newHeld()
	w := start(t, relay.Options{}, h.serve)
	res := w.send("POST", "/", "", "Authorization: Bearer mine", "Idempotency-Key: k")
	id, in := w.first(res)
	location := res.Header.Get("Location")
	for who, want := range []int{http.StatusNotFound, http.StatusNoContent} {
		sender := []string{"other", "mine"}[who]
		if got, _, _ := w.get("DELETE", location, "", "Authorization: Bearer "+sender); got.StatusCode != want {
			t.Errorf("stopped by %s: %s", sender, got.Status)
		}
	}
	<-h.stopped
	if rest, err := io.ReadAll(in); err == nil {
		t.Errorf("the answer is whole: %q", rest)
	}
	w.ok(res.Body.Close())
	if _, text, err := w.get("POST", "/", "", "Authorization: Bearer mine", "Idempotency-Key: k"); err == nil {
		t.Errorf("again: %q", text)
	}
	again, text, err := w.get("GET", "/", "", "Authorization: Bearer mine", "Last-Event-ID: "+id)
	if err != nil || again.StatusCode < 500 {
		t.Errorf("the rest: %s %q", again.Status, text)
	}
}

// TestGrace: a backend is stopped when nobody has read for so long.
func TestGrace(t *testing.T) {
	h := newHeld()
	w := start(t, relay.Options{Grace: time.Millisecond}, h.serve)
	res := w.send("POST", "/", "")
	w.first(res)
	w.ok(res.Body.Close())
	<-h.stopped
}

// TestClientLeavesBeforeTheAnswer: without a key nobody could come back for it, so that the backend is told.
func TestClientLeavesBeforeTheAnswer(t *testing.T) {
	came, gone := make(chan bool), make(chan bool)
	w := start(t, relay.Options{}, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		came <- true
		<-r.Context().Done()
		gone <- true
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-came; cancel() }()
	r, err := http.NewRequestWithContext(ctx, "POST", w.url, http.NoBody)
	w.ok(err)
	if res, err := w.client.Do(r); err == nil {
		w.ok(res.Body.Close())
	}
	<-gone
}

// TestBackendBreaksOff: what came is kept, and is never answered as whole. With Retry a request under the same key
// calls the backend again.
func TestBackendBreaksOff(t *testing.T) {
	for _, retry := range []bool{false, true} {
		h := newHeld()
		w := start(t, relay.Options{Retry: retry}, h.serve)
		res := w.send("POST", "/", "q", "Idempotency-Key: k")
		_, in := w.first(res)
		h.more <- "break"
		if rest, err := io.ReadAll(in); err == nil {
			t.Errorf("the answer is whole: %q", rest)
		}
		w.ok(res.Body.Close())
		if retry {
			close(h.more)
		}
		_, text, err := w.get("POST", "/", "q", "Idempotency-Key: k")
		if got, _ := events(text); fmt.Sprint(got) != "[first]" || (err == nil) != retry {
			t.Errorf("retry %v: %q, %v", retry, text, err)
		}
		if got := w.calls.Load(); (got == 2) != retry {
			t.Errorf("retry %v: %d calls", retry, got)
		}
	}
}

// TestRelayIsKilled: the next one ends what was not finished as lost.
func TestRelayIsKilled(t *testing.T) {
	h := newHeld()
	w := start(t, relay.Options{}, h.serve)
	res := w.send("POST", "/", "q", "Idempotency-Key: k")
	id, in := w.first(res)
	killed := w.relay // which goes on as a process does whose store was taken away
	w.open()
	if _, err := io.ReadAll(in); err == nil {
		t.Error("the answer is whole")
	}
	w.ok(res.Body.Close())
	_, text, err := w.get("POST", "/", "q", "Idempotency-Key: k")
	if got, _ := events(text); err == nil || fmt.Sprint(got) != "[first]" {
		t.Errorf("by the key: %q, %v", text, err)
	}
	rest, text, err := w.get("GET", "/", "", "Last-Event-ID: "+id)
	if err != nil || rest.StatusCode != http.StatusBadGateway || !strings.Contains(text, "lost") {
		t.Errorf("by the id: %s %q, %v", rest.Status, text, err)
	}
	if got := w.calls.Load(); got != 1 {
		t.Errorf("%d calls", got)
	}
	killed.Close()
}

// TestLatest: a page that was reloaded reads the answer that is under way, and nothing when there is none.
func TestLatest(t *testing.T) {
	h := newHeld()
	w := start(t, relay.Options{Latest: "json:/id", LatestPath: "/chat/{key}/stream"}, h.serve)
	for _, path := range []string{"/chat/c/stream", "/chat/none/stream"} {
		if res, _, _ := w.get("GET", path, ""); res.StatusCode != http.StatusNoContent {
			t.Errorf("before: %s", res.Status)
		}
	}
	res := w.send("POST", "/chat", `{"id":"c","messages":[]}`)
	w.first(res)
	w.ok(res.Body.Close())
	again := w.send("GET", "/chat/c/stream", "")
	_, in := w.first(again)
	other, _, _ := w.get("GET", "/chat/c/stream", "", "Authorization: Bearer other")
	if other.StatusCode != http.StatusNoContent {
		t.Errorf("of another sender: %s", other.Status)
	}
	close(h.more)
	_, err := io.ReadAll(in)
	w.ok(err)
	w.ok(again.Body.Close())
	for len(w.relay.Running()) > 0 { // its end is written after it was sent
		runtime.Gosched()
	}
	if res, _, _ := w.get("GET", "/chat/c/stream", ""); res.StatusCode != http.StatusNoContent {
		t.Errorf("after the end: %s", res.Status)
	}
	if got := w.calls.Load(); got != 1 {
		t.Errorf("%d calls", got)
	}
}

// TestOtherAnswersPass untouched.
func TestOtherAnswersPass(t *testing.T) {
	w := start(t, relay.Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("Set-Cookie", "a=b")
		switch r.URL.Path {
		case "/json":
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Last-Event-Id", r.Header.Get("Last-Event-Id"))
			_, _ = io.WriteString(w, `{"a":1}`)
		case "/fails":
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, "data: no\n\n")
		case "/elsewhere":
			w.Header().Set("Location", "http://elsewhere.example/")
			w.WriteHeader(http.StatusFound)
		case "/br":
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Encoding", "br")
			_, _ = io.WriteString(w, "not really")
		}
		w.Header().Set("X-Sum", "7")
	})
	w.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, r := range []struct {
		path, header string
		status       int
		body         string
	}{
		{"/json", "Last-Event-ID: of the backend", 200, `{"a":1}`},
		{"/json", "Idempotency-Key: k", 200, `{"a":1}`},
		{"/json", "Idempotency-Key: k", 200, `{"a":1}`},
		{"/fails", "X: y", 418, "data: no\n\n"},
		{"/elsewhere", "X: y", 302, ""},
		{"/br", "X: y", 200, "not really"},
	} {
		res, text, err := w.get("POST", r.path, "", r.header)
		if err != nil || res.StatusCode != r.status || text != r.body || res.Header.Get("Stream-Location") != "" ||
			res.Trailer.Get("X-Sum") != "7" || res.Header.Get("Set-Cookie") != "a=b" {
			t.Errorf("%s: %s %q, %v %v", r.path, res.Status, text, res.Header, res.Trailer)
		}
		if strings.HasPrefix(r.header, "Last") && res.Header.Get("Last-Event-Id") != "of the backend" {
			t.Error("the backend did not get its own id")
		}
	}
	if got := w.calls.Load(); got != 6 {
		t.Errorf("%d calls", got)
	}
	if res, _, err := w.get("HEAD", "/json", ""); err != nil || res.Header.Get("Content-Type") != "application/json" {
		t.Errorf("HEAD: %v, %v", res.Header, err)
	}
	if kept := w.kept(); len(kept) != 0 {
		t.Errorf("something was recorded: %v", kept)
	}
}

// kept are the streams of the relay.
func (w *fixture) kept() (streams []reprise.StreamInfo) {
	w.Helper()
	for _, namespace := range []string{"relay:", "relay.latest:"} {
		page, err := w.log.List(w.Context(), reprise.ListQuery{Namespace: namespace, Limit: 10})
		w.ok(err)
		streams = append(streams, page.Streams...)
	}
	return streams
}

// TestNothingPrivateIsKept: neither bodies of requests nor what says who sends them, nor cookies of answers.
func TestNothingPrivateIsKept(t *testing.T) {
	w := start(t, relay.Options{Keys: []relay.Rule{"json:/id"}, Latest: "json:/id", LatestPath: "/{key}"},
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Set-Cookie", "session=hidden-cookie")
			_, _ = io.Copy(io.Discard, r.Body)
			r.Body = http.NoBody
			answer(w, r)
		})
	res, _, err := w.get("POST", "/", `{"id":"hidden-id","prompt":"hidden-prompt"}`,
		"Authorization: Bearer hidden-token", "Cookie: session=hidden-session", "X-Api-Key: hidden-key")
	w.ok(err)
	if res.Header.Get("Set-Cookie") != "session=hidden-cookie" {
		t.Errorf("the client has no cookie: %v", res.Header)
	}
	streams := w.kept()
	var kept bytes.Buffer
	for i := range streams {
		info := &streams[i]
		fmt.Fprintf(&kept, "%s %s %v\n", info.Key, info.Config.Meta, info.Config.Labels)
		s, err := w.log.Stream(t.Context(), info.Key)
		w.ok(err)
		reader, err := s.Reader(t.Context(), reprise.Earliest())
		w.ok(err)
		for {
			events, err := reader.Poll(t.Context())
			if err != nil || events.Len() == 0 {
				break
			}
			for e := range events.All() {
				fmt.Fprintf(&kept, "%s %s\n", e.Type, e.Data)
			}
		}
		w.ok(reader.Close())
	}
	text := kept.String()
	if len(streams) != 2 || strings.Contains(text, "hidden") || !strings.Contains(text, "[DONE]") {
		t.Errorf("%s", text)
	}
}

// TestCookiesOfTheSender: with names, only these say who sends a request.
func TestCookiesOfTheSender(t *testing.T) {
	w := start(t, relay.Options{Cookies: []string{"session"}}, answer)
	res, _, err := w.get("POST", "/", "x", "Cookie: session=a; seen=1")
	w.ok(err)
	for cookie, want := range map[string]int{"session=a; seen=2": 200, "session=b; seen=1": 404, "": 404} {
		if got, _, _ := w.get("GET", res.Header.Get("Location"), "", "Cookie: "+cookie); got.StatusCode != want {
			t.Errorf("%q: %s", cookie, got.Status)
		}
	}
}

// TestLines: NDJSON is read on by its bytes.
func TestLines(t *testing.T) {
	text := "{\"n\":1}\n{\"n\":2}\n{\"n\":3}"
	w := start(t, relay.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		for _, part := range strings.SplitAfter(text, "\n") {
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
		}
	})
	res, got, err := w.get("POST", "/", "")
	if err != nil || got != text {
		t.Fatalf("%q, %v", got, err)
	}
	for cut := range len(text) + 1 {
		path := fmt.Sprintf("%s?offset=%d", res.Header.Get("Location"), cut)
		if _, rest, err := w.get("GET", path, ""); err != nil || text[:cut]+rest != text {
			t.Errorf("from %d: %q, %v", cut, rest, err)
		}
	}
	if bad, _, _ := w.get("GET", res.Header.Get("Location")+"?offset=-1", ""); bad.StatusCode != http.StatusBadRequest {
		t.Error(bad.Status)
	}
}

// TestHeartbeats come between events, and never within one.
func TestHeartbeats(t *testing.T) {
	seen, long := make(chan bool), strings.Repeat("x", 1<<20)
	w := start(t, relay.Options{Heartbeat: time.Millisecond}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: "+long)
		_ = http.NewResponseController(w).Flush()
		time.Sleep(20 * time.Millisecond) // in which a heartbeat would come
		_, _ = io.WriteString(w, "\n\n")
		_ = http.NewResponseController(w).Flush()
		<-seen
	})
	res := w.send("POST", "/", "")
	var text strings.Builder
	for in := bufio.NewReader(res.Body); text.Len() < len(long) || !strings.HasSuffix(text.String(), "\n:\n"); {
		line, err := in.ReadString('\n')
		w.ok(err)
		text.WriteString(line)
	}
	close(seen)
	w.ok(res.Body.Close())
	if got, _ := events(text.String()); len(got) != 1 || got[0] != long {
		t.Errorf("%d events", len(got))
	}
}

// TestIDsOfTheBackend stay, and a request under the same key goes on after one of them.
func TestIDsOfTheBackend(t *testing.T) {
	w := start(t, relay.Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "id: a\ndata: 1\n\nid: b\r\ndata: 2\r\n\r\ndata: 3%s\n\n", r.Header.Get("Last-Event-ID"))
	})
	_, text, err := w.get("POST", "/", "", "Idempotency-Key: k")
	w.ok(err)
	if !strings.Contains(text, "id: a\ndata: 1\n: relay ") || !strings.Contains(text, "id: b\r\ndata: 2\r\n: relay ") {
		t.Errorf("%q", text)
	}
	for last, want := range map[string]string{"a": "[2 3]", "b": "[3]"} {
		_, rest, err := w.get("POST", "/", "", "Idempotency-Key: k", "Last-Event-ID: "+last)
		w.ok(err)
		if got, _ := events(strings.ReplaceAll(rest, "\r", "")); fmt.Sprint(got) != want {
			t.Errorf("after %s: %q", last, rest)
		}
	}
	res, _, _ := w.get("POST", "/", "", "Idempotency-Key: k", "Last-Event-ID: none")
	if res.StatusCode != http.StatusGone {
		t.Errorf("an id that no event has: %s", res.Status)
	}
}

// TestCompressedAnswer is recorded as it reads.
func TestCompressedAnswer(t *testing.T) {
	w := start(t, relay.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Encoding", "gzip")
		zipped := gzip.NewWriter(w)
		_, _ = io.WriteString(zipped, "data: 1\n\n")
		_ = zipped.Flush()
		_, _ = io.WriteString(zipped, "data: 2\n\n")
		_ = zipped.Close()
	})
	res, text, err := w.get("POST", "/", "", "Accept-Encoding: gzip")
	if got, _ := events(text); err != nil || fmt.Sprint(got) != "[1 2]" || res.Header.Get("Content-Encoding") != "" {
		t.Errorf("%q, %v %v", text, err, res.Header)
	}
}

// TestBackendIsTheRelay is told, and does not go round.
func TestBackendIsTheRelay(t *testing.T) {
	w := start(t, relay.Options{}, answer)
	var err error
	w.opts.Backend, err = url.Parse(w.url)
	w.ok(err)
	before := w.relay
	w.open()
	before.Close()
	if res, text, err := w.get("POST", "/", ""); err != nil || res.StatusCode != http.StatusLoopDetected {
		t.Errorf("%s %s, %v", res.Status, text, err)
	}
}

// TestOptionsAreChecked: each error says what is wrong.
func TestOptionsAreChecked(t *testing.T) {
	w := start(t, relay.Options{}, answer)
	for _, opts := range []relay.Options{
		{},
		{Backend: w.opts.Backend, Keys: []relay.Rule{"cookie:x"}},
		{Backend: w.opts.Backend, Keys: []relay.Rule{"json:id"}},
		{Backend: w.opts.Backend, Latest: "json:/id"},
		{Backend: w.opts.Backend, Latest: "json:/id", LatestPath: "/x"},
	} {
		if _, err := relay.Open(t.Context(), w.log, &opts); err == nil {
			t.Errorf("%+v is taken", opts)
		}
	}
	var document map[string]any
	res, text, _ := w.get("GET", "/_relay/none", "")
	if json.Unmarshal([]byte(text), &document) != nil || res.StatusCode != http.StatusNotFound {
		t.Errorf("%s %s", res.Status, text)
	}
}
