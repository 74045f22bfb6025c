package reprise_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"reprise"
)

// newFaulty hides the optional abilities of the store.
func newFaulty(store reprise.Store) *faulty { return &faulty{Store: store} }

// TestFailedCommit: what was not acknowledged is shown to nobody, readers keep what is in memory,
// and all works again when the store does.
func TestFailedCommit(t *testing.T) {
	eachStore(t, func(t *testing.T, inner reprise.Store) {
		store := newFaulty(inner)
		log := openLog(t, store, nil)
		s := create(t, log, "s", reprise.Retention{})
		add(t, s, numbered(1, 3)...)
		r := openReader(t, s, reprise.Earliest())
		run, err := r.Poll(t.Context())
		check(t, err)

		store.before.Store(true)
		store.reading.Store(true)
		for range 3 {
			_, err := s.Append(t.Context(), text("lost"))
			wantError(t, err, reprise.ErrUnavailable)
		}
		if events, _ := drain(t, r); len(events) != 0 || info(t, s).Tail != 3 {
			t.Errorf("%d events were shown that were not committed", len(events))
		}
		count := 0
		for range run.All() { // taken before: it stays what it is
			count++
		}
		if count != 3 {
			t.Errorf("the run has %d events now", count)
		}

		store.before.Store(false)
		_, err = s.Append(t.Context(), text("the store cannot be read yet"))
		wantError(t, err, reprise.ErrUnavailable)
		store.reading.Store(false)
		if first := add(t, s, text("4")).First; first != 4 {
			t.Errorf("the next event is %d, want 4", first)
		}
		events, _ := drain(t, r)
		wantTexts(t, events, 4, "4")
		wantNumbered(t, kept(t, s), 1, 4)
	})
}

// TestFailedCommitThatWasStored: it is found before the next append; a producer's retry is a duplicate.
func TestFailedCommitThatWasStored(t *testing.T) {
	eachStore(t, func(t *testing.T, inner reprise.Store) {
		store := newFaulty(inner)
		log := openLog(t, store, nil)
		s := create(t, log, "s", reprise.Retention{})
		_, err := s.AppendWith(t.Context(), producing("p", 0, 0), text("1"))
		check(t, err)
		r := openReader(t, s, reprise.Tail())

		store.after.Store(true)
		_, err = s.AppendWith(t.Context(), producing("p", 0, 1), numbered(2, 2)...)
		wantError(t, err, reprise.ErrUnavailable)
		if events, _ := drain(t, r); len(events) != 0 {
			t.Errorf("%d events were shown that were not acknowledged", len(events))
		}
		cold := openReader(t, s, reprise.Earliest()) // the hot tail is gone, and the store has more than is shown
		events, _ := drain(t, cold)
		wantNumbered(t, events, 1, 1)

		store.after.Store(false)
		changed := r.Changed()
		appended, err := s.AppendWith(t.Context(), producing("p", 0, 1), numbered(2, 2)...)
		if err != nil || !appended.Duplicate || appended.First != 2 || appended.Last != 3 {
			t.Errorf("the retry: %+v, %v", appended, err)
		}
		<-changed
		events, _ = drain(t, r)
		wantNumbered(t, events, 2, 2)
		if first := add(t, s, text("4")).First; first != 4 {
			t.Errorf("the next event is %d, want 4", first)
		}
		wantNumbered(t, kept(t, s), 1, 4)
		if sizes, err := log.Sizes(t.Context()); err != nil || sizes[reprise.DefaultTenant].Events != 4 {
			t.Errorf("%+v, %v", sizes, err)
		}
	})
}

// TestFailedEndThatWasStored: the stream has ended, once, and the retry of a producer says so.
func TestFailedEndThatWasStored(t *testing.T) {
	store := newFaulty(memory(t))
	log := openLog(t, store, nil)
	s := create(t, log, "s", reprise.Retention{})
	store.after.Store(true)
	_, err := s.EndWith(t.Context(), producing("p", 0, 0), "completed", reprise.Event{})
	wantError(t, err, reprise.ErrUnavailable)
	if info(t, s).End != nil {
		t.Error("an end was shown that was not acknowledged")
	}
	store.after.Store(false)
	_, err = s.Append(t.Context(), text("late"))
	wantError(t, err, reprise.ErrEnded)
	appended, err := s.EndWith(t.Context(), producing("p", 0, 0), "completed", reprise.Event{})
	if err != nil || !appended.Duplicate {
		t.Errorf("the retry: %+v, %v", appended, err)
	}
	if events, ended := drain(t, openReader(t, s, reprise.Earliest())); len(events) != 1 || !ended {
		t.Errorf("%d events, ended %v", len(events), ended)
	}
}

// TestReadersKeepWhatIsInMemory while the store cannot be read, and are told when they need more.
func TestReadersKeepWhatIsInMemory(t *testing.T) {
	store := newFaulty(memory(t))
	log := openLog(t, store, &reprise.Options{TailBytes: 4 << 10})
	s := create(t, log, "s", reprise.Retention{})
	for i := 1; i <= 1000; i++ {
		add(t, s, numbered(i, 1)...)
	}
	store.reading.Store(true)
	hot := openReader(t, s, reprise.After(s.Cursor(999)))
	events, _ := drain(t, hot)
	wantNumbered(t, events, 1000, 1)
	add(t, s, text("1001"))
	events, _ = drain(t, hot)
	wantNumbered(t, events, 1001, 1)

	cold := openReader(t, s, reprise.Earliest())
	_, err := cold.Poll(t.Context())
	wantError(t, err, reprise.ErrUnavailable)
	store.reading.Store(false)
	events, _ = drain(t, cold)
	wantNumbered(t, events, 1, 1001)
}

