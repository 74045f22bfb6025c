package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"reprise"
	"reprise/client"
	"reprise/internal/problem"
)

// G9: however often a start is sent, it is the same request.
func TestStartIsTriedAgainAsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := jsonAnswer(201, `{"id":"x","status":"running","outcome":null,"exit_code":null,"started":null,"created":"2026-11-20T09:30:00.000Z"}`)
		w := script([]byte{}, answer[:20], answer[:len(answer)-3], plain(502, "", ""), answer)
		c := w.client(t, client.Options{})
		got, err := c.Start(t.Context(),
			client.StartRequest{Argv: []string{"true"}, IdempotencyKey: "k", Timeout: client.Duration(time.Minute)})
		if err != nil || got.Status != client.StatusRunning || got.Outcome != "" || !got.Started.IsZero() {
			t.Errorf("%+v, %v", got, err)
		}
		var sent struct{ ID, Timeout string }
		if err := json.Unmarshal([]byte(w.bodies[0]), &sent); err != nil || sent.ID != "" ||
			sent.Timeout != "1m0s" {
			t.Errorf("sent %s", w.bodies[0])
		}
		for i, body := range w.bodies {
			if body != w.bodies[0] || w.request(t, i).Header.Get("Idempotency-Key") != "k" {
				t.Errorf("request %d is another: %s", i, body)
			}
		}
	})
}

// A run is started until it is followed, and then never again.
func TestRunStartsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := script([]byte{}, events(), events(text(1, "stdout", "a")), events(end(2)))
		c := w.client(t, client.Options{})
		got, err := collect(c.Run(t.Context(), client.StartRequest{ID: "x", Command: "make"}, nil))
		if err != nil || seqs(got) != "1 stdout,2 end" || *got[1].End.ExitCode != 3 {
			t.Errorf("%s, %v", seqs(got), err)
		}
		var asked []string
		for _, r := range w.requests {
			asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Accept"))
		}
		post, get := "POST /base/v1/executions text/event-stream", "GET /base/v1/executions/x/events text/event-stream"
		if diff := cmp.Diff([]string{post, post, post, get}, asked); diff != "" {
			t.Error(diff)
		}
	})
}

// A request with a key carries no id of ours, however often it is sent, and is followed under the id of the answer.
func TestKeyedRunIsFollowedUnderTheServersID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := script([]byte{}, jsonAnswer(200, `{"id":"x","key":"nightly","status":"ended"}`),
			events(text(1, "stdout", "a"), end(2)))
		c := w.client(t, client.Options{})
		request := client.StartRequest{Key: "nightly", Command: "make"}
		got, err := collect(c.Run(t.Context(), request, &client.FollowOptions{After: "tail"}))
		if err != nil || seqs(got) != "1 stdout,2 end" {
			t.Errorf("%s, %v", seqs(got), err)
		}
		var asked []string
		for _, r := range w.requests {
			asked = append(asked, r.Method+" "+r.URL.RequestURI())
		}
		post, get := "POST /base/v1/executions", "GET /base/v1/executions/x/events?gap=event"
		if diff := cmp.Diff([]string{post, post, get}, asked); diff != "" {
			t.Error(diff)
		}
		for _, body := range w.bodies[:2] {
			if body != `{"key":"nightly","command":"make"}` {
				t.Errorf("sent %s", body)
			}
		}
	})
}

func TestSignalIsNotSentTwice(t *testing.T) {
	for name, tt := range map[string]struct {
		responses [][]byte
		requests  int
		ok        bool
	}{
		"lost answer":       {[][]byte{{}, plain(204, "", "")}, 1, false},
		"proxy's error":     {[][]byte{plain(502, "", ""), plain(204, "", "")}, 1, false},
		"refused for now":   {[][]byte{problemAnswer(429, "", "rate_limited", true), plain(204, "", "")}, 2, true},
		"cut off by a stop": {[][]byte{problemAnswer(503, "", "shutting_down", true), plain(204, "", "")}, 1, false},
		"refused for good":  {[][]byte{problemAnswer(409, "", "stream_ended", false)}, 1, false},
		"done the first go": {[][]byte{plain(204, "", "")}, 1, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := script(tt.responses...)
			err := w.client(t, client.Options{}).Signal(t.Context(), "x", "INT")
			if (err == nil) != tt.ok || w.count() != tt.requests || w.bodies[0] != `{"signal":"INT"}` {
				t.Errorf("%s: %v after %d requests", name, err, w.count())
			}
		})
	}
}

func TestCallsGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := &wire{answer: func(int, *http.Request) ([]byte, bool) { return nil, true }}
		begun := time.Now()
		_, err := silent.client(t, client.Options{Timeout: time.Second}).Show(t.Context(), "x")
		if failure, ok := errors.AsType[*client.Error](err); !ok || !client.Retryable(err) || failure.Tries < 3 {
			t.Errorf("%v", err)
		}
		if took := time.Since(begun); took > 32*time.Second { // the first and the last try take a second each
			t.Errorf("took %v", took)
		}
		begun = time.Now()
		impatient := client.Options{Timeout: time.Second, GiveUpFirst: 4 * time.Second}
		_, err = silent.client(t, impatient).Show(t.Context(), "x")
		if took := time.Since(begun); err == nil || took > 6*time.Second {
			t.Errorf("a server that was never met: %v after %v", err, took)
		}
		refusal := problemAnswer(404, "", "not_found", false)
		once := &wire{answer: func(n int, _ *http.Request) ([]byte, bool) {
			if n > 0 {
				return nil, true
			}
			return refusal, false
		}}
		met := once.client(t, impatient)
		_, _ = met.Show(t.Context(), "x")
		begun = time.Now()
		_, err = met.Show(t.Context(), "x")
		if took := time.Since(begun); err == nil || took < 10*time.Second {
			t.Errorf("a server that was met: %v after %v", err, took)
		}
		w := script(problemAnswer(503, "", "store_unavailable", true))
		_, err = w.client(t, client.Options{GiveUp: -1}).Show(t.Context(), "x")
		if !errors.Is(err, reprise.ErrUnavailable) || w.count() != 1 {
			t.Errorf("%v after %d requests", err, w.count())
		}
	})
}

