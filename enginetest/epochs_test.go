package enginetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/shared"
	"reprise/store/memstore"
)

// failover is a replica on a store of which a promotion can lose the newest events.
type failover struct {
	hub *shared.Hub
	log *reprise.Log
	s   *reprise.Stream
}

// newFailover makes a stream with ten events, one a batch.
func newFailover(t *testing.T, opts *reprise.Options) *failover {
	t.Helper()
	f := &failover{hub: shared.New(memstore.New(nil))}
	f.log = f.replica(t, opts)
	f.s = createOn(t, f.log, "s")
	f.add(t, 10)
	return f
}

// replica opens another replica.
func (f *failover) replica(t *testing.T, opts *reprise.Options) *reprise.Log {
	t.Helper()
	store := f.hub.Store()
	t.Cleanup(func() { check(t, store.Close()) })
	return openLog(t, store, opts)
}

func (f *failover) add(t *testing.T, count int) {
	t.Helper()
	from := int(info(t, f.s).Tail) + 1
	for i := range count {
		add(t, f.s, text(fmt.Sprint(from+i)))
	}
}

func (f *failover) lose(t *testing.T, keep uint64) {
	t.Helper()
	check(t, f.hub.Lose(t.Context(), f.s.Key(), keep))
}

// windowErrorOf fails the test if err is not a *WindowError with the reason.
func windowErrorOf(t *testing.T, err error, reason reprise.WindowReason) *reprise.WindowError {
	t.Helper()
	window, ok := errors.AsType[*reprise.WindowError](err)
	if !ok || window.Reason != reason {
		t.Fatalf("the error is %v, want %s", err, reason)
	}
	return window
}

// TestCursorAtOrBelowForkIsExact (G1): after a promotion that lost events 7 to 10, a cursor of the epoch before
// resumes exactly if it is at most 6, and is refused with the fork beyond it, before and after the next append.
func TestCursorAtOrBelowForkIsExact(t *testing.T) {
	for _, appended := range []int{0, 3} {
		t.Run(fmt.Sprintf("appended=%d", appended), func(t *testing.T) {
			f := newFailover(t, nil)
			var cursors []reprise.Cursor
			for seq := range uint64(11) {
				cursors = append(cursors, f.s.Cursor(seq))
			}
			f.lose(t, 6)
			f.add(t, appended)
			for seq, cursor := range cursors {
				r, err := f.s.Reader(t.Context(), reprise.After(cursor))
				if seq <= 6 {
					check(t, err)
					events, _ := drain(t, r)
					wantNumbered(t, events, uint64(seq)+1, 6+appended-seq)
					check(t, r.Close())
					continue
				}
				window := windowErrorOf(t, err, reprise.EpochChanged)
				if window.Fork.Seq != 6 || window.Resume() != window.Fork || window.TakenBack() != uint64(seq)-6 ||
					window.Missed() != 0 {
					t.Errorf("after %d: %+v", seq, window)
				}
				r = openReader(t, f.s, reprise.After(window.Resume()))
				events, _ := drain(t, r)
				wantNumbered(t, events, 7, appended)
			}
			ahead := f.s.Cursor(uint64(6 + appended + 1))
			_, err := f.s.Reader(t.Context(), reprise.After(ahead))
			windowErrorOf(t, err, reprise.CursorAhead)
		})
	}
}

