package api_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/api"
)

// acknowledged is a line of the answer to a publish that goes on.
type acknowledged struct {
	Events uint64
	Last   uint64
	Cursor string
	Done   bool
	Error  *struct {
		Code, Detail string
		Retryable    bool
	}
}

// publication is a publish that goes on, over a connection of its own.
type publication struct {
	*fixture
	body io.WriteCloser
	res  chan *http.Response
	in   *bufio.Reader
}

// publishOn begins a publish to a stream.
func (w *fixture) publishOn(transport http.RoundTripper, url, stream string, headers ...string) *publication {
	w.Helper()
	reader, writer := io.Pipe()
	req, err := http.NewRequestWithContext(w.Context(), "POST", url+"/v1/streams/"+stream+"/events", reader)
	w.ok(err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("Accept", "application/x-ndjson")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	p := &publication{fixture: w, body: writer, res: make(chan *http.Response, 1)}
	go func() {
		res, err := transport.RoundTrip(req)
		if err != nil {
			w.Errorf("the publish: %v", err)
		}
		p.res <- res
	}()
	w.Cleanup(func() { writer.Close() })
	return p
}

func (p *publication) send(lines string) {
	p.Helper()
	_, err := io.WriteString(p.body, lines)
	p.ok(err)
}

// next reads one acknowledgement.
func (p *publication) next() (a acknowledged) {
	p.Helper()
	if p.in == nil {
		res := <-p.res
		if res == nil {
			p.FailNow()
		}
		p.Cleanup(func() { res.Body.Close() })
		if kind := res.Header.Get("Content-Type"); res.StatusCode != 200 || kind != "application/x-ndjson" {
			text, _ := io.ReadAll(res.Body)
			p.Fatalf("status %d, %s: %s", res.StatusCode, kind, text)
		}
		p.in = bufio.NewReader(res.Body)
	}
	line, err := p.in.ReadBytes('\n')
	p.ok(err)
	schema := theContract().follow("#/components/schemas/Acknowledgement")
	p.ok(theContract().validateJSON(schema, line))
	p.ok(json.Unmarshal(line, &a))
	return a
}

// until reads acknowledgements up to one of so many events, or the last one.
func (p *publication) until(events uint64) acknowledged {
	p.Helper()
	for {
		a := p.next()
		if a.Events >= events || a.Done || a.Error != nil {
			return a
		}
	}
}

// end reads the rest of the answer.
func (p *publication) end() {
	p.Helper()
	if rest, err := io.ReadAll(p.in); err != nil || len(rest) > 0 {
		p.Errorf("after the last line: %q, %v", rest, err)
	}
}

const asLinesBody = "Content-Type: application/x-ndjson"

// lineOf is an event as it is published.
func lineOf(i int) string { return fmt.Sprintf(`{"type":"note","data":%d}`+"\n", i) }

// wantNumbers checks that a stream has the numbers from 1 to count, in order.
func wantNumbers(w *fixture, s *reprise.Stream, count int) {
	w.Helper()
	reader, err := s.Reader(w.Context(), reprise.Position{})
	w.ok(err)
	defer reader.Close()
	next := 1
	for next <= count {
		run, err := reader.Next(w.Context())
		w.ok(err)
		for e := range run.All() {
			if string(e.Data) != fmt.Sprint(next) {
				w.Fatalf("event %d is %s", next, e.Data)
			}
			next++
		}
	}
	info, err := s.Info(w.Context())
	w.ok(err)
	if int(info.Tail) != count {
		w.Errorf("%d events, want %d", info.Tail, count)
	}
}

// TestPublishIsAcknowledgedWhileItGoesOn: over both versions of HTTP each line is kept and acknowledged before the
// next one is sent, and the last line comes with the end of the body.
func TestPublishIsAcknowledgedWhileItGoesOn(t *testing.T) {
	w := start(t, setup{})
	second, transport, _ := overTLS(w)
	first := &http.Transport{}
	t.Cleanup(first.CloseIdleConnections)
	for name, over := range map[string]struct {
		url       string
		transport *http.Transport
	}{"one": {w.url, first}, "two": {second, transport}} {
		s := w.stream(name)
		p := w.publishOn(over.transport, over.url, name)
		p.send("\n")
		if a := p.next(); a.Events != 0 || a.Last != 0 || a.Cursor != "" || a.Done {
			t.Errorf("a blank line at the beginning: %+v", a)
		}
		for i := range 20 {
			p.send(lineOf(i + 1))
			a := p.until(uint64(i + 1))
			if want := s.Cursor(uint64(i + 1)).String(); a.Last != uint64(i+1) || a.Cursor != want || a.Done {
				t.Fatalf("%s: %+v, want %s", name, a, want)
			}
		}
		p.send("\r\n \n")
		if a := p.next(); a.Events != 20 || a.Last != 20 {
			t.Errorf("a blank line: %+v", a)
		}
		p.send(lineOf(21) + "\n" + strings.TrimSuffix(lineOf(22), "\n"))
		w.ok(p.body.Close())
		for a := p.next(); ; a = p.next() {
			if a.Done {
				if a.Events != 22 || a.Last != 22 || a.Error != nil {
					t.Errorf("%s: %+v", name, a)
				}
				break
			}
		}
		p.end()
		wantNumbers(w, s, 22)
	}
}

// TestPublishWithoutAskingIsOneAnswer: lines that do not ask for acknowledgements are all kept or none, as ever.
func TestPublishWithoutAskingIsOneAnswer(t *testing.T) {
	w := start(t, setup{})
	w.stream("s")
	for _, accept := range []string{
		"Accept: ", "Accept: */*", "Accept: application/json", "Accept: text/html",
		"Accept: application/json, application/x-ndjson;q=0.5",
	} {
		a := w.do("POST", "/v1/streams/s/events", lineOf(1)+lineOf(2), asLinesBody, accept).is(200)
		if a.number("last") != a.number("first")+1 {
			t.Errorf("%s: %s", accept, a.body)
		}
		w.do("POST", "/v1/streams/s/events", lineOf(1)+"{\n", asLinesBody, accept).refused(400, "invalid")
	}
	for _, kind := range []string{"application/json", "text/plain"} {
		a := w.do("POST", "/v1/streams/s/events", lineOf(1), "Content-Type: "+kind, asLines).is(200)
		if a.text("cursor") == "" || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s", kind, a.body)
		}
	}
	done := w.do("POST", "/v1/streams/s/events", "\n"+lineOf(1), asLinesBody,
		"Accept: application/json;q=0.5, application/x-ndjson").is(200)
	if !strings.HasSuffix(done.body, `"done":true}`+"\n") {
		t.Errorf("asked for by weight: %s", done.body)
	}
}

