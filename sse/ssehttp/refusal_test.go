package ssehttp_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"reprise"
	"reprise/internal/problem"
	"reprise/sse"
	"reprise/sse/ssehttp"
)

// refusals are the positions that cannot be read from, of a stream that keeps 4 to 8.
func refusals(t *testing.T, site *site) (s *reprise.Stream, positions map[string]refusal) {
	old := create(t, site.log, "s", reprise.Retention{MaxEvents: 5})
	add(t, old, numbered(1, 3)...)
	epochChanged := old.Cursor(2).String()
	check(t, site.log.Remove(t.Context(), named("s")))
	s = create(t, site.log, "s", reprise.Retention{MaxEvents: 5})
	add(t, s, numbered(1, 8)...)
	other := create(t, site.log, "other", reprise.Retention{})
	add(t, other, numbered(1, 8)...)
	good := s.Cursor(5).String()
	return s, map[string]refusal{
		"malformed":     {"what", 400, problem.CodeCursorMalformed, 0},
		"not ASCII":     {"5.é", 400, problem.CodeCursorMalformed, 0},
		"long":          {strings.Repeat("9", 10_000), 400, problem.CodeCursorMalformed, 0},
		"foreign":       {other.Cursor(5).String(), 400, problem.CodeCursorForeign, 0},
		"forged":        {good[:len(good)-13] + "0000000000000", 400, problem.CodeCursorForeign, 0},
		"expired":       {s.Cursor(1).String(), 410, problem.CodeCursorExpired, 2},
		"just expired":  {s.Cursor(2).String(), 410, problem.CodeCursorExpired, 1},
		"ahead":         {s.Cursor(9).String(), 409, problem.CodeCursorAhead, 0},
		"epoch changed": {epochChanged, 410, problem.CodeEpochChanged, 0},
	}
}

type refusal struct {
	position string
	status   int
	code     problem.Code
	missed   uint64
}

func TestRefusedBeforeTheFirstByte(t *testing.T) {
	site := newSite(t, nil, nil)
	s, positions := refusals(t, site)
	for name, want := range positions {
		for _, how := range []string{"header", "query"} {
			t.Run(name+" by "+how, func(t *testing.T) {
				var res *http.Response
				if how == "header" {
					res = site.get(t, "s", want.position)
				} else {
					res = site.get(t, "s", "", "after="+want.position)
				}
				p := wantProblem(t, res, want.status, want.code)
				if p.Retryable {
					t.Error("it is said to be worth a retry")
				}
				if want.status != 400 && (p.Earliest != s.Cursor(3).String() || p.Tail != s.Cursor(8).String()) {
					t.Errorf("the window is said to be %s to %s", p.Earliest, p.Tail)
				}
			})
		}
	}
	if got := info(t, s); got.Tail != 8 {
		t.Errorf("the stream has changed: %+v", got)
	}
}

func TestRefusedAsGapEvent(t *testing.T) {
	site := newSite(t, nil, nil)
	s, positions := refusals(t, site)
	end(t, s) // is event 9, so that 4 is gone and what was ahead no longer is
	for name, want := range positions {
		t.Run(name, func(t *testing.T) {
			switch want.code {
			case problem.CodeCursorExpired:
				want.missed++
			case problem.CodeEpochChanged: // of a stream that was replaced: nothing is shared
				want.missed = 4
			case problem.CodeCursorAhead:
				want.position = s.Cursor(10).String()
			}
			res := site.get(t, "s", want.position, "gap=event", "types=end")
			if want.status == http.StatusBadRequest { // a mistake, and no lost history
				wantProblem(t, res, want.status, want.code)
				return
			}
			if res.StatusCode != http.StatusOK {
				t.Fatalf("status %d", res.StatusCode)
			}
			events := takeAll(t, res.Body)
			wantIDs(t, events, "4 9")
			told := gap{
				Code: string(want.code), Missed: want.missed,
				Earliest: s.Cursor(4).String(), Tail: s.Cursor(9).String(),
			}
			if want.code == problem.CodeEpochChanged {
				told.Fork, told.TakenBack = s.Cursor(0).String(), 2
			}
			wantGap(t, events[0], told.Earliest, told)
		})
	}
}

// missed is the header with the number of events that are no longer kept.
const missed = "Stream-Missed"

// TestMissingStartIsAGapEvent: a reading from the start of a stream whose first events are gone begins with a gap event
// if the reader asks for those. A page with an EventSource sees neither the status nor the head.
func TestMissingStartIsAGapEvent(t *testing.T) {
	site := newSite(t, nil, nil)
	s := create(t, site.log, "s", reprise.Retention{MaxEvents: 5})
	add(t, s, numbered(1, 8)...)
	_, err := s.End(t.Context(), "completed", reprise.Event{})
	check(t, err)
	whole := create(t, site.log, "whole", reprise.Retention{})
	add(t, whole, numbered(1, 3)...)
	_, err = whole.End(t.Context(), "completed", reprise.Event{})
	check(t, err)
	for _, query := range [][]string{{"gap=event"}, {"gap=event", "after=0"}} {
		res := site.get(t, "s", "", query...)
		if got := res.Header.Get(missed); res.StatusCode != 200 || got != "4" {
			t.Errorf("%q: status %d, %s %q", query, res.StatusCode, missed, got)
		}
		events := takeAll(t, res.Body)
		wantIDs(t, events, "4 5 6 7 8 9")
		want := gap{
			Code: string(problem.CodeCursorExpired), Missed: 4,
			Earliest: s.Cursor(4).String(), Tail: s.Cursor(9).String(),
		}
		wantGap(t, events[0], want.Earliest, want)
		res = site.get(t, "whole", "", query...)
		if got := res.Header.Values(missed); len(got) > 0 {
			t.Errorf("nothing is missing, and the head says %q", got)
		}
		wantIDs(t, takeAll(t, res.Body), "1 2 3 4")
	}
	for _, query := range [][]string{nil, {"after=0"}, {"after=earliest"}, {"after=earliest", "gap=event"}} {
		res := site.get(t, "s", "", query...)
		if got := res.Header.Get(missed); got != "4" {
			t.Errorf("%q: %s %q", query, missed, got)
		}
		wantIDs(t, takeAll(t, res.Body), "5 6 7 8 9")
	}
}

