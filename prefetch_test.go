package reprise_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"reprise"
)

// countingReads is a Store that counts pages, and fails one of them.
type countingReads struct {
	reprise.Store
	pages atomic.Int64
	fails atomic.Int64 // the number of the page that fails
}

func (c *countingReads) Read(ctx context.Context, key reprise.StreamKey, after uint64,
	maxBytes int,
) (reprise.Page, error) {
	if maxBytes > 0 && c.pages.Add(1) == c.fails.Load() {
		return reprise.Page{}, errFault
	}
	return c.Store.Read(ctx, key, after, maxBytes)
}

const coldEvents = 6000

// coldStream is a stream of 6 MB of which nothing is in memory.
func coldStream(t *testing.T) (*reprise.Stream, *countingReads) {
	t.Helper()
	store := &countingReads{Store: memory(t)}
	first, err := reprise.Open(t.Context(), store, nil)
	check(t, err)
	s := createOn(t, first, "s")
	for range coldEvents / 100 {
		batch := make([]reprise.Event, 100)
		for i := range batch {
			batch[i].Data = bytes.Repeat([]byte("x"), 1000)
		}
		_, err := s.Append(t.Context(), batch...)
		check(t, err)
	}
	_, err = s.End(t.Context(), "completed", reprise.Event{})
	check(t, err)
	check(t, first.Close())
	log := openLog(t, store, nil)
	s, err = log.Stream(t.Context(), s.Key())
	check(t, err)
	store.pages.Store(0) // Open has looked at the wrappers
	return s, store
}

// follow reads from seq on, and returns what came.
func follow(t *testing.T, r *reprise.Reader, next uint64) (uint64, error) {
	t.Helper()
	for {
		run, err := r.Poll(t.Context())
		if err != nil {
			return next, err
		}
		for e := range run.All() {
			if e.Seq != next {
				t.Fatalf("event %d, want %d", e.Seq, next)
			}
			next++
		}
	}
}

// TestLongReplay: all pages of a long replay come once and in order, also when one that is read in advance fails.
func TestLongReplay(t *testing.T) {
	for _, fails := range []int64{0, 1, 3, 4} {
		s, store := coldStream(t)
		store.fails.Store(fails)
		r, err := s.Reader(t.Context(), reprise.Earliest())
		check(t, err)
		next, err := follow(t, r, 1)
		if fails == 1 { // that one was not read in advance: the reader is told, and may try again
			if !errors.Is(err, reprise.ErrUnavailable) {
				t.Errorf("the first page fails: %v", err)
			}
			next, err = follow(t, r, next)
		}
		if !errors.Is(err, reprise.ErrEnded) || next != coldEvents+2 {
			t.Errorf("page %d fails: up to event %d, then %v", fails, next-1, err)
		}
		if pages := store.pages.Load(); pages > 12 {
			t.Errorf("%d pages were read for 6 MB", pages)
		}
		check(t, r.Close())
	}
}

// TestLongReplayMeetsAGap: what was trimmed while its page was being read in advance is a gap all the same.
func TestLongReplayMeetsAGap(t *testing.T) {
	s, _ := coldStream(t)
	r, err := s.Reader(t.Context(), reprise.Earliest())
	check(t, err)
	defer r.Close()
	var next uint64 = 1
	for next < 600 { // into the third page, when the fourth is under way
		run, err := r.Poll(t.Context())
		check(t, err)
		next = run.Last() + 1
	}
	check(t, s.Trim(t.Context(), 5000))
	_, err = follow(t, r, next)
	window, ok := errors.AsType[*reprise.WindowError](err)
	if !ok || window.Missed() == 0 || window.Earliest.Seq != 4999 {
		t.Fatalf("after the trim: %v", err)
	}
	check(t, r.Seek(reprise.Earliest()))
	if next, err = follow(t, r, 5000); !errors.Is(err, reprise.ErrEnded) || next != coldEvents+2 {
		t.Errorf("after the gap: up to event %d, then %v", next-1, err)
	}
}