// TestReaderIsToldOfForkItIsBeyond (G1): readers that were handed out nothing beyond the fork notice nothing. The
// others get epoch_changed once, and go on from the fork.
func TestReaderIsToldOfForkItIsBeyond(t *testing.T) {
	for _, tailBytes := range []int{1, 1 << 20} { // read from the store, and from memory
		synctest.Test(t, func(t *testing.T) {
			f := newFailover(t, &reprise.Options{SweepEvery: -1, TailBytes: tailBytes})
			below, beyond := openReader(t, f.s, reprise.After(f.s.Cursor(4))), openReader(t, f.s, reprise.Earliest())
			events, _ := drain(t, beyond)
			wantNumbered(t, events, 1, 10)
			waiting := make(chan error, 1)
			go func() {
				_, err := beyond.Next(t.Context())
				waiting <- err
			}()
			synctest.Wait()
			f.lose(t, 6)
			f.add(t, 2)
			window := windowErrorOf(t, <-waiting, reprise.EpochChanged)
			if window.Asked.Seq != 10 || window.Fork.Seq != 6 || window.TakenBack() != 4 {
				t.Errorf("%+v", window)
			}
			check(t, beyond.Seek(reprise.After(window.Resume())))
			events, _ = drain(t, beyond)
			wantNumbered(t, events, 7, 2)

			events, _ = drain(t, below)
			wantNumbered(t, events, 5, 4)
			if cursor := below.Cursor(); cursor != f.s.Cursor(8) {
				t.Errorf("the cursor is %v, want %v", cursor, f.s.Cursor(8))
			}
			r := openReader(t, f.s, reprise.Tail())
			check(t, r.Seek(reprise.After(below.Cursor())))
			check(t, f.log.Close())
		})
	}
}

// TestAppendGoesOnAfterFork (G6): a handle that was used before the promotion appends after the fork, a producer's
// retry of what was lost is kept, and what was kept is a duplicate.
func TestAppendGoesOnAfterFork(t *testing.T) {
	f := newFailover(t, nil)
	for seq := range uint64(4) { // events 11 to 14
		_, err := f.s.AppendWith(t.Context(), producing("p", 0, seq), text(fmt.Sprint(11+seq)))
		check(t, err)
	}
	f.lose(t, 10)
	a, err := f.s.AppendWith(t.Context(), producing("q", 0, 0), text("11"))
	if err != nil || a.First != 11 || a.Duplicate {
		t.Errorf("the append after the fork: %+v, %v", a, err)
	}
	wantNumbered(t, kept(t, f.s), 1, 11)
	if lineage := info(t, f.s).Lineage; len(lineage) != 1 || lineage[0].Fork != 10 {
		t.Errorf("the lineage is %+v", lineage)
	}
}

// TestDuplicateOfLostAppendIsStoredAgain (G6, G9): an append that is sent again after a promotion lost it is no
// duplicate, also for a replica that has not been told of the promotion.
func TestDuplicateOfLostAppendIsStoredAgain(t *testing.T) {
	f := &failover{hub: shared.New(memstore.New(nil))}
	store := f.hub.Store()
	t.Cleanup(func() { check(t, store.Close()) })
	f.log = openLog(t, deaf{store}, nil)
	f.s = createOn(t, f.log, "s")
	f.add(t, 3)
	send := func() reprise.Appended {
		t.Helper()
		a, err := f.s.AppendWith(t.Context(), producing("p", 0, 0), text("4"))
		check(t, err)
		return a
	}
	if a := send(); a.Duplicate || a.Last != 4 {
		t.Fatalf("the first time: %+v", a)
	}
	if a := send(); !a.Duplicate || a.Last != 4 {
		t.Fatalf("sent again: %+v", a)
	}
	f.lose(t, 3)
	if a := send(); a.Duplicate || a.Last != 4 {
		t.Errorf("sent again after the loss: %+v", a)
	}
	wantNumbered(t, kept(t, f.s), 1, 4)
}