func TestCreateAndLookUpFail(t *testing.T) {
	store := newFaulty(memory(t))
	log := openLog(t, store, nil)
	store.creating.Store(true)
	_, _, err := log.Create(t.Context(), named("s"), reprise.StreamConfig{})
	wantError(t, err, reprise.ErrUnavailable)
	_, err = log.Stream(t.Context(), named("s"))
	wantError(t, err, reprise.ErrNotFound)
	store.reading.Store(true)
	_, err = log.Stream(t.Context(), named("s"))
	wantError(t, err, reprise.ErrUnavailable)
	store.creating.Store(false)
	store.reading.Store(false)
	add(t, create(t, log, "s", reprise.Retention{}), text("1"))
}

// partly is a Store that refuses the batch of one stream in each commit.
type partly struct {
	reprise.Store
	refuse string
	why    error
}

func (p *partly) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	errs := make([]error, len(reqs))
	var rest []reprise.AppendRequest
	for i, req := range reqs {
		if req.Key.Name == p.refuse {
			errs[i] = p.why
		} else {
			rest = append(rest, req)
		}
	}
	if err := errors.Join(p.Store.Append(ctx, rest)...); err != nil {
		panic(err)
	}
	return errs
}

// TestOneStreamOfACommitFails: the others do not.
func TestOneStreamOfACommitFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &partly{Store: newGate(memory(t)), refuse: "bad", why: reprise.ErrUnavailable}
		gated := store.Store.(*gate)
		log := openLog(t, store, &reprise.Options{SweepEvery: -1})
		bad, good := create(t, log, "bad", reprise.Retention{}), create(t, log, "good", reprise.Retention{})
		gated.shut()
		under := appending(t.Context(), create(t, log, "first", reprise.Retention{}), text("1"))
		<-gated.stored
		lost := appending(t.Context(), bad, text("1"))
		synctest.Wait()
		stays := appending(t.Context(), good, text("1"))
		synctest.Wait()
		gated.open()
		check(t, <-under)
		check(t, <-stays)
		wantError(t, <-lost, reprise.ErrUnavailable)
		wantNumbered(t, kept(t, good), 1, 1)
		if n := len(kept(t, bad)); n != 0 {
			t.Errorf("%d events of a batch that was not stored", n)
		}

		store.refuse = ""
		check(t, gated.Remove(t.Context(), named("bad"), reprise.RemoveSpec{})) // behind the back of the Log
		_, err := bad.Append(t.Context(), text("1"))
		wantError(t, err, reprise.ErrNotFound)
		_, err = bad.Info(t.Context())
		wantError(t, err, reprise.ErrNotFound)
	})
}

// TestWindowMovedByAFailedCommit: the store has trimmed, though it said that it failed. A reader is told
// where it can go on, and does; it is not sent back to what is gone.
func TestWindowMovedByAFailedCommit(t *testing.T) {
	eachStore(t, func(t *testing.T, inner reprise.Store) {
		store := newFaulty(inner)
		log := openLog(t, store, nil)
		s := create(t, log, "s", reprise.Retention{MaxEvents: 3})
		add(t, s, numbered(1, 3)...)
		r := openReader(t, s, reprise.Earliest())
		store.after.Store(true)
		_, err := s.Append(t.Context(), numbered(4, 2)...)
		wantError(t, err, reprise.ErrUnavailable)
		_, err = r.Poll(t.Context())
		refused := windowError(t, err, reprise.CursorExpired)
		if refused.Missed() != 2 || refused.Earliest.Seq != 2 || refused.Tail.Seq != 5 {
			t.Errorf("missed %d, window %d to %d", refused.Missed(), refused.Earliest.Seq, refused.Tail.Seq)
		}
		for _, at := range []reprise.Position{
			reprise.After(refused.Earliest), reprise.After(refused.Tail),
			reprise.Earliest(),
		} {
			check(t, r.Seek(at))
		}
		events, _ := drain(t, r)
		wantNumbered(t, events, 3, 3)
	})
}

// TestRepeatFallsWithItsOriginal: a repeat in the same commit is no duplicate if that fails.
func TestRepeatFallsWithItsOriginal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := newFaulty(memory(t))
		store := newGate(faulty)
		log := openLog(t, store, &reprise.Options{SweepEvery: -1})
		s := create(t, log, "s", reprise.Retention{})
		store.shut()
		under := appending(t.Context(), s, text("1"))
		<-store.stored
		faulty.before.Store(true)
		errs := make(chan error, 2)
		for range cap(errs) {
			go func() {
				_, err := s.AppendWith(t.Context(), producing("p", 0, 0), text("2"))
				errs <- err
			}()
			synctest.Wait()
		}
		store.open()
		check(t, <-under)
		for range cap(errs) {
			wantError(t, <-errs, reprise.ErrUnavailable)
		}
		faulty.before.Store(false)
		appended, err := s.AppendWith(t.Context(), producing("p", 0, 0), text("2"))
		if err != nil || appended.Duplicate {
			t.Errorf("the retry: %+v, %v", appended, err)
		}
		wantNumbered(t, kept(t, s), 1, 2)
	})
}
