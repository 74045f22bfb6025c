package mcphttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/mcp/mcphttp"
	"reprise/store/memstore"
)

// script is a Backend that a test writes.
type script struct {
	serve            func(context.Context, *mcphttp.Exchange) error
	attach           func(*mcphttp.Session) error
	cancel, detached chan string
}

func newScript(serve func(context.Context, *mcphttp.Exchange) error) *script {
	return &script{serve: serve, cancel: make(chan string, 10), detached: make(chan string, 10)}
}

func (b *script) Serve(ctx context.Context, x *mcphttp.Exchange) error {
	if m := x.Messages[0]; m.Method == "initialize" {
		return x.Respond(m.ID, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`,
			m.ID))
	} else if m.ID == "" {
		return nil
	}
	return b.serve(ctx, x)
}

func (b *script) Cancel(_ *mcphttp.Exchange, m mcphttp.Message) { b.cancel <- string(m.Params) }

func (b *script) Attach(_ context.Context, s *mcphttp.Session, _ *http.Request) error {
	if b.attach != nil {
		return b.attach(s)
	}
	return nil
}

func (b *script) Detach(s *mcphttp.Session) { b.detached <- s.ID }

func (b *script) InputSchema(context.Context, *mcphttp.Exchange, string) (json.RawMessage, error) {
	return nil, nil
}

func respond(x *mcphttp.Exchange, result string) error {
	m := x.Messages[0]
	return x.Respond(m.ID, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result))
}

const call = `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"x"}}`

// TestBackendThatDoesNotAnswer: the client gets an error, and why.
func TestBackendThatDoesNotAnswer(t *testing.T) {
	for want, serve := range map[string]func(context.Context, *mcphttp.Exchange) error{
		"was not answered": func(context.Context, *mcphttp.Exchange) error { return nil },
		"upstream is gone": func(context.Context, *mcphttp.Exchange) error { return errors.New("upstream is gone") },
	} {
		w := newFixture(t, setup{backend: newScript(serve)})
		c := w.begin("2025-11-25")
		s := c.stream(c.post(call))
		text := s.next()
		if !strings.Contains(text, want) || !strings.Contains(text, `"id":5,"error":{"code":-32603`) {
			t.Errorf("%s", text)
		}
		s.ends()
	}
}

// TestBackendMessagesAreCheckedAndCopied: messages of a backend are checked and copied, and each request gets one
// response.
func TestBackendMessagesAreCheckedAndCopied(t *testing.T) {
	w := newFixture(t, setup{backend: newScript(func(_ context.Context, x *mcphttp.Exchange) error {
		buf := []byte("{\n\"jsonrpc\":\"2.0\",\r\n\"method\":\"notifications/x\"}")
		check(t, x.Notify(buf))
		clear(buf)
		for _, bad := range []string{"", "x", "[]", "{\n"} {
			if err := x.Notify([]byte(bad)); !errors.Is(err, reprise.ErrInvalid) {
				t.Errorf("Notify(%q): %v", bad, err)
			}
		}
		err := x.Notify([]byte(`{"x":"` + strings.Repeat("x", mcphttp.MaxMessage) + `"}`))
		if !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("a long notification: %v", err)
		}
		if err := x.Respond("6", []byte(`{}`)); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("a response to nothing: %v", err)
		}
		check(t, respond(x, `{"a":1}`))
		if err := respond(x, `{"a":2}`); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("a second response: %v", err)
		}
		if err := x.Notify([]byte(`{}`)); !errors.Is(err, reprise.ErrEnded) {
			t.Errorf("a notification after the response: %v", err)
		}
		return nil
	})})
	c := w.begin("2025-11-25")
	s := c.stream(c.post(call))
	s.want(`{"jsonrpc":"2.0","method":"notifications/x"}`, `{"a":1}`)
	s.ends()
}

// TestAskSurvivesADrop: what the server asks of the client has an id of its own in the session, survives a drop of the
// connection, and is answered once.
func TestAskSurvivesADrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, setup{backend: newScript(func(ctx context.Context, x *mcphttp.Exchange) error {
			answers := make(chan string, 10)
			check(t, x.Ask("1", []byte(`{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"a":1}}`),
				func(r []byte) { answers <- string(r) }))
			got := <-answers
			if got != `{"jsonrpc":"2.0","id":1,"result":{"b":2}}` {
				t.Errorf("answered %s", got)
			}
			time.Sleep(time.Second)
			if len(answers) > 0 {
				t.Error("answered twice")
			}
			return respond(x, `{}`)
		})})
		c := w.begin("2025-11-25")
		s := c.stream(c.post(call))
		s.prime()
		id := s.lastID
		s.drop()
		other := c.stream(c.post(strings.Replace(call, "5", "6", 1))) // asks too, under the same id of its own
		s = c.stream(c.get(id))
		first, second := s.next(), other.next()
		if idOf(first) == idOf(second) ||
			!strings.Contains(first, `"method":"sampling/createMessage","params":{"a":1}}`) {
			t.Fatalf("asked %s and %s", first, second)
		}
		for range 2 { // what is answered again is dropped
			for _, asked := range []string{second, first} {
				c.accepted(`{"jsonrpc":"2.0","id":` + idOf(asked) + `,"result":{"b":2}}`)
			}
		}
		c.accepted(`{"jsonrpc":"2.0","id":"forged","result":{}}`)
		s.want(`"id":5`)
		s.ends()
		other.want(`"id":6`)
		other.ends()
	})
}

// TestSessionMessagesGoToGetStream: messages that concern the session as a whole go to its GET stream, and wait there
// for a client that reconnects.
func TestSessionMessagesGoToGetStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := newScript(nil)
		sessions := make(chan *mcphttp.Session, 10)
		backend.attach = func(s *mcphttp.Session) error {
			sessions <- s
			return nil
		}
		w := newFixture(t, setup{backend: backend})
		c := w.begin("2025-11-25")
		whole := c.stream(c.get(""))
		whole.prime()
		s := <-sessions
		if s.Version() != "2025-11-25" || !s.Initialized() || !strings.Contains(string(s.Initialize()), `"roots"`) {
			t.Errorf("session %s %t %s", s.Version(), s.Initialized(), s.Initialize())
		}
		check(t, s.Notify([]byte(`{"jsonrpc":"2.0","method":"notifications/a"}`)))
		whole.want("notifications/a")
		whole.drop()
		synctest.Wait()
		answers := make(chan string, 1)
		check(t, s.Ask(`"q"`, []byte(`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`),
			func(r []byte) { answers <- string(r) }))
		whole = c.stream(c.get(whole.lastID))
		whole.prime()
		asked := whole.next()
		c.accepted(`{"jsonrpc":"2.0","id":` + idOf(asked) + `,"error":{"code":1,"message":"no"}}`)
		if got := <-answers; got != `{"jsonrpc":"2.0","id":"q","error":{"code":1,"message":"no"}}` {
			t.Errorf("answered %s", got)
		}
		res := c.do(c.request(http.MethodDelete, ""))
		c.text(res)
		if id := <-backend.detached; id != c.session {
			t.Errorf("detached %s", id)
		}
		if err := s.Notify([]byte(`{}`)); !errors.Is(err, reprise.ErrEnded) {
			t.Errorf("a notification to a session that has ended: %v", err)
		}
		whole.drop()
	})
}

// TestCancelNamesTheRequest.
func TestCancelNamesTheRequest(t *testing.T) {
	gate := make(chan struct{})
	backend := newScript(func(_ context.Context, x *mcphttp.Exchange) error {
		<-gate
		return respond(x, `{}`)
	})
	w := newFixture(t, setup{backend: backend})
	c := w.begin("2025-11-25")
	s := c.stream(c.post(call))
	s.prime()
	c.accepted(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`)
	c.accepted(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,"reason":"r"}}`)
	if got := <-backend.cancel; got != `{"requestId":5,"reason":"r"}` {
		t.Errorf("cancelled %s", got)
	}
	close(gate)
	s.want(`"id":5`)
	s.ends()
}

// TestJSONResponse: one message, as JSON; what else is said goes to the session as a whole.
func TestJSONResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, setup{opts: mcphttp.Options{JSONResponse: true}})
		c := w.begin("2025-03-26")
		whole := c.stream(c.get(""))
		res := c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"steps","arguments":{"n":1},"_meta":{"progressToken":"t"}}}`)
		if text := c.text(res); res.Header.Get("Content-Type") != "application/json" ||
			!strings.HasPrefix(text, `{"jsonrpc":"2.0","id":1,"result":`) {
			t.Errorf("%s", text)
		}
		whole.want(progress(1, 2)...)
		whole.drop()
		res = c.post(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`)
		var batch []json.RawMessage
		if err := json.Unmarshal([]byte(c.text(res)), &batch); err != nil || len(batch) != 2 {
			t.Errorf("%d responses, %v", len(batch), err)
		}
	})
}

// TestEndpointsApart: two endpoints of one Log know nothing of each other's sessions, and neither ends the
// other's calls.
func TestEndpointsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		defer store.Close()
		keys := reprise.NewKeyset()
		a := newFixture(t, setup{store: store, log: reprise.Options{Keys: keys}})
		ca := a.begin("2025-11-25")
		open := ca.tool("steps", toolInput{Gate: "g"})
		open.prime()
		b := newFixture(t, setup{store: store, log: reprise.Options{Keys: keys}, opts: mcphttp.Options{Name: "b"}})
		cb := ca.with(b)
		cb.refused(cb.get(""), http.StatusNotFound, "session_not_found")
		s := b.begin("2025-11-25").tool("echo", toolInput{})
		s.want(`"result"`)
		s.ends()
		time.Sleep(time.Hour)
		a.tools.release("g")
		again := ca.stream(ca.get(open.lastID))
		again.want(`"done"`)
		again.ends()
	})
}

// TestSweptStream: 410, and not the 404 that would say that the session has gone.
func TestSweptStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, setup{opts: mcphttp.Options{SessionIdle: 24 * time.Hour}})
		c := w.begin("2025-11-25")
		s := c.tool("echo", toolInput{})
		s.prime()
		s.want(`"result"`)
		s.ends()
		time.Sleep(2 * time.Hour)
		_, err := w.log.Sweep(t.Context())
		check(t, err)
		c.refused(c.get(s.lastID), http.StatusGone, "stream_expired")
	})
}

// TestSlowClientIsToldOfGapAndGetsResult: the response to a client that falls out of the window names the gap and still
// carries the result.
func TestSlowClientIsToldOfGapAndGetsResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, setup{opts: mcphttp.Options{Retention: reprise.Retention{MaxEvents: 10}}})
		c := w.begin("2025-11-25")
		s := c.tool("steps", toolInput{N: 500, Gate: "g"})
		s.prime()
		w.tools.release("g")
		synctest.Wait() // it has been said, and only a part was read
		got, gaps, last := 0, 0, ""
		for m := s.next(); m != ""; m = s.next() {
			got++
			if strings.Contains(m, "cursor_expired") {
				gaps++
			}
			last = m
		}
		if gaps == 0 || got > 900 || !strings.Contains(last, `"done"`) {
			t.Errorf("%d messages, %d gaps, the last is %s", got, gaps, last)
		}
	})
}

// TestPagesOfAllowedOrigins get the headers that a browser wants.
func TestPagesOfAllowedOrigins(t *testing.T) {
	w := newFixture(t, setup{opts: mcphttp.Options{AllowedOrigins: []string{"https://good.example"}}})
	c := w.client("")
	req := c.request(http.MethodOptions, "")
	req.Header.Set("Origin", "https://good.example")
	req.Header.Set("Access-Control-Request-Headers", "mcp-session-id")
	res := c.do(req)
	c.text(res)
	if res.StatusCode != http.StatusNoContent ||
		res.Header.Get("Access-Control-Allow-Origin") != "https://good.example" ||
		res.Header.Get("Access-Control-Allow-Headers") != "mcp-session-id" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	req = c.request(http.MethodPost, fmt.Sprintf(initialize, "2025-11-25"))
	req.Header.Set("Origin", "https://good.example")
	res = c.do(req)
	c.text(res)
	if res.Header.Get("Access-Control-Expose-Headers") != "Mcp-Session-Id, WWW-Authenticate" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
}