// TestLineageOfSeveralForks: the fork of an epoch is the lowest since, and the oldest epochs are forgotten.
func TestLineageOfSeveralForks(t *testing.T) {
	f := newFailover(t, nil)
	first := info(t, f.s).Epoch
	f.lose(t, 8)
	second := info(t, f.s).Epoch
	f.add(t, 1) // 9
	f.lose(t, 5)
	third := info(t, f.s).Epoch
	f.add(t, 4) // 6 to 9
	f.lose(t, 7)
	got := info(t, f.s)
	for epoch, want := range map[reprise.Epoch]uint64{first: 5, second: 5, third: 7, got.Epoch: 7} {
		if fork, ok := got.ForkOf(epoch); fork != want || !ok {
			t.Errorf("the fork of %s is %d, %t, want %d", epoch, fork, ok, want)
		}
	}
	if _, ok := got.ForkOf(reprise.NewEpoch()); ok {
		t.Error("an epoch that never was has a fork")
	}
	for range reprise.MaxLineage {
		f.lose(t, 7)
	}
	got = info(t, f.s)
	if _, ok := got.ForkOf(third); ok || len(got.Lineage) != reprise.MaxLineage {
		t.Errorf("%d ancestors are remembered, want %d", len(got.Lineage), reprise.MaxLineage)
	}
}

// TestCursorOfReplacedStreamHasNoFork: a name that is used again for another stream shares no history with it.
func TestCursorOfReplacedStreamHasNoFork(t *testing.T) {
	log := openLog(t, memory(t), nil)
	s := create(t, log, "s", reprise.Retention{})
	add(t, s, numbered(1, 3)...)
	cursor := s.Cursor(2)
	check(t, log.Remove(t.Context(), named("s")))
	s = create(t, log, "s", reprise.Retention{})
	add(t, s, numbered(1, 5)...)
	_, err := s.Reader(t.Context(), reprise.After(cursor))
	window := windowErrorOf(t, err, reprise.EpochChanged)
	if window.Fork.Seq != 0 || window.Resume() != window.Earliest || window.TakenBack() != 2 {
		t.Errorf("%+v", window)
	}
}

// newReadAhead returns a stream of 90 events of 1 KiB, none of them in memory but the last, and a reader that has given
// the first of them, up to a number, and has read ahead others.
func newReadAhead(t *testing.T) (f *failover, r *reprise.Reader, handedOut uint64) {
	t.Helper()
	f = newFailover(t, &reprise.Options{SweepEvery: -1, TailBytes: 1})
	long := make([]byte, 1<<10)
	for range 90 {
		add(t, f.s, reprise.Event{Data: long})
	}
	r = openReader(t, f.s, reprise.Earliest())
	run, err := r.Poll(t.Context())
	check(t, err)
	return f, r, run.Last()
}

// TestPageReadAheadOfOlderEpochIsNotHandedOut (G3): a reader in the middle of a replay gets the events of the new
// epoch after the fork, though it has read ahead those that were taken back.
func TestPageReadAheadOfOlderEpochIsNotHandedOut(t *testing.T) {
	f, r, handedOut := newReadAhead(t)
	if handedOut >= 50 {
		t.Fatalf("the first run reaches %d: the test needs one that is shorter", handedOut)
	}
	f.lose(t, 50)
	add(t, f.s, text("new"))
	events, _ := drain(t, r)
	if n := len(events); n != int(51-handedOut) || events[0].Seq != handedOut+1 || string(events[n-1].Data) != "new" {
		t.Errorf("%d events after %d, the last is %q", n, handedOut, events[n-1].Data)
	}
}

// TestSeekDropsPageReadAheadOfOlderEpoch (G1): a reader that is told of another epoch, and seeks the event at which the
// page that it had read ahead goes on, gets that event of the epoch now, and not the one that was taken back.
func TestSeekDropsPageReadAheadOfOlderEpoch(t *testing.T) {
	f, r, handedOut := newReadAhead(t)
	next := handedOut + 1
	f.lose(t, next-3)
	other := createOn(t, f.replica(t, &reprise.Options{SweepEvery: -1}), "s")
	for range 10 { // on another replica, so that this one has none of them in memory
		add(t, other, text("new"))
	}
	check(t, f.s.Trim(t.Context(), next))
	_, err := r.Poll(t.Context())
	window := windowErrorOf(t, err, reprise.EpochChanged)
	check(t, r.Seek(reprise.After(window.Resume())))
	events, _ := drain(t, r)
	if len(events) != 8 || events[0].Seq != next || string(events[0].Data) != "new" {
		t.Errorf("after the seek came %.200v", events)
	}
}

