package reprise_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"reprise"
	"reprise/internal/shared"
	"reprise/store/memstore"
)

// beforeRead is a Store that calls do before it reads, and change with the page.
type beforeRead struct {
	*shared.Store
	do     func(maxBytes int)
	change func(*reprise.Page)
}

func (s *beforeRead) Read(
	ctx context.Context,
	key reprise.StreamKey,
	after uint64,
	maxBytes int,
) (reprise.Page, error) {
	if s.do != nil {
		s.do(maxBytes)
	}
	page, err := s.Store.Read(ctx, key, after, maxBytes)
	if s.change != nil && err == nil {
		s.change(&page)
	}
	return page, err
}

// TestCreateOfStreamThatGoesMeanwhile (G9): a stream that Create found, and that is removed before it has come into
// memory, is made anew. Create does not answer that it is not there.
func TestCreateOfStreamThatGoesMeanwhile(t *testing.T) {
	hub := shared.New(memstore.New(nil))
	store := &beforeRead{Store: hub.Store()}
	one, other := openLog(t, hub.Store(), nil), openLog(t, store, nil)
	key := createOn(t, one, "s").Key()
	_, err := other.Stream(t.Context(), key)
	check(t, err)
	check(t, one.Remove(t.Context(), key)) // other still has the first life in memory
	createOn(t, one, "s")
	store.do = func(maxBytes int) {
		if maxBytes == 0 {
			store.do = nil
			check(t, one.Remove(t.Context(), key))
		}
	}
	s, created, err := other.Create(t.Context(), key, reprise.StreamConfig{})
	if err != nil || !created || store.do != nil {
		t.Fatalf("created %t, %v", created, err)
	}
	add(t, s, text("1"))
}

// TestReaderGoesOnWhenTrimIsTakenBack (G1): a page tells that the next event was trimmed, and a promotion takes the
// trim back before the reader has learned of it: the event is handed out, and no range is named that is not missing.
func TestReaderGoesOnWhenTrimIsTakenBack(t *testing.T) {
	hub := shared.New(memstore.New(nil))
	store := &beforeRead{Store: hub.Store()}
	log := openLog(t, store, &reprise.Options{SweepEvery: -1, TailBytes: 1})
	s := createOn(t, log, "s")
	for i := range 6 {
		add(t, s, reprise.Event{Data: fmt.Appendf(make([]byte, 0, 70000), "%070000d", i)}) // a block each
	}
	r := openReader(t, s, reprise.Earliest())
	store.change = func(page *reprise.Page) {
		store.change = nil
		page.Info.Earliest, page.Batches = 4, page.Batches[3:]
		check(t, hub.Lose(t.Context(), s.Key(), 6))
	}
	run, err := r.Poll(t.Context())
	if err != nil || run.Len() == 0 || run.First() != 1 || store.change != nil {
		t.Errorf("%d events, %v", run.Len(), err)
	}
}

// TestInfoIsOneView: while Info looks at the store another replica trims and this one appends. Info answers what the
// stream was, not a start and a tail that never were at the same time.
func TestInfoIsOneView(t *testing.T) {
	hub := shared.New(memstore.New(nil))
	store := &beforeRead{Store: hub.Store()}
	one, other := openLog(t, hub.Store(), nil), openLog(t, store, nil)
	mine := createOn(t, one, "s")
	add(t, mine, text("1"), text("2"))
	theirs, err := other.Stream(t.Context(), mine.Key())
	check(t, err)
	store.change = func(*reprise.Page) {
		store.change = nil
		check(t, mine.Trim(t.Context(), 2))
		add(t, theirs, text("3"))
	}
	if got := info(t, theirs); got.Earliest != 1 || got.Tail != 2 || store.change != nil {
		t.Errorf("the stream is said to be from %d to %d", got.Earliest, got.Tail)
	}
}

// TestTrimIsSeenBesideOwnAppend: another replica has trimmed, and this one appends while it reads that. A reader
// that asks for what was trimmed is refused.
func TestTrimIsSeenBesideOwnAppend(t *testing.T) {
	hub := shared.New(memstore.New(nil))
	store := &beforeRead{Store: hub.Store()}
	one, other := openLog(t, hub.Store(), nil), openLog(t, store, nil)
	mine := createOn(t, one, "s")
	add(t, mine, text("1"), text("2"))
	theirs, err := other.Stream(t.Context(), mine.Key())
	check(t, err)
	check(t, mine.Trim(t.Context(), 2))
	store.change = func(*reprise.Page) {
		store.change = nil
		add(t, theirs, text("3"))
	}
	_, err = theirs.Reader(t.Context(), reprise.After(theirs.Cursor(0)))
	window, ok := errors.AsType[*reprise.WindowError](err)
	if !ok || window.Reason != reprise.CursorExpired || store.change != nil {
		t.Errorf("a reader of what was trimmed: %v", err)
	}
}
