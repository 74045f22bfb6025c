package ssehttp_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/park"
	"reprise/internal/problem"
	"reprise/sse"
	"reprise/sse/ssehttp"
	"reprise/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a server for the streams of a Log: GET /<name of the stream>.
type site struct {
	log    *reprise.Log
	server *httptest.Server
	lot    *park.Lot // nil unless responses are parked
}

func newSite(tb testing.TB, logOptions *reprise.Options, options *ssehttp.Options) *site {
	tb.Helper()
	return serve(tb, newLog(tb, logOptions), options)
}

func serve(tb testing.TB, log *reprise.Log, options *ssehttp.Options) *site {
	s := &site{log: log, server: httptest.NewUnstartedServer(nil)}
	if parkAll {
		s.park(tb, handler(log, options))
	} else {
		s.server.Config.Handler = handler(log, options)
		s.server.Start()
	}
	tb.Cleanup(func() {
		s.server.CloseClientConnections() // readers that still follow do not keep it open
		s.server.Close()
		check(tb, s.lot.Close())
	})
	return s
}

// newLog opens a Log over memory that is closed when the test has ended.
func newLog(tb testing.TB, opts *reprise.Options) *reprise.Log {
	tb.Helper()
	store := memstore.New(nil)
	log, err := reprise.Open(tb.Context(), store, opts)
	check(tb, err)
	tb.Cleanup(func() {
		check(tb, log.Close())
		check(tb, store.Close())
	})
	return log
}

func handler(log *reprise.Log, options *ssehttp.Options) http.Handler {
	return &ssehttp.Handler{
		Stream: func(r *http.Request) (*reprise.Stream, error) {
			return log.Stream(r.Context(), named(r.URL.Path[1:]))
		},
		Options: options,
	}
}

func named(name string) reprise.StreamKey {
	return reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name}
}

func create(tb testing.TB, log *reprise.Log, name string, r reprise.Retention) *reprise.Stream {
	tb.Helper()
	s, _, err := log.Create(tb.Context(), named(name), reprise.StreamConfig{Retention: r})
	check(tb, err)
	return s
}

// get asks for a stream from a position, with further parameters as "k=v" pairs.
func (s *site) get(tb testing.TB, name, lastEventID string, query ...string) *http.Response {
	tb.Helper()
	return s.do(tb, http.MethodGet, name, lastEventID, query...)
}

func (s *site) do(tb testing.TB, method, name, lastEventID string, query ...string) *http.Response {
	tb.Helper()
	values := url.Values{}
	for _, pair := range query {
		k, v, _ := strings.Cut(pair, "=")
		values.Add(k, v)
	}
	req, err := http.NewRequestWithContext(tb.Context(), method, s.server.URL+"/"+name+"?"+values.Encode(), nil)
	check(tb, err)
	if lastEventID != "" {
		req.Header.Set(ssehttp.LastEventID, lastEventID)
	}
	res, err := s.server.Client().Do(req)
	check(tb, err)
	tb.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// take reads count blocks. Their data is copied.
func take(tb testing.TB, d *sse.Decoder, count int) []sse.Event {
	tb.Helper()
	events := make([]sse.Event, count)
	for i := range events {
		e, err := d.Next()
		if err != nil {
			tb.Fatalf("block %d of %d: %v", i+1, count, err)
		}
		events[i] = keep(e)
	}
	return events
}

// takeAll reads blocks until the response ends well.
func takeAll(tb testing.TB, r io.Reader) (events []sse.Event) {
	tb.Helper()
	d := sse.NewDecoder(r, nil)
	for {
		e, err := d.Next()
		if errors.Is(err, io.EOF) {
			return events
		}
		check(tb, err)
		events = append(events, keep(e))
	}
}

func keep(e sse.Event) sse.Event {
	if e.Data != nil {
		e.Data = []byte(string(e.Data))
	}
	return e
}

func text(s string) reprise.Event { return reprise.Event{Type: "note", Data: []byte(s)} }

// numbered are count events with the texts "<from>" and so on.
func numbered(from, count int) []reprise.Event {
	events := make([]reprise.Event, count)
	for i := range events {
		events[i] = text(fmt.Sprint(from + i))
	}
	return events
}

func add(tb testing.TB, s *reprise.Stream, events ...reprise.Event) {
	tb.Helper()
	_, err := s.Append(tb.Context(), events...)
	check(tb, err)
}

func end(tb testing.TB, s *reprise.Stream) {
	tb.Helper()
	_, err := s.End(tb.Context(), "completed",
		reprise.Event{Format: reprise.FormatMembers, Data: []byte(`{"outcome":"completed"}`)})
	check(tb, err)
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// ids are the seqs that the ids of blocks begin with, "-" for a block without data.
func ids(events []sse.Event) string {
	var out []string
	for _, e := range events {
		seq, _, _ := strings.Cut(e.ID, ".")
		if e.Data == nil {
			seq = "-" + seq
		}
		out = append(out, seq)
	}
	return strings.Join(out, " ")
}

func wantIDs(tb testing.TB, events []sse.Event, want string) {
	tb.Helper()
	if got := ids(events); got != want {
		tb.Fatalf("got the events %q, want %q", got, want)
	}
}

// wantProblem checks a refusal that came before the first byte of a stream.
func wantProblem(tb testing.TB, res *http.Response, status int, code problem.Code) problem.Problem {
	tb.Helper()
	if kind := res.Header.Get("Content-Type"); kind != problem.ContentType {
		tb.Fatalf("status %d with %q, want a problem", res.StatusCode, kind)
	}
	p := problem.Parse(res, time.Now())
	if res.StatusCode != status || p.Code != code {
		tb.Fatalf("refused with %d %s, want %d %s", res.StatusCode, p.Code, status, code)
	}
	return p
}

// lines reads a response line by line, for what a decoder does not show.
func lines(r io.Reader) *bufio.Scanner { return bufio.NewScanner(r) }