// TestCursorOfAcknowledgedAppendIsOfItsEpoch (G1): an append was acknowledged and then lost, before its caller took the
// cursor. The cursor is refused as that of an event that no longer exists, though another event has the seq.
func TestCursorOfAcknowledgedAppendIsOfItsEpoch(t *testing.T) {
	f := newFailover(t, nil)
	acknowledged := add(t, f.s, text("11"))
	f.lose(t, 10)
	add(t, f.s, text("another 11"))
	_, err := f.s.Reader(t.Context(), reprise.After(f.s.CursorIn(acknowledged.Epoch, acknowledged.Last)))
	if window := windowErrorOf(t, err, reprise.EpochChanged); window.TakenBack() != 1 {
		t.Errorf("%+v", window)
	}
}

// deaf is a shared Store that does not hear of what other replicas do.
type deaf struct{ reprise.Store }

func (deaf) Watch(reprise.StreamKey, func()) (func(), error) { return func() {}, nil }

// TestPageOfNewerEpochIsNotHandedOut (G1): a replica that has not heard of a promotion reads a page of the new epoch.
// It does not give those events cursors of the epoch before.
func TestPageOfNewerEpochIsNotHandedOut(t *testing.T) {
	hub, keys := shared.New(memstore.New(nil)), reprise.NewKeyset()
	open := func(wrap func(reprise.Store) reprise.Store) *reprise.Log {
		store := hub.Store()
		t.Cleanup(func() { check(t, store.Close()) })
		return openLog(t, wrap(store), &reprise.Options{SweepEvery: -1, Keys: keys})
	}
	log := open(func(s reprise.Store) reprise.Store { return deaf{s} })
	other := open(func(s reprise.Store) reprise.Store { return s })
	add(t, createOn(t, other, "s"), numbered(1, 10)...)
	s := createOn(t, log, "s") // with no event in memory
	r := openReader(t, s, reprise.Earliest())

	check(t, hub.Lose(t.Context(), s.Key(), 0))
	add(t, createOn(t, other, "s"), numbered(1, 10)...)
	events, _ := drain(t, r)
	wantNumbered(t, events, 1, 10)
	again, err := s.Reader(t.Context(), reprise.After(r.Cursor()))
	if err != nil {
		t.Fatalf("the cursor after event 10: %v", err)
	}
	check(t, again.Close())
}

// TestEpochThatIsLost (G1): a promotion takes back the newest changes of the epoch, with the events that followed them.
// The stream stays the same one: a handle and a reader of a lost epoch go on with it, and cursors of each lost epoch
// are answered as those of an ancestor.
func TestEpochThatIsLost(t *testing.T) {
	for _, c := range []struct {
		epochs int
		keep   uint64 // the fork of the lost epochs, or below it
	}{{1, 8}, {1, 6}, {2, 8}, {2, 6}} {
		t.Run(fmt.Sprintf("epochs=%d,keep=%d", c.epochs, c.keep), func(t *testing.T) {
			f := newFailover(t, nil)
			known := f.s.Cursor(7)
			var within, beyond []reprise.Cursor // of the lost epochs
			for range c.epochs {
				f.lose(t, 8)
				f.add(t, 3) // 9 to 11
				within, beyond = append(within, f.s.Cursor(c.keep)), append(beyond, f.s.Cursor(c.keep+1))
			}
			lost := info(t, f.s)
			r := openReader(t, f.s, reprise.After(f.s.Cursor(5)))
			events, _ := drain(t, r)
			wantNumbered(t, events, 6, 6)
			check(t, f.hub.LoseEpochs(t.Context(), f.s.Key(), c.keep, c.epochs))
			f.add(t, 1)

			now := info(t, f.s)
			if _, ok := now.ForkOf(lost.Epoch); ok || now.Tail != c.keep+1 {
				t.Fatalf("%+v", now)
			}
			_, err := r.Poll(t.Context())
			window := windowErrorOf(t, err, reprise.EpochChanged)
			if window.Fork.Seq != c.keep || window.TakenBack() != 11-c.keep {
				t.Errorf("the reader is told of %+v", window)
			}
			for i := range within {
				_, err = f.s.Reader(t.Context(), reprise.After(beyond[i]))
				if window := windowErrorOf(t, err, reprise.EpochChanged); window.Fork.Seq != c.keep {
					t.Errorf("beyond the fork of epoch %d: %+v", i, window)
				}
				events, _ = drain(t, openReader(t, f.s, reprise.After(within[i])))
				wantNumbered(t, events, c.keep+1, 1)
			}
			if c.keep > 7 {
				events, _ = drain(t, openReader(t, f.s, reprise.After(known)))
				wantNumbered(t, events, 8, 2)
			}
		})
	}
}

