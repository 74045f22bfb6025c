package ssehttp_test

import (
	"fmt"
	"net/http"
	"testing"

	"reprise"
	"reprise/internal/problem"
	"reprise/internal/shared"
	"reprise/sse"
	"reprise/store/memstore"
)

// failover is a site on a store of which a promotion can lose the newest events.
type failover struct {
	*site
	hub *shared.Hub
	s   *reprise.Stream
}

// newFailover makes the stream "s" with ten events, one a batch.
func newFailover(t *testing.T, r reprise.Retention) *failover {
	t.Helper()
	hub := shared.New(memstore.New(nil))
	store := hub.Store()
	log, err := reprise.Open(t.Context(), store, nil)
	check(t, err)
	t.Cleanup(func() {
		check(t, log.Close())
		check(t, store.Close())
	})
	f := &failover{site: serve(t, log, nil), hub: hub, s: create(t, log, "s", r)}
	for i := range 10 {
		add(t, f.s, text(fmt.Sprint(i+1)))
	}
	return f
}

func (f *failover) lose(t *testing.T, keep uint64) {
	t.Helper()
	check(t, f.hub.Lose(t.Context(), f.s.Key(), keep))
}

// TestForkOverHTTP (G1): after a promotion that lost events 7 to 10 a cursor of the epoch before is exact up to the
// fork. One beyond it is refused with the fork, or is told of it by a gap event after which the stream goes on from
// the fork. cursor_ahead is for the current epoch alone, before and after the first append that follows the loss.
func TestForkOverHTTP(t *testing.T) {
	for _, appended := range []int{0, 2} {
		t.Run(fmt.Sprintf("appended=%d", appended), func(t *testing.T) {
			f := newFailover(t, reprise.Retention{})
			below, beyond := f.s.Cursor(6).String(), f.s.Cursor(9).String()
			f.lose(t, 6)
			for i := range appended {
				add(t, f.s, text(fmt.Sprint("new ", i)))
			}
			tail := uint64(6 + appended)

			p := wantProblem(t, f.get(t, "s", beyond), 410, problem.CodeEpochChanged)
			if p.Fork != f.s.Cursor(6).String() || p.Earliest != f.s.Cursor(0).String() ||
				p.Tail != f.s.Cursor(tail).String() {
				t.Errorf("the refusal is %+v", p)
			}
			ahead := f.s.Cursor(tail + 1).String()
			wantProblem(t, f.get(t, "s", ahead), 409, problem.CodeCursorAhead)

			end(t, f.s)
			fromBelow := ids(takeAll(t, f.get(t, "s", below).Body))
			if want := ids(takeAll(t, f.get(t, "s", p.Fork).Body)); fromBelow != want {
				t.Errorf("after the old cursor of the fork come the events %q, after the new one %q", fromBelow, want)
			}
			want := map[int]string{0: "6 7", 2: "6 7 8 9"}[appended]
			events := takeAll(t, f.get(t, "s", beyond, "gap=event").Body)
			wantIDs(t, events, want)
			wantGap(t, events[0], p.Fork, gap{
				Code: "epoch_changed", Earliest: f.s.Cursor(0).String(), Tail: f.s.Cursor(tail + 1).String(),
				Fork: p.Fork, TakenBack: 3,
			})
			events = takeAll(t, f.get(t, "s", f.s.Cursor(tail+2).String(), "gap=event").Body)
			earliest := f.s.Cursor(0).String()
			wantGap(t, events[0], earliest,
				gap{Code: "cursor_ahead", Earliest: earliest, Tail: f.s.Cursor(tail + 1).String()})
			if len(events) != int(tail)+2 {
				t.Errorf("%d events after the gap, want %d", len(events)-1, tail+1)
			}
		})
	}
}

// TestForkBeforeTheWindow: where the events after the fork are no longer kept, the stream goes on from the earliest
// one, and missed counts those in between.
func TestForkBeforeTheWindow(t *testing.T) {
	f := newFailover(t, reprise.Retention{MaxEvents: 5})
	asked := f.s.Cursor(9).String()
	f.lose(t, 7)
	add(t, f.s, numbered(8, 8)...) // 8 to 15, of which 11 to 15 are kept
	d := sse.NewDecoder(f.get(t, "s", asked, "gap=event").Body, nil)
	events := take(t, d, 6)
	wantIDs(t, events, "10 11 12 13 14 15")
	earliest := f.s.Cursor(10).String()
	wantGap(t, events[0], earliest, gap{
		Code: "epoch_changed", Earliest: earliest, Tail: f.s.Cursor(15).String(), Fork: f.s.Cursor(7).String(),
		Missed: 3, TakenBack: 2,
	})
}

// TestForkInMidStream (G1): readers that were sent events beyond the fork get a gap event, whether they asked for it or
// not, and go on from the fork. A reader below the fork notices nothing.
func TestForkInMidStream(t *testing.T) {
	f := newFailover(t, reprise.Retention{})
	all, filtered := f.get(t, "s", ""), f.get(t, "s", "", "types=note")
	readers := []*sse.Decoder{sse.NewDecoder(all.Body, nil), sse.NewDecoder(filtered.Body, nil)}
	for _, d := range readers {
		wantIDs(t, take(t, d, 10), "1 2 3 4 5 6 7 8 9 10")
	}
	f.lose(t, 6)
	for _, d := range readers {
		e := take(t, d, 1)[0]
		fork := f.s.Cursor(6).String() // the epoch has changed by now
		wantGap(t, e, fork, gap{
			Code: "epoch_changed", Earliest: f.s.Cursor(0).String(), Tail: fork, Fork: fork, TakenBack: 4,
		})
	}
	add(t, f.s, numbered(7, 2)...)
	for _, d := range readers {
		events := take(t, d, 2)
		wantIDs(t, events, "7 8")
		if events[0].ID != f.s.Cursor(7).String() {
			t.Errorf("the event after the fork has the id %s, want %s", events[0].ID, f.s.Cursor(7))
		}
	}
}

// TestHeadTellsWindowAndOutcome: every answer with events has the cursors of the window and, after the end, the
// outcome.
func TestHeadTellsWindowAndOutcome(t *testing.T) {
	site := newSite(t, nil, nil)
	s := create(t, site.log, "s", reprise.Retention{MaxEvents: 5})
	add(t, s, numbered(1, 8)...)
	want := func(res *http.Response, status int, earliest, tail uint64, outcome string) {
		t.Helper()
		got := [3]string{
			res.Header.Get("Stream-Earliest"), res.Header.Get("Stream-Tail"), res.Header.Get("Stream-Outcome"),
		}
		if res.StatusCode != status || got != [3]string{s.Cursor(earliest).String(), s.Cursor(tail).String(), outcome} {
			t.Errorf("status %d with %v, want %d with %d, %d and %q",
				res.StatusCode, got, status, earliest, tail, outcome)
		}
	}
	want(site.get(t, "s", ""), 200, 3, 8, "")
	want(site.do(t, http.MethodHead, "s", ""), 200, 3, 8, "")
	want(site.get(t, "s", s.Cursor(1).String(), "gap=event"), 200, 3, 8, "")
	end(t, s)
	want(site.get(t, "s", ""), 200, 4, 9, "completed")
	want(site.do(t, http.MethodHead, "s", s.Cursor(5).String()), 200, 4, 9, "completed")
	want(site.get(t, "s", s.Cursor(9).String()), 204, 4, 9, "completed")
}
