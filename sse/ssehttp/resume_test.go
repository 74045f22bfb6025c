package ssehttp_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"reprise"
	"reprise/internal/problem"
	"reprise/sse"
	"reprise/sse/ssehttp"
)

func TestPositionsOfHeaderAndQuery(t *testing.T) {
	site := newSite(t, nil, nil)
	s := create(t, site.log, "s", reprise.Retention{})
	add(t, s, numbered(1, 5)...)
	end(t, s)
	for _, tt := range []struct {
		name, lastEventID string
		query             []string
		want              string
	}{
		{"no position", "", nil, "1 2 3 4 5 6"},
		{"empty", "", []string{"after="}, "1 2 3 4 5 6"},
		{"zero", "", []string{"after=0"}, "1 2 3 4 5 6"},
		{"earliest", "", []string{"after=earliest"}, "1 2 3 4 5 6"},
		{"before the first", "", []string{"after=" + s.Cursor(0).String()}, "1 2 3 4 5 6"},
		{"query", "", []string{"after=" + s.Cursor(2).String()}, "3 4 5 6"},
		{"header", s.Cursor(3).String(), nil, "4 5 6"},
		{"the header wins", s.Cursor(4).String(), []string{"after=" + s.Cursor(1).String()}, "5 6"},
		{"the header wins over a refused query", s.Cursor(4).String(), []string{"after=what"}, "5 6"},
		{"before the end", s.Cursor(5).String(), nil, "6"},
		{"parameters of others", "", []string{"after=" + s.Cursor(4).String(), "ticket=x"}, "5 6"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := site.get(t, "s", tt.lastEventID, tt.query...)
			if res.StatusCode != http.StatusOK {
				t.Fatalf("status %d", res.StatusCode)
			}
			wantIDs(t, takeAll(t, res.Body), tt.want)
		})
	}
}

// TestResumptionsAreTold: what came of each cursor, and how much there was to replay.
func TestResumptionsAreTold(t *testing.T) {
	var told []ssehttp.Resumption
	site := newSite(t, nil, &ssehttp.Options{Resumed: func(r ssehttp.Resumption) { told = append(told, r) }})
	s := create(t, site.log, "s", reprise.Retention{MaxEvents: 4})
	add(t, s, numbered(1, 9)...)
	end(t, s) // 7 to 10 are kept
	for _, tt := range []struct {
		name, lastEventID, query string
		told                     int
		code                     problem.Code
		gap                      bool
		events                   uint64
	}{
		{name: "no cursor"},
		{name: "earliest", query: "after=earliest"},
		{name: "a header", lastEventID: s.Cursor(8).String(), told: 1, events: 2},
		{name: "a query", query: "after=" + s.Cursor(9).String(), told: 1, events: 1},
		{name: "the end", lastEventID: s.Cursor(10).String(), told: 1},
		{name: "expired", lastEventID: s.Cursor(2).String(), told: 1, code: problem.CodeCursorExpired},
		{
			name: "a gap", lastEventID: s.Cursor(2).String(), query: "gap=event", told: 1,
			code: problem.CodeCursorExpired, gap: true, events: 4,
		},
		{name: "malformed", lastEventID: "what", told: 1, code: problem.CodeCursorMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			told = nil
			_, err := io.Copy(io.Discard, site.get(t, "s", tt.lastEventID, tt.query).Body)
			check(t, err)
			if len(told) != tt.told {
				t.Fatalf("told %v, want %d", told, tt.told)
			}
			for _, got := range told {
				code := problem.Code("")
				if got.Err != nil {
					code = problem.From(got.Err).Code
				}
				if code != tt.code || got.Gap != tt.gap || got.Events != tt.events {
					t.Errorf("told %+v", got)
				}
			}
		})
	}
}

// TestEndIsNoContent: 204 tells an EventSource not to come back.
func TestEndIsNoContent(t *testing.T) {
	site := newSite(t, nil, nil)
	s := create(t, site.log, "s", reprise.Retention{})
	add(t, s, numbered(1, 2)...)
	end(t, s)
	for _, query := range []string{"after=" + s.Cursor(3).String(), "after=tail"} {
		res := site.get(t, "s", "", query, "gap=event")
		body, err := io.ReadAll(res.Body)
		check(t, err)
		if res.StatusCode != http.StatusNoContent || len(body) > 0 {
			t.Errorf("%s: status %d with %q, want 204", query, res.StatusCode, body)
		}
	}
}

// TestReplayGoesOnLive: what was there and what comes later arrive on one connection.
func TestReplayGoesOnLive(t *testing.T) {
	site := newSite(t, nil, nil)
	s := create(t, site.log, "s", reprise.Retention{})
	add(t, s, numbered(1, 3)...)
	d := sse.NewDecoder(site.get(t, "s", "", "after="+s.Cursor(1).String()).Body, nil)
	wantIDs(t, take(t, d, 2), "2 3")
	for i := 4; i < 10; i++ {
		add(t, s, numbered(i, 1)...)
		wantIDs(t, take(t, d, 1), fmt.Sprint(i))
	}
	end(t, s)
	wantIDs(t, take(t, d, 1), "10")
	if _, err := d.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end event: %v, want the end of the response", err)
	}
}