// A network that times out says that it is context.DeadlineExceeded. It is tried again all the same.
func TestNetworkTimeoutsPass(t *testing.T) {
	tries := 0
	slow := roundTrip(func(r *http.Request) (*http.Response, error) {
		if tries++; tries > 1 {
			return nil, problem.New(problem.CodeNotFound, "")
		}
		_, err := (&net.Dialer{Timeout: time.Nanosecond}).DialContext(r.Context(), "tcp", "127.0.0.1:1")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the network said %v", err)
		}
		return nil, err
	})
	c, err := client.New(&client.Options{
		URL:        "http://reprise.test",
		MinWait:    time.Millisecond,
		HTTPClient: &http.Client{Transport: slow, Timeout: time.Nanosecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Show(t.Context(), "x"); !errors.Is(err, reprise.ErrNotFound) || tries != 2 {
		t.Errorf("%v after %d tries", err, tries)
	}
}

func TestCallsReadAndWriteTheContract(t *testing.T) {
	list := jsonAnswer(200, `{"executions":[],"streams":[],"sessions":[],"next_cursor":"n"}`)
	one := jsonAnswer(200, `{"id":"x","name":"x","ticket":"t"}`)
	for _, tt := range []struct {
		answer []byte
		call   func(*testing.T, *client.Client) error
		want   string
	}{
		{list, func(t *testing.T, c *client.Client) error {
			got, err := c.List(t.Context(), client.ExecutionQuery{
				Session: "s", Status: "ended", Labels: map[string]string{"b": "=", "a": "1"}, Limit: 5, Cursor: "c",
			})
			if got.NextCursor != "n" {
				t.Errorf("%+v", got)
			}
			return err
		}, "GET /base/v1/executions?cursor=c&label=a%3D1&label=b%3D%3D&limit=5&session=s&status=ended "},
		{
			one, func(t *testing.T, c *client.Client) error { _, err := c.Show(t.Context(), "a/b"); return err },
			"GET /base/v1/executions/a%2Fb ",
		},
		{
			plain(204, "", ""), func(t *testing.T, c *client.Client) error { return c.Cancel(t.Context(), "x") },
			"POST /base/v1/executions/x/cancel ",
		},
		{
			plain(204, "", ""), func(t *testing.T, c *client.Client) error { return c.Remove(t.Context(), "x") },
			"DELETE /base/v1/executions/x ",
		},
		{one, func(t *testing.T, c *client.Client) error {
			_, err := c.CreateStream(t.Context(), "x",
				client.StreamConfig{Retention: client.Retention{MaxEvents: 5, MaxAge: client.Duration(time.Hour)}})
			return err
		}, `PUT /base/v1/streams/x {"retention":{"max_events":5,"max_age":"1h0m0s"}}`},
		{
			one, func(t *testing.T, c *client.Client) error { _, err := c.ShowStream(t.Context(), "x"); return err },
			"GET /base/v1/streams/x ",
		},
		{
			list,
			func(t *testing.T, c *client.Client) error { _, err := c.ListStreams(t.Context(), 0, ""); return err },
			"GET /base/v1/streams ",
		},
		{
			plain(204, "", ""), func(t *testing.T, c *client.Client) error { return c.RemoveStream(t.Context(), "x") },
			"DELETE /base/v1/streams/x ",
		},
		{
			list,
			func(t *testing.T, c *client.Client) error { _, err := c.ListSessions(t.Context(), 2, "c"); return err },
			"GET /base/v1/sessions?cursor=c&limit=2 ",
		},
		{
			one, func(t *testing.T, c *client.Client) error { _, err := c.ShowSession(t.Context(), "x"); return err },
			"GET /base/v1/sessions/x ",
		},
		{
			plain(204, "", ""),
			func(t *testing.T, c *client.Client) error { return c.RemoveSession(t.Context(), "x") },
			"DELETE /base/v1/sessions/x ",
		},
		{one, func(t *testing.T, c *client.Client) error {
			got, err := c.Ticket(t.Context(), client.TicketRequest{Stream: "x", TTL: client.Duration(time.Minute)})
			if got.Ticket != "t" {
				t.Errorf("%+v", got)
			}
			return err
		}, `POST /base/v1/tickets {"stream":"x","ttl":"1m0s"}`},
	} {
		w := script(tt.answer)
		if err := tt.call(t, w.client(t, client.Options{})); err != nil {
			t.Errorf("%s: %v", tt.want, err)
		}
		if got := w.request(t, 0).Method + " " + w.request(t, 0).RequestURI + " " + w.bodies[0]; got != tt.want {
			t.Errorf("sent %s, want %s", got, tt.want)
		}
	}
}

func TestPageDecodesEvents(t *testing.T) {
	w := script(jsonAnswer(200, `{"events":[
		{"seq":1,"cursor":"c1","time":"2026-11-20T09:30:00.000Z","type":"stdout","text":"a"},
		{"seq":2,"cursor":"c2","time":"2026-11-20T09:30:00.000Z","type":"note","data":[1]},
		{"seq":3,"cursor":"c3","time":"2026-11-20T09:30:00.000Z","type":"end","outcome":"completed","data":{"n":1}}
	],"next_cursor":"c3","has_more":false,"ended":true,"window":{"earliest":"e","tail":"c3"}}`))
	page, err := w.client(t, client.Options{}).PageStream(t.Context(), "x",
		&client.PageOptions{After: "c0", Limit: 3, Wait: time.Second, Types: []string{"a", "b"}})
	if err != nil || !page.Ended || page.NextCursor != "c3" || page.Window.Tail != "c3" ||
		seqs(page.Events) != "1 stdout,2 note,3 end" {
		t.Fatalf("%+v, %v", page, err)
	}
	if page.Events[1].Cursor != "c2" || string(page.Events[1].Data) != "[1]" ||
		string(page.Events[2].End.Data) != `{"n":1}` {
		t.Errorf("%+v", page.Events)
	}
	if uri := w.request(t, 0).RequestURI; uri != "/base/v1/streams/x/events?after=c0&limit=3&types=a%2Cb&wait=1s" {
		t.Error(uri)
	}
}

// A writer gives the command each byte once, though answers are lost after the
// server has taken all or some of what was sent.
func TestStdinWriterOverLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var taken bytes.Buffer
		open := true
		w := &wire{}
		w.answer = func(i int, r *http.Request) ([]byte, bool) {
			offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
			body := w.bodies[i]
			if i%4 == 1 {
				body = body[:len(body)/2] // a body that was cut off
			}
			taken.WriteString(body[min(taken.Len()-offset, len(body)):]) // what is known is passed over
			open = open && r.URL.Query().Get("eof") == ""
			if i%2 == 0 || i%4 == 1 && i < 3 {
				return nil, false
			}
			return jsonAnswer(200, fmt.Sprintf(`{"offset":%d,"open":%t}`, taken.Len(), open)), false
		}
		stdin := w.client(t, client.Options{}).StdinWriter(t.Context(), "x", 0)
		want := strings.Repeat("0123456789abcdef", 1<<17) // 2 MiB: more than one chunk
		n, err := io.WriteString(stdin, want)
		if err != nil || n != len(want) || taken.String() != want {
			t.Errorf("wrote %d, %v; the command has %d bytes", n, err, taken.Len())
		}
		if err := stdin.Close(); err != nil || open {
			t.Errorf("closed: %v, open %t", err, open)
		}
		if _, err := stdin.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("a write after Close: %v", err)
		}
	})
}