// gap is the data of a gap event.
type gap struct {
	Code     string `json:"code"`
	Earliest string `json:"earliest"`
	Tail     string `json:"tail"`
	Fork     string `json:"fork"`

	Missed    uint64 `json:"missed"`
	TakenBack uint64 `json:"taken_back"`
}

// wantGap checks a gap event after which the stream goes on after the cursor at.
func wantGap(tb testing.TB, e sse.Event, at string, want gap) {
	tb.Helper()
	var got gap
	check(tb, json.Unmarshal(e.Data, &got))
	if e.Type != reprise.TypeGap || got != want || e.ID != at {
		tb.Fatalf("got %s with id %s and %+v, want a gap at %s with %+v", e.Type, e.ID, got, at, want)
	}
}

// TestGapInTheMiddle: a reader that falls out of the window while it follows is told so, whether it
// asked for gap events or not.
func TestGapInTheMiddle(t *testing.T) {
	site := newSite(t, nil, nil)
	s := create(t, site.log, "s", reprise.Retention{MaxEvents: 10})
	add(t, s, numbered(1, 3)...)
	d := sse.NewDecoder(site.get(t, "s", "").Body, nil)
	wantIDs(t, take(t, d, 3), "1 2 3")
	add(t, s, numbered(4, 30)...) // at once: the reader can have none of 4 to 23
	events := take(t, d, 11)
	wantIDs(t, events, "23 24 25 26 27 28 29 30 31 32 33")
	at := s.Cursor(23).String()
	wantGap(t, events[0], at, gap{Code: "cursor_expired", Earliest: at, Tail: s.Cursor(33).String(), Missed: 20})
}

func TestOtherRefusals(t *testing.T) {
	site := newSite(t, &reprise.Options{MaxReaders: 1}, nil)
	s := create(t, site.log, "s", reprise.Retention{})
	add(t, s, numbered(1, 1)...)
	wantProblem(t, site.get(t, "none", ""), 404, problem.CodeNotFound)
	wantProblem(t, site.get(t, "..", ""), 400, problem.CodeInvalid)
	for _, query := range []string{
		"gap=maybe", "cursors=maybe", "types=a,,b", "types=" + strings.Repeat("a,", 64) + "a",
	} {
		wantProblem(t, site.get(t, "s", "", query), 400, problem.CodeInvalid)
	}
	first := site.get(t, "s", "")
	p := wantProblem(t, site.get(t, "s", "", "gap=event"), 429, problem.CodeTooManyReaders)
	if !p.Retryable || p.RetryAfter == 0 {
		t.Errorf("too many readers: %+v, want a time to wait", p)
	}
	wantIDs(t, take(t, sse.NewDecoder(first.Body, nil), 1), "1")
	check(t, site.log.Close())
	wantProblem(t, site.get(t, "s", ""), 503, problem.CodeShuttingDown)
}

// TestRepeatedLastEventIDIsRefused, also with equal values (RFC 9110, section 5.3).
func TestRepeatedLastEventIDIsRefused(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/s", nil)
	r.Header["Last-Event-Id"] = []string{"1", "1"}
	if req, err := ssehttp.ParseRequest(r); !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("%+v, %v", req, err)
	}
	r.Header["Last-Event-Id"] = []string{"1"}
	if req, err := ssehttp.ParseRequest(r); err != nil || req.After != "1" {
		t.Errorf("%+v, %v", req, err)
	}
}

func info(tb testing.TB, s *reprise.Stream) reprise.StreamInfo {
	tb.Helper()
	i, err := s.Info(tb.Context())
	check(tb, err)
	return i
}

// TestGapAtTheVeryEnd: a reader that has missed even the end event is told of it, once.
func TestGapAtTheVeryEnd(t *testing.T) {
	site := newSite(t, nil, nil)
	s := create(t, site.log, "s", reprise.Retention{})
	add(t, s, numbered(1, 3)...)
	end(t, s)
	check(t, s.Trim(t.Context(), 5))
	events := takeAll(t, site.get(t, "s", s.Cursor(1).String(), "gap=event").Body)
	wantIDs(t, events, "4")
	at := s.Cursor(4).String()
	wantGap(t, events[0], at, gap{Code: "cursor_expired", Earliest: at, Tail: at, Missed: 3})
	if res := site.get(t, "s", events[0].ID, "gap=event"); res.StatusCode != http.StatusNoContent {
		t.Errorf("status %d, want 204", res.StatusCode)
	}
}
