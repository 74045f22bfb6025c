package ssehttp_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/sse"
)

func typed(kind string, count int) []reprise.Event {
	events := make([]reprise.Event, count)
	for i := range events {
		events[i] = reprise.Event{Type: kind}
	}
	return events
}

// TestFilteredCursorAdvances: what is left out moves the cursor by a bare id, once a heartbeat and only if something
// was left out since the last id. A reader that comes back with it is not behind.
func TestFilteredCursorAdvances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(t, nil, nil)
		s := create(t, p.log, "s", reprise.Retention{})
		add(t, s, typed("stderr", 3)...)
		d := sse.NewDecoder(p.get(t, "/s?types=stdout,end"), nil)
		begin := time.Now()
		next := func(want string, at time.Duration) (events []sse.Event) {
			t.Helper()
			events = take(t, d, len(strings.Fields(want)))
			wantIDs(t, events, want)
			if took := time.Since(begin); took != at {
				t.Fatalf("%s after %v, want it after %v", want, took, at)
			}
			return events
		}
		next("-3", 15*time.Second)
		add(t, s, typed("stdout", 2)...)
		next("4 5", 15*time.Second)
		time.Sleep(5 * time.Second)
		add(t, s, typed("stderr", 5)...)
		bare := next("-10", 30*time.Second)
		if bare[0].ID != s.Cursor(10).String() || d.LastEventID() != bare[0].ID {
			t.Errorf("the bare id is %s, want %s", bare[0].ID, s.Cursor(10))
		}
		add(t, s, append(typed("stdout", 1), typed("stderr", 1)...)...)
		next("11", 30*time.Second)
		time.Sleep(time.Second)
		add(t, s, typed("stderr", 1)...)
		add(t, s, typed("stdout", 1)...) // its id says all that a bare one would
		next("14", 31*time.Second)
		time.Sleep(10 * time.Second)
		end(t, s)
		next("15", 41*time.Second)
		wantIDs(t, takeAll(t, p.get(t, "/s?types=end&after="+bare[0].ID)), "15")
	})
}

// TestCursorEvents: with cursors=event every block is an event.
func TestCursorEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(t, nil, nil)
		s := create(t, p.log, "s", reprise.Retention{})
		add(t, s, append(typed("a", 1), typed("b", 2)...)...)
		d := sse.NewDecoder(p.get(t, "/s?types=a&cursors=event"), nil)
		begin := time.Now()
		wantIDs(t, take(t, d, 2), "1 3")
		if took := time.Since(begin); took != 15*time.Second {
			t.Errorf("the cursor was moved after %v", took)
		}
		end(t, s)
		last := take(t, d, 1)[0]
		wantIDs(t, []sse.Event{last}, "4")
		want := `{"cursor":"` + s.Cursor(4).String() + `"}`
		if last.Type != reprise.TypeCursor || string(last.Data) != want {
			t.Errorf("the event is %s %s, want cursor %s", last.Type, last.Data, want)
		}
	})
}

// TestFilterWithoutTheEnd: who does not ask for the end event still is moved past it, and told not to come back.
func TestFilterWithoutTheEnd(t *testing.T) {
	site := newSite(t, nil, nil)
	s := create(t, site.log, "s", reprise.Retention{})
	add(t, s, typed("a", 2)...)
	add(t, s, typed("b", 2)...)
	end(t, s)
	events := takeAll(t, site.get(t, "s", "", "types=a").Body)
	wantIDs(t, events, "1 2 -5")
	if res := site.get(t, "s", events[2].ID, "types=a"); res.StatusCode != 204 {
		t.Errorf("status %d, want 204", res.StatusCode)
	}
}

// TestFilteredGap: a gap event is sent whatever is asked for, and no bare id of an event
// before the gap comes after it, which would move the reader back out of the window.
func TestFilteredGap(t *testing.T) {
	for range 50 {
		if filteredGap(t) {
			return
		}
	}
	t.Error("the reader was never held")
}

// filteredGap reports false if the reader did not need the page that was held, because that was in memory still.
func filteredGap(t *testing.T) (held bool) {
	store := newStep(t)
	log, err := reprise.Open(t.Context(), store, &reprise.Options{TailBytes: 1})
	check(t, err)
	t.Cleanup(func() { check(t, log.Close()) })
	site := serve(t, log, nil)
	s := create(t, log, "s", reprise.Retention{MaxEvents: 10})
	// Of three pages the last is in memory. The reader is held before it takes the second, until that
	// is out of the window.
	for range 3 {
		add(t, s, reprise.Event{Type: "a", Data: make([]byte, 300_000)})
	}
	store.hold(2)
	answer := make(chan *http.Response)
	go func() { answer <- site.get(t, "s", "", "types=b") }()
	<-store.reached
	add(t, s, typed("a", 10)...)
	check(t, s.Trim(t.Context(), 14)) // nothing is left
	store.release()
	d := sse.NewDecoder((<-answer).Body, nil)
	events := take(t, d, 1)
	if events[0].ID == s.Cursor(3).String() {
		return false
	}
	wantIDs(t, events, "13")
	at := s.Cursor(13).String()
	wantGap(t, events[0], at, gap{Code: "cursor_expired", Earliest: at, Tail: at, Missed: 12})
	end(t, s)
	wantIDs(t, take(t, d, 1), "-14")
	return true
}