// TestStoreInEpochThatWasLeft: a store that was promoted goes back to the one before, which does not know. An open
// stream cannot be used, since its seqs may be given again, until the store has stayed there for a while. One that has
// ended there is as it is there, and readers of the other epoch are told.
func TestStoreInEpochThatWasLeft(t *testing.T) {
	t.Run("open", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFailover(t, nil)
			f.lose(t, 8)
			f.add(t, 1)
			check(t, f.hub.GoBack(t.Context(), f.s.Key(), 8, nil))
			if _, err := f.s.Info(t.Context()); !errors.Is(err, reprise.ErrUnavailable) {
				t.Errorf("at first: %v", err)
			}
			time.Sleep(11 * time.Second)
			if _, err := f.s.Info(t.Context()); !errors.Is(err, reprise.ErrNotFound) {
				t.Errorf("after a while: %v", err)
			}
			s, err := f.log.Stream(t.Context(), f.s.Key())
			check(t, err)
			add(t, s, text("9"))
			wantNumbered(t, kept(t, s), 1, 9)
			check(t, f.log.Close())
		})
	})
	t.Run("ended", func(t *testing.T) {
		f := newFailover(t, nil)
		f.lose(t, 8)
		r := openReader(t, f.s, reprise.Earliest())
		f.add(t, 1)
		events, _ := drain(t, r)
		wantNumbered(t, events, 1, 9)
		check(t, f.hub.GoBack(t.Context(), f.s.Key(), 8, &reprise.End{Outcome: "completed", Time: time.Now()}))
		if now := info(t, f.s); now.Tail != 8 || now.End == nil {
			t.Fatalf("%+v", now)
		}
		_, err := r.Poll(t.Context())
		if window := windowErrorOf(t, err, reprise.EpochChanged); window.Fork.Seq != 8 {
			t.Errorf("the reader is told of %+v", window)
		}
	})
}

// TestRemoveOfLostEpochIsDone (G6): a removal by a handle that has not heard that its epoch was lost removes the
// stream.
func TestRemoveOfLostEpochIsDone(t *testing.T) {
	f := &failover{hub: shared.New(memstore.New(nil))}
	store := f.hub.Store()
	t.Cleanup(func() { check(t, store.Close()) })
	f.log = openLog(t, deaf{store}, nil)
	f.s = createOn(t, f.log, "s")
	f.add(t, 5)
	f.lose(t, 4)
	f.add(t, 1)
	check(t, f.hub.LoseEpochs(t.Context(), f.s.Key(), 4, 1))
	check(t, f.s.Remove(t.Context()))
	if _, err := f.log.Stream(t.Context(), f.s.Key()); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("after the removal: %v", err)
	}
}

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