func TestTailBeginsNow(t *testing.T) {
	site := newSite(t, nil, nil)
	s := create(t, site.log, "s", reprise.Retention{})
	add(t, s, numbered(1, 3)...)
	res := site.get(t, "s", "", "after=tail") // the head has come, so the position is taken
	add(t, s, numbered(4, 1)...)
	wantIDs(t, take(t, sse.NewDecoder(res.Body, nil), 1), "4")
}

func TestHeadAndOtherMethods(t *testing.T) {
	site := newSite(t, nil, nil)
	s := create(t, site.log, "s", reprise.Retention{})
	add(t, s, numbered(1, 3)...)
	res := site.do(t, http.MethodHead, "s", "")
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != sse.ContentType {
		t.Errorf("HEAD: %d %v", res.StatusCode, res.Header)
	}
	if res := site.do(t, http.MethodHead, "none", ""); res.StatusCode != http.StatusNotFound {
		t.Errorf("HEAD of no stream: %d", res.StatusCode)
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		res := site.do(t, method, "s", "")
		wantProblem(t, res, http.StatusMethodNotAllowed, "invalid")
		if allow := res.Header.Get("Allow"); allow != "GET, HEAD" {
			t.Errorf("%s: Allow: %q", method, allow)
		}
	}
	end(t, s)
	if res := site.do(t, http.MethodHead, "s", s.Cursor(4).String()); res.StatusCode != http.StatusNoContent {
		t.Errorf("HEAD at the end: %d", res.StatusCode)
	}
}

func TestResponseHeaders(t *testing.T) {
	site := newSite(t, nil, &ssehttp.Options{Retry: 1500 * time.Millisecond})
	end(t, create(t, site.log, "s", reprise.Retention{}))
	res := site.get(t, "s", "")
	for name, want := range map[string]string{
		"Content-Type":           "text/event-stream",
		"Cache-Control":          "no-store",
		"X-Accel-Buffering":      "no",
		"X-Content-Type-Options": "nosniff",
	} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if body, _ := io.ReadAll(res.Body); !strings.HasPrefix(string(body), "retry: 1500\nevent: end\n") {
		t.Errorf("the body is %q", body)
	}
}

// TestCutsLoseAndDoubleNothing cuts the connection after a random number of bytes, 200 times,
// while somebody appends, and resumes from what had come whole. Little is kept in memory, so that
// a response begins with events from the store and goes on with those that are in memory.
func TestCutsLoseAndDoubleNothing(t *testing.T) {
	const cuts, batches, perBatch = 200, 400, 25
	site := newSite(t, &reprise.Options{TailBytes: 16 << 10}, nil)
	s := create(t, site.log, "s", reprise.Retention{MaxEvents: 2 * batches * perBatch})
	var writer sync.WaitGroup
	defer writer.Wait()
	writer.Go(func() {
		for i := range batches {
			if _, err := s.Append(t.Context(), numbered(i*perBatch+1, perBatch)...); err != nil {
				t.Error(err)
				return
			}
		}
		if _, err := s.End(t.Context(), "completed", reprise.Event{}); err != nil {
			t.Error(err)
		}
	})
	rnd := rand.New(rand.NewPCG(1, 2))
	cursor, seq, cut := "", 0, 0
	for ; seq < batches*perBatch+1; cut++ {
		res := site.get(t, "s", cursor)
		body := io.Reader(res.Body)
		if cut < cuts {
			body = io.LimitReader(body, rnd.Int64N(10_000)) // less than a 200th, on average
		}
		d := sse.NewDecoder(body, &sse.DecoderOptions{LastEventID: cursor})
		for {
			e, err := d.Next()
			if err != nil {
				break
			}
			seq++
			wantText(t, e, seq)
		}
		cursor = d.LastEventID()
		res.Body.Close()
	}
	if cut < cuts {
		t.Errorf("only %d cuts", cut)
	}
	if res := site.get(t, "s", cursor); res.StatusCode != http.StatusNoContent {
		t.Errorf("after the end: status %d, want 204", res.StatusCode)
	}
}

// wantText checks that e is the event seq of numbered, or the end event.
func wantText(tb testing.TB, e sse.Event, seq int) {
	tb.Helper()
	text := fmt.Sprintf(`"text":"%d"}`, seq)
	if e.Type == reprise.TypeEnd {
		text = `"text":""}`
	}
	if !strings.HasPrefix(e.ID, fmt.Sprintf("%d.", seq)) || !strings.HasSuffix(string(e.Data), text) {
		tb.Fatalf("event %d has the id %s and the data %s", seq, e.ID, e.Data)
	}
}
