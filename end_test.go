package reprise_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
)

// TestEndIsTheSameAfterARestart: what is told of the end comes from memory first and from the store later.
func TestEndIsTheSameAfterARestart(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		s := create(t, log, "s", reprise.Retention{MaxAge: time.Hour})
		at := time.Date(2026, 11, 20, 10, 30, 0, 123_456_789, time.FixedZone("", 3600))
		_, err := s.End(t.Context(), "completed", reprise.Event{Time: at, Data: []byte("x")})
		check(t, err)
		before := *info(t, s).End
		check(t, log.Close())
		again, err := openLog(t, store, nil).Stream(t.Context(), named("s"))
		check(t, err)
		after := *info(t, again).End
		want := time.Date(2026, 11, 20, 9, 30, 0, 123_000_000, time.UTC)
		for _, end := range []reprise.End{before, after} {
			if !end.Time.Equal(want) || !end.Expires.Equal(want.Add(time.Hour)) || end.Outcome != "completed" ||
				string(end.Data) != "x" {
				t.Errorf("%+v, want it at %v", end, want)
			}
		}
	})
}

// failingReads is a Store whose reads fail with an error once it is set.
type failingReads struct {
	reprise.Store
	err atomic.Pointer[error]
}

func (f *failingReads) Read(ctx context.Context, key reprise.StreamKey, after uint64,
	maxBytes int,
) (reprise.Page, error) {
	if err := f.err.Load(); err != nil {
		return reprise.Page{}, *err
	}
	return f.Store.Read(ctx, key, after, maxBytes)
}

// TestFailedReadIsNotTheEnd (G4): a reader of a stream that has not ended gets an error when the store cannot be
// read, whatever that error is.
func TestFailedReadIsNotTheEnd(t *testing.T) {
	const events = 2000
	for _, broken := range []error{
		io.EOF,
		fmt.Errorf("%w: %w", reprise.ErrUnavailable, io.EOF), // a closed connection
		fmt.Errorf("%w: %w", reprise.ErrUnavailable, io.ErrUnexpectedEOF),
		reprise.ErrEnded,
	} {
		t.Run(broken.Error(), func(t *testing.T) {
			store := &failingReads{Store: memory(t)}
			log := openLog(t, store, &reprise.Options{TailBytes: 1})
			s := create(t, log, "s", reprise.Retention{})
			for from := 1; from <= events; from += 10 {
				add(t, s, numbered(from, 10)...)
			}
			r := openReader(t, s, reprise.Earliest())
			store.err.Store(&broken)
			read := 0
			var told error
			for _, err := range r.Events(t.Context()) {
				if told = err; err == nil {
					read++
				}
			}
			if told == nil {
				t.Fatalf("the iteration ended without an error after %d of %d events", read, events)
			}
			if errors.Is(told, reprise.ErrEnded) {
				t.Errorf("%v is taken for the end", told)
			}

			store.err.Store(nil) // and the reader goes on where it was
			for i := read; i < events; {
				run, err := r.Next(t.Context())
				check(t, err)
				i += run.Len()
			}
		})
	}
}

// TestOneEndInACommit (G4): of two ends that share a commit one ends the stream.
func TestOneEndInACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newGate(memory(t))
		log := openLog(t, store, &reprise.Options{SweepEvery: -1})
		s := create(t, log, "s", reprise.Retention{})
		store.shut()
		under := appending(t.Context(), s, text("1"))
		synctest.Wait()
		ends := [2]chan error{make(chan error, 1), make(chan error, 1)}
		for _, done := range ends {
			go func() {
				_, err := s.End(t.Context(), "completed", reprise.Event{})
				done <- err
			}()
			synctest.Wait()
		}
		store.open()
		check(t, <-under)
		check(t, <-ends[0])
		wantError(t, <-ends[1], reprise.ErrEnded)
		if tail := info(t, s).Tail; tail != 2 {
			t.Errorf("the tail is %d, want 2", tail)
		}
	})
}
