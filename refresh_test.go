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

// TestAppendAfterStoreLostTrim: the store has lost a trim in a crash and nothing else. The window then begins earlier
// than before, in the same epoch, and another replica appends. The replica that had trimmed takes over the window of
// the store, reads what is there again, and appends and trims as before.
func TestAppendAfterStoreLostTrim(t *testing.T) {
	for _, others := range []int{0, 1, 2} { // appends of the other replica
		t.Run(fmt.Sprintf("others=%d", others), func(t *testing.T) {
			hub := shared.New(memstore.New(nil))
			store := &trimLoser{beforeRead: beforeRead{Store: hub.Store()}, forgets: true}
			log := openLog(t, store, nil)
			s := createOn(t, log, "s")
			for i := range 3 {
				add(t, s, text(fmt.Sprint(1+i)))
			}
			size := info(t, s).Bytes / 3 // of each event here
			check(t, s.Trim(t.Context(), 3))
			if got := info(t, s); got.Earliest != 3 {
				t.Fatalf("the window begins at %d, want 3", got.Earliest)
			}
			store.change = nil // the crash
			other := createOn(t, openLog(t, hub.Store(), nil), "s")
			for i := range others {
				add(t, other, text(fmt.Sprint(4+i)))
			}
			if others == 2 { // it learns by itself, not by a refusal
				info(t, s)
			}
			last, err := s.Append(t.Context(), text("9"))
			check(t, err)
			if want := uint64(4 + others); last.First != want {
				t.Errorf("appended as %d, want %d", last.First, want)
			}
			got, want := info(t, s), info(t, other)
			if others > 0 && (got.Earliest != 1 || got.Bytes != want.Bytes) {
				t.Errorf("the window begins at %d with %d bytes, want 1 and %d", got.Earliest, got.Bytes, want.Bytes)
			}
			r := openReader(t, s, reprise.Earliest())
			run, err := r.Poll(t.Context())
			if err != nil || run.First() != got.Earliest {
				t.Errorf("%d events from %d, %v", run.Len(), run.First(), err)
			}
			store.forgets = false
			check(t, s.Trim(t.Context(), 2))
			got = info(t, s)
			if got.Earliest != max(2, want.Earliest) || got.Bytes != int64(got.Kept())*size {
				t.Errorf("trimmed, the window begins at %d with %d bytes of %d each", got.Earliest, got.Bytes, size)
			}
			if of := log.Usage().Tenants[s.Key().Tenant]; of.Events != int64(got.Kept()) {
				t.Errorf("%d events are counted, %d are kept", of.Events, got.Kept())
			}
		})
	}
}

// trimLoser is a Store that loses a trim: pages show it until change is nil.
type trimLoser struct {
	beforeRead
	forgets bool
}

func (s *trimLoser) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	if !s.forgets {
		return s.Store.Remove(ctx, key, spec)
	}
	s.change = func(page *reprise.Page) {
		page.Info.Earliest = max(page.Info.Earliest, spec.Trim)
		page.Info.Bytes = spec.Kept
	}
	return nil
}