// TestPublishThatIsWrong: what is wrong has its code, before anything is kept as a status and later as the last line,
// and all lines before it are kept.
func TestPublishThatIsWrong(t *testing.T) {
	w := start(t, setup{api: api.Options{MaxBody: 2000}})
	long := `{"data":"` + strings.Repeat("x", 2000) + `"}` + "\n"
	for name, tt := range map[string]struct {
		line, code, detail string
		status             int
	}{
		"json":       {"{\"data\":}\n", "invalid", "line ", 400},
		"utf8":       {"{\"data\":\"\xff\"}\n", "invalid", "line ", 400},
		"member":     {`{"dat":1}` + "\n", "invalid", "line ", 422},
		"reserved":   {`{"type":"end"}` + "\n", "invalid", "event ", 400},
		"long":       {long, "payload_too_large", "line ", 413},
		"endless":    {strings.TrimSpace(long), "payload_too_large", "line ", 413},
		"unfinished": {`{"data":`, "invalid", "line ", 400},
	} {
		s := w.stream(name)
		path := "/v1/streams/" + name + "/events"
		headers := []string{asLinesBody, asLines}
		a := w.do("POST", path, tt.line+lineOf(1), headers...).refused(tt.status, tt.code)
		if !strings.Contains(a.text("detail"), tt.detail+"1: ") {
			t.Errorf("%s: %s", name, a.body)
		}
		var good strings.Builder
		for i := range 100 {
			good.WriteString(lineOf(i + 1))
		}
		res := w.do("POST", path, good.String()+tt.line, headers...).is(200)
		lines := strings.Split(strings.TrimSpace(res.body), "\n")
		var last acknowledged
		w.ok(json.Unmarshal([]byte(lines[len(lines)-1]), &last))
		if last.Events != 100 || last.Last != 100 || last.Done || last.Error == nil || last.Error.Code != tt.code ||
			!strings.Contains(last.Error.Detail, tt.detail+"101: ") {
			t.Errorf("%s: %+v", name, lines[len(lines)-1])
		}
		wantNumbers(w, s, 100)
	}
	w.do("POST", "/v1/streams/none/events", lineOf(1), asLinesBody, asLines).
		refused(404, "not_found")
	w.do("POST", "/v1/streams/json/events?type=x", lineOf(1), asLinesBody, asLines).refused(400, "invalid")
}