// G9: after a write of which the command may have some bytes, other bytes would be skipped.
func TestStdinWriterRefusesOtherBytesAfterFailedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(n int) []byte { return jsonAnswer(200, fmt.Sprintf(`{"offset":%d,"open":true}`, n)) }
		w := script(plain(503, "Retry-After: 100\r\n", ""), at(4), problemAnswer(409, "", "conflict", false), at(6),
			problemAnswer(500, "", "internal", false), at(60))
		stdin := w.client(t, client.Options{}).StdinWriter(t.Context(), "x", 0)
		errAny := errors.New("any error")
		for _, step := range []struct {
			data string
			n    int
			want error
		}{
			{"one", 0, errAny},
			{"two", 0, reprise.ErrInvalid},
			{"on", 0, reprise.ErrInvalid},
			{"one,", 4, nil},
			{"x", 0, reprise.ErrConflict}, // a refusal is not in doubt
			{"20", 2, nil},
			{"x", 0, errAny}, // a server that fails may have taken it
			{"y", 0, reprise.ErrInvalid},
			{"x", 0, client.ErrProtocol}, // another writer was faster
			{"y", 0, reprise.ErrInvalid},
		} {
			n, err := io.WriteString(stdin, step.data)
			if n != step.n || !errors.Is(err, step.want) && (step.want != errAny || err == nil) {
				t.Errorf("write %q: %d, %v", step.data, n, err)
			}
		}
		if len(w.requests) != 6 {
			t.Errorf("%d requests, want 6", len(w.requests))
		}
	})
}

// A Close that has failed can be tried again.
func TestStdinWriterClosesAfterFailedClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := script(plain(503, "Retry-After: 100\r\n", ""), jsonAnswer(200, `{"offset":0,"open":false}`))
		stdin := w.client(t, client.Options{}).StdinWriter(t.Context(), "x", 0)
		if err := stdin.Close(); err == nil {
			t.Error("closed without an answer")
		}
		for range 2 {
			if err := stdin.Close(); err != nil {
				t.Error(err)
			}
		}
		if len(w.requests) != 2 {
			t.Errorf("%d requests, want 2", len(w.requests))
		}
	})
}

// G9: a server that fails with 500 may have appended what it was given, so that the next publish has other numbers.
func TestFailedServerFencesProducer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ok := jsonAnswer(200, `{"first":1,"last":1,"cursor":"c"}`)
		w := script(problemAnswer(500, "", "internal", false), ok)
		p := w.client(t, client.Options{}).Producer("notes")
		for i := range 2 {
			_, err := p.Publish(t.Context(), client.NewEvent{Data: json.RawMessage("1")})
			if (err != nil) != (i == 0) {
				t.Errorf("publish %d: %v", i, err)
			}
		}
		if got := w.request(t, 1).Header.Get("Producer-Epoch"); got != "1" {
			t.Errorf("the epoch after the failure is %s", got)
		}
	})
}

