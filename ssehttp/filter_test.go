package ssehttp_test

import (
	"net/http"
	"testing"

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

// TestFilteredCursorAdvances: what is left out moves the cursor by a bare id, once for each row of them,
// and a reader that comes back with it is not behind.
func TestFilteredCursorAdvances(t *testing.T) {
	site := newSite(t, nil, nil)
	s := create(t, site.log, "s", reprise.Retention{})
	add(t, s, typed("stderr", 3)...)
	d := sse.NewDecoder(site.get(t, "s", "", "types=stdout,end").Body, nil)
	wantIDs(t, take(t, d, 1), "-3")
	add(t, s, typed("stdout", 2)...)
	wantIDs(t, take(t, d, 2), "4 5")
	add(t, s, typed("stderr", 5)...)
	bare := take(t, d, 1)
	wantIDs(t, bare, "-10")
	if bare[0].ID != s.Cursor(10).String() || d.LastEventID() != bare[0].ID {
		t.Errorf("the bare id is %s, want %s", bare[0].ID, s.Cursor(10))
	}
	add(t, s, append(typed("stdout", 1), typed("stderr", 1)...)...)
	wantIDs(t, take(t, d, 2), "11 -12")
	end(t, s)
	wantIDs(t, take(t, d, 1), "13")
	wantIDs(t, takeAll(t, site.get(t, "s", bare[0].ID, "types=end").Body), "13")
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
	wantIDs(t, events, "13")
	wantGap(t, events[0], gap{"cursor_expired", s.Cursor(13).String(), s.Cursor(13).String(), 12})
	end(t, s)
	wantIDs(t, take(t, d, 1), "-14")
}