// TestPublishEndsWithTheStream: the end of the stream is the last line, and so is a quota that is used up.
func TestPublishEndsWithTheStream(t *testing.T) {
	w := start(t, setup{})
	s := w.stream("s")
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	p := w.publishOn(transport, w.url, "s")
	p.send(lineOf(1))
	p.until(1)
	last := reprise.Event{Data: []byte(`{"outcome":"completed"}`), Format: reprise.FormatMembers}
	_, err := s.End(t.Context(), "completed", last)
	w.ok(err)
	p.send(lineOf(2))
	if a := p.next(); a.Error == nil || a.Error.Code != "stream_ended" || a.Error.Retryable || a.Events != 1 {
		t.Errorf("%+v", a)
	}
	p.end()
}

// TestPublishAtShutdown: who publishes is told to go on elsewhere, with what is kept, and the server does not wait.
func TestPublishAtShutdown(t *testing.T) {
	w := start(t, setup{})
	w.stream("s")
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	p := w.publishOn(transport, w.url, "s")
	p.send(lineOf(1))
	p.until(1)
	w.server.Drain()
	if a := p.next(); a.Error == nil || a.Error.Code != "shutting_down" || !a.Error.Retryable || a.Events != 1 {
		t.Errorf("%+v", a)
	}
	p.end()
}

// TestPublishEndsWithTheKey: a key that is revoked ends what is under way.
func TestPublishEndsWithTheKey(t *testing.T) {
	w := start(t, setup{})
	w.stream("s")
	added := w.do("POST", "/v1/keys", `{"name":"ci","scopes":["publish"]}`).is(201)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	p := w.publishOn(transport, w.url, "s", "Authorization: Bearer "+added.text("key"))
	p.send(lineOf(1))
	p.until(1)
	w.do("DELETE", "/v1/keys/"+added.text("id"), "").is(204)
	if a := p.next(); a.Error == nil || a.Error.Code != "unauthenticated" || a.Error.Retryable {
		t.Errorf("%+v", a)
	}
	p.end()
	reader := w.do("POST", "/v1/keys", `{"name":"reader","scopes":["read"]}`).is(201)
	w.do("POST", "/v1/streams/s/events", lineOf(1), asLinesBody, asLines,
		"Authorization: Bearer "+reader.text("key")).refused(403, "forbidden")
}

// bubblePublish begins a publish over a pipe of a bubble. A write to it returns when the server has read it.
func bubblePublish(t *testing.T, log *reprise.Log, l *pipeListener) (*reprise.Stream, net.Conn) {
	t.Helper()
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s"}
	s, _, err := log.Create(t.Context(), key, reprise.StreamConfig{})
	if err != nil {
		t.Fatal(err)
	}
	conn := l.dial()
	fmt.Fprint(conn, "POST /v1/streams/s/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"+
		"Accept: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")
	return s, conn
}

// chunk is text as a chunk of HTTP/1.
func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