// G9: a publish whose answer was lost is sent with the same number; one that nobody
// knows the fate of is fenced off from the next.
func TestProducerNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ok := jsonAnswer(200, `{"first":1,"last":1,"cursor":"c"}`)
		lost := []byte{}
		w := script(ok, lost, ok, problemAnswer(400, "", "invalid", false), ok,
			plain(503, "Retry-After: 100\r\n", ""), ok, ok)
		p := w.client(t, client.Options{}).Producer("notes")
		for i, wantErr := range []bool{false, false, true, false, true, false} {
			_, err := p.Publish(t.Context(), client.NewEvent{Data: json.RawMessage(strconv.Itoa(i))})
			if (err != nil) != wantErr {
				t.Errorf("publish %d: %v", i, err)
			}
		}
		if _, err := p.End(t.Context(), "completed", nil); err != nil {
			t.Error(err)
		}
		var numbers []string
		for i, r := range w.requests {
			if r.Header.Get("Producer-Id") != w.requests[0].Header.Get("Producer-Id") {
				t.Errorf("request %d is of another producer", i)
			}
			numbers = append(numbers, r.Header.Get("Producer-Epoch")+"."+r.Header.Get("Producer-Seq")+" "+w.bodies[i])
		}
		event := func(i int) string { return fmt.Sprintf(`{"events":[{"data":%d}]}`, i) }
		want := []string{
			"0.0 " + event(0), "0.1 " + event(1), "0.1 " + event(1), "0.2 " + event(2), "0.2 " + event(3),
			"0.3 " + event(4), "1.0 " + event(5), `1.1 {"outcome":"completed"}`,
		}
		if diff := cmp.Diff(want, numbers); diff != "" {
			t.Error(diff)
		}
	})
}

// G9: an attempt whose answer was lost may have published; that the next one is refused says nothing of it.
func TestRefusalAfterLostAnswerFencesProducer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ok := jsonAnswer(200, `{"first":1,"last":1,"cursor":"c"}`)
		w := script([]byte{}, problemAnswer(401, "", "unauthenticated", false), ok)
		p := w.client(t, client.Options{}).Producer("notes")
		_, err := p.Publish(t.Context(), client.NewEvent{Data: json.RawMessage("1")})
		if given, ok := errors.AsType[*client.Error](err); !ok || given.Tries != 2 || client.Retryable(err) {
			t.Errorf("refused: %v", err)
		}
		if _, err := p.Publish(t.Context(), client.NewEvent{Data: json.RawMessage("2")}); err != nil {
			t.Error(err)
		}
		for i, want := range []string{"0", "0", "1"} {
			if got := w.request(t, i).Header.Get("Producer-Epoch"); got != want {
				t.Errorf("request %d: epoch %s, want %s", i, got, want)
			}
		}
	})
}

func TestPublishBytes(t *testing.T) {
	w := script(jsonAnswer(200, `{"first":1,"last":1,"cursor":"c","duplicate":true}`))
	got, err := w.client(t, client.Options{}).Producer("notes").PublishBytes(t.Context(), "blob", []byte{0, 255})
	r := w.request(t, 0)
	if err != nil || !got.Duplicate || w.bodies[0] != "\x00\xff" || r.URL.RawQuery != "type=blob" ||
		r.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("%+v, %v, %s", got, err, r.RequestURI)
	}
}

func TestNewFindsServerAndToken(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	t.Setenv("REPRISE_TOKEN", "")
	t.Setenv("REPRISE_URL", "")
	if err := os.MkdirAll(filepath.Join(state, "reprise"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "reprise", "token"), []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ envURL, envToken, url, token, wantURL, want string }{
		{"", "", "", "", client.DefaultURL, "Bearer from-file"},
		{"", "from-env", "", "", client.DefaultURL, "Bearer from-env"},
		{"", "from-env", "", "given", client.DefaultURL, "Bearer given"},
		{"https://far.example.org/x/", "", "", "", "https://far.example.org/x", ""}, // not for others
		{"https://far.example.org", "", "http://[::1]:1", "", "http://[::1]:1", "Bearer from-file"},
		{"", "", "", "-", client.DefaultURL, ""},
	} {
		t.Setenv("REPRISE_URL", tt.envURL)
		t.Setenv("REPRISE_TOKEN", tt.envToken)
		var got *http.Request
		c, err := client.New(&client.Options{
			URL:   tt.url,
			Token: tt.token,
			HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				got = r
				return nil, problem.New(problem.CodeForbidden, "")
			})},
		})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Show(t.Context(), "x")
		if c.URL() != tt.wantURL || got.Header.Get("Authorization") != tt.want {
			t.Errorf("%+v: %s, %q", tt, c.URL(), got.Header.Get("Authorization"))
		}
	}
	for _, o := range []client.Options{
		{URL: "ftp://x"}, {URL: "http://"}, {URL: "http://x?a=b"}, {URL: "::"}, {Token: "a\nb"},
	} {
		if _, err := client.New(&o); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
