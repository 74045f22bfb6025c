package reprise_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/store/memstore"
)

// heldLookUp is a Store whose answer to one look-up of a stream comes late.
type heldLookUp struct {
	*memstore.Store
	held chan struct{} // receives when the answer is there
	pass chan struct{}
}

func (s *heldLookUp) Read(
	ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int,
) (reprise.Page, error) {
	page, err := s.Store.Read(ctx, key, after, maxBytes)
	if maxBytes == 0 && s.held != nil {
		s.held <- struct{}{}
		<-s.pass
	}
	return page, err
}

// TestSweepDuringALookUp: a stream that goes while it is being looked up does not stay in memory as
// a ghost, which Create would take for the stream that is to be made.
func TestSweepDuringALookUp(t *testing.T) {
	inner := memstore.New(nil)
	defer inner.Close()
	first, err := reprise.Open(t.Context(), inner, nil)
	check(t, err)
	s := create(t, first, "s", reprise.Retention{MaxAge: 1})
	_, err = s.End(t.Context(), "completed", reprise.Event{Time: time.Now().Add(-time.Hour)})
	check(t, err)
	check(t, first.Close())

	store := &heldLookUp{Store: inner, held: make(chan struct{}), pass: make(chan struct{})}
	log := openLog(t, store, nil)
	found := make(chan error)
	go func() {
		_, err := log.Stream(t.Context(), named("s"))
		found <- err
	}()
	<-store.held
	swept := make(chan error)
	go func() {
		_, err := log.Sweep(t.Context())
		swept <- err
	}()
	until(t, func() bool { // the sweep has come to the store
		_, err := inner.Read(t.Context(), named("s"), 0, 0)
		return err != nil
	})
	close(store.pass)
	check(t, <-found) // it was there when it was asked for
	check(t, <-swept)
	store.held = nil
	_, err = log.Stream(t.Context(), named("s"))
	wantError(t, err, reprise.ErrExpired)
	if state := info(t, create(t, log, "s", reprise.Retention{MaxAge: 1})); state.Tail != 0 || state.End != nil {
		t.Errorf("the new stream is %+v", state)
	}
}

// TestClosedLogLeavesItsStoreAlone: another Log may have it by then.
func TestClosedLogLeavesItsStoreAlone(t *testing.T) {
	store := memory(t)
	log, err := reprise.Open(t.Context(), store, nil)
	check(t, err)
	s := create(t, log, "s", reprise.Retention{MaxAge: 1})
	_, err = s.End(t.Context(), "completed", reprise.Event{Time: time.Now().Add(-time.Hour)})
	check(t, err)
	r := openReader(t, s, reprise.Earliest())
	check(t, log.Close())
	check(t, log.Close())
	for what, call := range map[string]func() error{
		"Create": func() error {
			_, _, err := log.Create(t.Context(), named("new"), reprise.StreamConfig{})
			return err
		},
		"Stream": func() error { _, err := log.Stream(t.Context(), named("s")); return err },
		"List":   func() error { _, err := log.List(t.Context(), reprise.ListQuery{Limit: 1}); return err },
		"Remove": func() error { return log.Remove(t.Context(), named("s")) },
		"Sweep":  func() error { _, err := log.Sweep(t.Context()); return err },
		"Append": func() error { _, err := s.Append(t.Context(), text("late")); return err },
		"Trim":   func() error { return s.Trim(t.Context(), 2) },
		"Info":   func() error { _, err := s.Info(t.Context()); return err },
		"Reader": func() error { _, err := s.Reader(t.Context(), reprise.Earliest()); return err },
		"Poll":   func() error { _, err := r.Poll(t.Context()); return err },
		"Seek":   func() error { return r.Seek(reprise.Tail()) },
	} {
		t.Run(what, func(t *testing.T) { wantError(t, call(), reprise.ErrClosed) })
	}
	page, err := store.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 10})
	if err != nil || len(page.Streams) != 1 || page.Streams[0].Kept() != 1 {
		t.Errorf("the store has changed: %+v, %v", page.Streams, err)
	}
}

// TestLookUpWaitsForNoOtherStream (G7): a look-up that the store does not answer keeps others only from the stream
// that it is about, and those only for as long as their context allows.
func TestLookUpWaitsForNoOtherStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &heldLookUp{Store: memstore.New(nil), held: make(chan struct{}), pass: make(chan struct{})}
		defer store.Close()
		log, err := reprise.Open(t.Context(), store, &reprise.Options{SweepEvery: -1})
		check(t, err)
		done := make(chan error, 2)
		look := func(ctx context.Context) {
			_, err := log.Stream(ctx, named("slow"))
			done <- err
		}
		go look(t.Context())
		<-store.held
		store.held = nil
		for i := range 1000 {
			_, err := log.Stream(t.Context(), named(fmt.Sprint(i)))
			wantError(t, err, reprise.ErrNotFound)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		go look(ctx)
		synctest.Wait()
		gone := errors.New("the caller has gone")
		cancel(gone)
		wantError(t, <-done, gone)
		close(store.pass)
		wantError(t, <-done, reprise.ErrNotFound)
		check(t, log.Close())
	})
}
