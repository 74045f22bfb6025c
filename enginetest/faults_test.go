package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/store/memstore"
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
		store, _, s := behindGate(t)
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

// refusingStore fails appends with an error.
type refusingStore struct {
	reprise.Store
	err atomic.Pointer[error]
}

func (s *refusingStore) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	if err := s.err.Load(); err != nil {
		errs := make([]error, len(reqs))
		for i := range errs {
			errs[i] = *err
		}
		return errs
	}
	return s.Store.Append(ctx, reqs)
}

// The cause of an outage is logged once until it changes or the store answers again, however many calls fail.
func TestOutageIsLoggedOnceForEachCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &refusingStore{Store: memstore.New(nil)}
		var logged bytes.Buffer
		log, err := reprise.Open(t.Context(), store, &reprise.Options{
			Logger: slog.New(slog.NewTextHandler(&logged, nil)), SweepEvery: -1,
		})
		check(t, err)
		defer func() {
			check(t, log.Close())
			check(t, store.Close())
		}()
		key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s"}
		s, _, err := log.Create(t.Context(), key, reprise.StreamConfig{})
		check(t, err)
		appends := func(err error) {
			if err == nil {
				store.err.Store(nil)
			} else {
				store.err.Store(&err)
			}
			for i := range 50 {
				if _, got := s.Append(t.Context(),
					reprise.Event{Data: fmt.Append(nil, i)}); (got == nil) != (err == nil) {
					t.Fatalf("append: %v, want %v", got, err)
				}
				time.Sleep(10 * time.Second) // of the bubble
			}
		}
		full, readOnly := fmt.Errorf("%w: at 4096", reprise.DiskFull), fmt.Errorf("%w: x", reprise.ReadOnly)
		for _, err := range []error{full, full, readOnly, full, nil, full, nil} {
			appends(err)
		}
		for text, want := range map[string]int{
			`cause="disk full"`: 2, `cause="the store is read-only"`: 1, "the store answers again": 2, "at 4096": 2,
		} {
			if got := strings.Count(logged.String(), text); got != want {
				t.Errorf("%q is logged %d times, want %d:\n%s", text, got, want, logged.String())
			}
		}
	})
}

// unable is a Store around one that has no ability.
type unable struct{ reprise.Store }

func (unable) Watch(reprise.StreamKey, func()) (func(), error) { return nil, errors.ErrUnsupported }

func (unable) Sweep(context.Context, time.Time, time.Time, int) ([]reprise.StreamInfo, error) {
	return nil, errors.ErrUnsupported
}

func (unable) Sizes(context.Context) (map[reprise.Tenant]reprise.Size, error) {
	return nil, errors.ErrUnsupported
}

// TestUnsupportedAbilitiesAreIgnored: a Store whose methods return ErrUnsupported is used like one without them.
func TestUnsupportedAbilitiesAreIgnored(t *testing.T) {
	log := openLog(t, unable{memstore.New(nil)},
		&reprise.Options{Retention: reprise.Retention{MaxAge: time.Nanosecond}, SweepEvery: -1})
	if log.Shared() {
		t.Error("a store that cannot be watched is taken for a shared one")
	}
	s := createOn(t, log, "s")
	_, err := s.Append(t.Context(), text("x"))
	check(t, err)
	sizes, err := log.Sizes(t.Context())
	if err != nil || sizes[reprise.DefaultTenant].Events != 1 {
		t.Errorf("sizes %v, %v", sizes, err)
	}
	_, err = s.End(t.Context(), "completed", reprise.Event{Time: time.Now().Add(-time.Hour)})
	check(t, err)
	result, err := log.Sweep(t.Context())
	if err != nil || result.Streams != 1 {
		t.Errorf("swept %+v, %v", result, err)
	}
}

// TestReadyFailsWhileStoreCannotBeWritten: a store that can be read and not written is not ready, until it can be
// written again.
func TestReadyFailsWhileStoreCannotBeWritten(t *testing.T) {
	store := &faulty{Store: memstore.New(nil)}
	log := openLog(t, store, nil)
	s := createOn(t, log, "s")
	check(t, log.Ready(t.Context()))
	store.before.Store(true)
	store.creating.Store(true)
	if _, err := s.Append(t.Context(), text("x")); !errors.Is(err, reprise.ErrUnavailable) {
		t.Fatalf("append: %v", err)
	}
	for range 2 {
		if err := log.Ready(t.Context()); !errors.Is(err, reprise.ErrUnavailable) {
			t.Errorf("ready: %v, want ErrUnavailable", err)
		}
	}
	store.before.Store(false)
	store.creating.Store(false)
	check(t, log.Ready(t.Context()))
	sizes, err := log.Sizes(t.Context())
	if err != nil || len(sizes) > 1 {
		t.Errorf("something is left of looking: %v, %v", sizes, err)
	}
}
