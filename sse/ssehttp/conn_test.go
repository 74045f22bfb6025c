package ssehttp

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"reprise"
	"reprise/store/memstore"
)

// brokenWriter is a response that cannot be written.
type brokenWriter struct{ *httptest.ResponseRecorder }

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken") }

// connOf is the response w to a reader of a stream with one large event.
func connOf(t *testing.T, w http.ResponseWriter, req Request, opts *Options) *conn {
	t.Helper()
	store := memstore.New(nil)
	log, err := reprise.Open(t.Context(), store, &reprise.Options{SweepEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(log.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	s, _, err := log.Create(t.Context(), reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s"},
		reprise.StreamConfig{})
	if err == nil {
		_, err = s.Append(t.Context(), reprise.Event{Type: "stderr", Data: make([]byte, 1<<19)})
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Reader(t.Context(), reprise.Position{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return newConn(w, r, req, opts)
}

// TestWhatFailedIsNotSent: Options.Sent is told of events that were written.
func TestWhatFailedIsNotSent(t *testing.T) {
	for _, broken := range []bool{false, true} {
		w := http.ResponseWriter(httptest.NewRecorder())
		if broken {
			w = brokenWriter{httptest.NewRecorder()}
		}
		sent := uint64(0)
		c := connOf(t, w, Request{}, &Options{Form: EventStream{}, Sent: func(seq uint64) { sent = seq }})
		events, err := c.Reader.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.begin()
		c.Send(events)
		if (sent == 1) == broken {
			t.Errorf("broken %t: sent is %d", broken, sent)
		}
	}
}

// TestGapEndsWhatWasLeftOut: events that a filter has left out before a gap move the cursor no more.
func TestGapEndsWhatWasLeftOut(t *testing.T) {
	c := connOf(t, httptest.NewRecorder(), Request{Types: []string{"stdout"}}, &Options{Form: EventStream{}})
	events, err := c.Reader.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.begin()
	c.Send(events)
	if c.moved != 1 {
		t.Fatalf("left out is %d", c.moved)
	}
	c.Gap(&reprise.WindowError{Reason: reprise.CursorExpired}, c.Reader.Cursor())
	if c.moved != 0 || c.move() {
		t.Error("the cursor moves to what was left out before the gap")
	}
}
