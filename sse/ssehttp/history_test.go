package ssehttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/sse"
)

// fillHistory appends 300 batches of 2 KB to a stream of which nothing stays in memory but the newest.
func fillHistory(tb testing.TB, log *reprise.Log) *reprise.Stream {
	tb.Helper()
	s := create(tb, log, "s", reprise.Retention{})
	for i := range 300 {
		add(tb, s, reprise.Event{Type: "message", Data: fmt.Appendf(nil, `"%02000d"`, i)})
	}
	return s
}

// TestHistoryIsWrittenInFewPieces: the events of many batches are handed to the connection together.
func TestHistoryIsWrittenInFewPieces(t *testing.T) {
	log := newLog(t, &reprise.Options{TailBytes: 1})
	end(t, fillHistory(t, log))
	w := &pieces{ResponseRecorder: httptest.NewRecorder()}
	handler(log, nil).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/s", nil))
	got := w.Body.Len()
	if events := strings.Count(w.Body.String(), "\n\n"); events != 301 {
		t.Errorf("%d events, want 301", events)
	}
	if w.count > 10 { // 6 of 128 KB, the rest of each page, and the end
		t.Errorf("%d bytes in %d pieces, want at most 10", got, w.count)
	}
}

// pieces counts the calls of Write.
type pieces struct {
	*httptest.ResponseRecorder
	count int
}

func (p *pieces) Write(b []byte) (int, error) {
	p.count++
	return p.ResponseRecorder.Write(b)
}

// TestHistoryIsNotHeldBackBySlowStore: what was read is delivered while the next page is awaited.
func TestHistoryIsNotHeldBackBySlowStore(t *testing.T) {
	store := newStep(t)
	log, err := reprise.Open(t.Context(), store, &reprise.Options{TailBytes: 1})
	check(t, err)
	t.Cleanup(func() { check(t, log.Close()) })
	s := create(t, log, "s", reprise.Retention{})
	for _, size := range []int{261_900, 500, 70_000, 70_000} { // two pages, and what is in memory
		add(t, s, reprise.Event{Type: "message", Data: make([]byte, size)})
	}
	for _, test := range []struct {
		query  string
		events int
	}{{"", 2}, {"types=message", 2}, {"types=missing", 0}} {
		store.hold(2)
		patience := time.AfterFunc(2*time.Minute, store.release)
		res := serve(t, log, nil).get(t, "s", "", test.query)
		take(t, sse.NewDecoder(res.Body, nil), test.events)
		if !patience.Stop() {
			t.Fatalf("%q: the head or the events of the first page came with the second one", test.query)
		}
		<-store.reached
		store.release()
	}
}