// TestPublishThatPausesIsGivenUp: a body that brings nothing is given up, and one with blank lines is not. A line that
// has not ended by then is no event.
func TestPublishThatPausesIsGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, log *reprise.Log, l *pipeListener) {
		s, conn := bubblePublish(t, log, l)
		defer conn.Close()
		begin := time.Now()
		fmt.Fprint(conn, chunk(lineOf(1)))
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(res.Body)
		next := func() (a acknowledged) {
			t.Helper()
			if !lines.Scan() {
				t.Fatal("no acknowledgement", lines.Err())
			}
			if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
				t.Fatal(err)
			}
			return a
		}
		if a := next(); a.Events != 1 {
			t.Errorf("%+v", a)
		}
		for range 10 {
			time.Sleep(29 * time.Second) // of the bubble
			fmt.Fprint(conn, chunk("\n"))
			if a := next(); a.Error != nil || a.Events != 1 {
				t.Fatalf("%+v", a)
			}
		}
		fmt.Fprint(conn, chunk(`{"data":2}`))
		a := next()
		if a.Error == nil || a.Error.Code != "invalid" || !a.Error.Retryable || a.Events != 1 {
			t.Errorf("%+v", a)
		}
		if took := time.Since(begin); took != 320*time.Second {
			t.Errorf("given up after %v", took)
		}
		if info, err := s.Info(t.Context()); err != nil || info.Tail != 1 {
			t.Errorf("%d events, %v", info.Tail, err)
		}
	})
}

// TestPublishIsBoundedByItsReader: of a client that never reads what is acknowledged no more is taken after a while,
// and it is given up; some MiB are thrown away then.
func TestPublishIsBoundedByItsReader(t *testing.T) {
	inBubble(t, func(t *testing.T, log *reprise.Log, l *pipeListener) {
		s, conn := bubblePublish(t, log, l)
		defer conn.Close()
		begin := time.Now()
		block := chunk(strings.Repeat(lineOf(7), 100))
		sent := 0
		for {
			if _, err := fmt.Fprint(conn, block); err != nil {
				break
			}
			sent += 100
		}
		if took := time.Since(begin); took < 30*time.Second || took > 40*time.Second {
			t.Errorf("given up after %v", took)
		}
		info, err := s.Info(t.Context())
		if err != nil || info.Tail == 0 || int(info.Tail) > sent || sent > 300_000 {
			t.Errorf("%d events of %d that were taken, %v", info.Tail, sent, err)
		}
	})
}

// TestPublishSurvivesCuts: a client that goes on where it was acknowledged, on a connection that is cut 200 times at
// any byte of what it sends, publishes each event once.
func TestPublishSurvivesCuts(t *testing.T) {
	w := start(t, setup{})
	s := w.stream("s")
	random := rand.New(rand.NewPCG(1, 2))
	const count = 3000
	acked := 0
	for cut := 0; acked < count; cut++ {
		var lines strings.Builder
		for i := acked; i < count; i++ {
			lines.WriteString(lineOf(i + 1))
		}
		body := lines.String()
		if cut < 200 {
			body = body[:random.IntN(600)]
		}
		acked += w.publishCut(body, acked, cut >= 200, random)
	}
	wantNumbers(w, s, count)
}

// publishCut publishes a body of which the first event has a number, to the end or up to a cut. It returns how many
// events were acknowledged.
func (w *fixture) publishCut(body string, number int, whole bool, random *rand.Rand) int {
	w.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	w.ok(err)
	defer conn.Close()
	w.ok(conn.SetDeadline(time.Now().Add(2 * time.Minute)))
	fmt.Fprintf(conn, "POST /v1/streams/s/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/x-ndjson\r\nAccept: application/x-ndjson\r\nContent-Length: %d\r\n"+
		"Producer-Id: p\r\nProducer-Epoch: 0\r\nProducer-Seq: %d\r\n\r\n", token, len(body)+1, number)
	_, err = io.WriteString(conn, body)
	w.ok(err)
	if whole {
		_, err = io.WriteString(conn, "\n")
		w.ok(err)
	} else {
		switch random.IntN(3) {
		case 0: // at once
			_ = conn.(*net.TCPConn).SetLinger(0)
			return 0
		case 1:
			w.ok(conn.(*net.TCPConn).CloseWrite())
		case 2: // when something was acknowledged, if there is
			if strings.Count(body, "\n") == 0 {
				return 0
			}
		}
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	var last acknowledged
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		var a acknowledged
		if json.Unmarshal(lines.Bytes(), &a) == nil && res.StatusCode == 200 {
			last = a
		}
		if !whole && (random.IntN(2) == 0 || int(last.Events) >= strings.Count(body, "\n")) {
			break
		}
	}
	if whole && !last.Done {
		w.Fatalf("the whole body: %+v", last)
	}
	return int(last.Events)
}
