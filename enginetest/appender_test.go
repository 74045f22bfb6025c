package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/store/memstore"
)

// appenderStore is a Store whose appends can fail, before or after they have been stored.
type appenderStore struct {
	*memstore.Store
	mu     sync.Mutex
	fails  int           // how many of the next appends fail
	forget bool          // those that fail are not stored
	gate   chan struct{} // if not nil, appends wait until it is closed
	err    error
	lost   func() // if not nil, called once after the appends that fail
	tries  []int  // how many events each append had since fail or hold
}

func (s *appenderStore) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range reqs {
		s.tries = append(s.tries, reqs[i].Count)
	}
	if s.fails == 0 {
		return s.Store.Append(ctx, reqs)
	}
	s.fails--
	if !s.forget {
		_ = s.Store.Append(ctx, reqs)
	}
	if s.lost != nil && s.fails == 0 {
		s.lost()
		s.lost = nil
	}
	errs := make([]error, len(reqs))
	for i := range errs {
		errs[i] = fmt.Errorf("injected: %w", s.err)
	}
	return errs
}

// fail makes the next n appends fail with err.
func (s *appenderStore) fail(n int, err error, stored bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails, s.err, s.forget, s.tries = n, err, !stored, nil
}

// hold makes appends wait until release is called.
func (s *appenderStore) hold() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gate := make(chan struct{})
	s.gate, s.tries = gate, nil
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gate = nil
		close(gate)
	}
}

// counts are the numbers of events of the appends since fail or hold.
func (s *appenderStore) counts() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tries)
}

// inAppenderBubble runs f in a synctest bubble with a stream on an appenderStore.
func inAppenderBubble(t *testing.T, f func(t *testing.T, store *appenderStore, s *reprise.Stream)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := &appenderStore{Store: memstore.New(nil)}
		log, err := reprise.Open(t.Context(), store, &reprise.Options{SweepEvery: -1})
		check(t, err)
		defer func() { check(t, errors.Join(log.Close(), store.Close())) }()
		f(t, store, create(t, log, "s", reprise.Retention{}))
	})
}

// TestAppenderKeepsEventsOnceWhenAcknowledgementIsLost: a repeat has the same number and the same events, and is
// answered with the seqs of the append that was kept.
func TestAppenderKeepsEventsOnceWhenAcknowledgementIsLost(t *testing.T) {
	for _, cause := range []error{reprise.ErrUnavailable, reprise.ErrQuota} {
		for _, stored := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/stored=%t", cause, stored), func(t *testing.T) {
				inAppenderBubble(t, func(t *testing.T, store *appenderStore, s *reprise.Stream) {
					a := s.Appender(t.Context(), &reprise.AppenderOptions{ID: "p"})
					_, err := a.Append(text("1"))
					check(t, err)
					store.fail(1, cause, stored)
					appended, err := a.Append(numbered(2, 2)...)
					if err != nil || appended.First != 2 || appended.Last != 3 || appended.Duplicate != stored {
						t.Errorf("%+v, %v", appended, err)
					}
					_, err = a.Append(text("4"))
					check(t, err)
					store.fail(1, cause, stored)
					if _, err = a.End("completed", text("5")); err != nil {
						t.Errorf("the end: %v", err)
					}
					wantNumbered(t, kept(t, s), 1, 5)
					got := info(t, s).Producers
					if len(got) != 1 || got[0].ID != "p" || got[0].Epoch != 0 || got[0].Seq != 3 {
						t.Errorf("producers %+v", got)
					}
				})
			})
		}
	}
}

// TestAppenderEndsWithEvents: the events and the end are one append, which is repeated as a whole.
func TestAppenderEndsWithEvents(t *testing.T) {
	for _, stored := range []bool{false, true} {
		t.Run(fmt.Sprintf("stored=%t", stored), func(t *testing.T) {
			inAppenderBubble(t, func(t *testing.T, store *appenderStore, s *reprise.Stream) {
				a := s.Appender(t.Context(), nil)
				store.fail(2, reprise.ErrUnavailable, stored)
				events := numbered(1, 3)
				appended, err := a.End("completed", events...)
				if err != nil || appended.First != 1 || appended.Last != 3 || appended.Duplicate != stored {
					t.Errorf("%+v, %v", appended, err)
				}
				if got := store.counts(); slices.ContainsFunc(got, func(n int) bool { return n != 3 }) {
					t.Errorf("appends of %v events, want 3 each", got)
				}
				got := kept(t, s)
				wantNumbered(t, got, 1, 3)
				if got[1].Type == reprise.TypeEnd || got[2].Type != reprise.TypeEnd || info(t, s).End == nil {
					t.Errorf("types %q and %q, end %+v", got[1].Type, got[2].Type, info(t, s).End)
				}
				if !events[2].Time.IsZero() || events[2].Type == reprise.TypeEnd {
					t.Errorf("the events of the caller were changed: %+v", events[2])
				}
			})
		})
	}
	inAppenderBubble(t, func(t *testing.T, _ *appenderStore, s *reprise.Stream) {
		if _, err := s.Appender(t.Context(), nil).End("completed"); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("without events: %v", err)
		}
		ends := reprise.Event{Type: reprise.TypeEnd}
		if _, err := s.Appender(t.Context(), nil).End("completed", ends, ends); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("two ends: %v", err)
		}
	})
}

// TestAppenderRepeatsUntilStoreAnswers: the pauses grow up to a second.
func TestAppenderRepeatsUntilStoreAnswers(t *testing.T) {
	inAppenderBubble(t, func(t *testing.T, store *appenderStore, s *reprise.Stream) {
		a := s.Appender(t.Context(), nil)
		const tries = 3000
		store.fail(tries, reprise.ErrUnavailable, false)
		began := time.Now()
		_, err := a.Append(text("1"))
		check(t, err)
		if d := time.Since(began) / tries; d < 400*time.Millisecond || d > 600*time.Millisecond {
			t.Errorf("pauses of %v, want half a second on average", d)
		}
		wantNumbered(t, kept(t, s), 1, 1)
	})
}

// TestAppenderReturnsFinalErrorsAtOnce, and can be used on.
func TestAppenderReturnsFinalErrorsAtOnce(t *testing.T) {
	inAppenderBubble(t, func(t *testing.T, store *appenderStore, s *reprise.Stream) {
		began := time.Now()
		a := s.Appender(t.Context(), &reprise.AppenderOptions{Owner: reprise.Owner{Name: "a", Fence: 1}})
		_, err := a.Append(reprise.Event{Type: reprise.TypeEnd})
		wantError(t, err, reprise.ErrInvalid)
		_, err = a.End("", reprise.Event{})
		wantError(t, err, reprise.ErrInvalid)
		_, err = a.Append(text("1"))
		check(t, err)
		taken := s.Appender(t.Context(), &reprise.AppenderOptions{Owner: reprise.Owner{Name: "b", Fence: 2}})
		_, err = taken.Append(text("2"))
		check(t, err)
		_, err = a.Append(text("x"))
		wantError(t, err, reprise.ErrFenced)
		_, err = taken.End("completed", text("3"))
		check(t, err)
		_, err = taken.Append(text("x"))
		wantError(t, err, reprise.ErrEnded)
		if d := time.Since(began); d != 0 {
			t.Errorf("it took %v", d)
		}
		wantNumbered(t, kept(t, s), 1, 3)
	})
}

// TestAppenderGivesUpWhenItsContextIsDone: also one that waits for its turn, and from then on nothing is appended.
func TestAppenderGivesUpWhenItsContextIsDone(t *testing.T) {
	inAppenderBubble(t, func(t *testing.T, store *appenderStore, s *reprise.Stream) {
		why := errors.New("why")
		life, stop := context.WithCancelCause(t.Context())
		a := s.Appender(life, nil)
		store.fail(1<<30, reprise.ErrUnavailable, false)
		errs := make(chan error, 2)
		for range cap(errs) {
			go func() {
				_, err := a.Append(text("x"))
				errs <- err
			}()
		}
		time.Sleep(time.Minute)
		stop(why)
		for range cap(errs) {
			wantError(t, <-errs, why)
		}
		store.fail(0, nil, false)
		_, err := a.Append(text("x"))
		wantError(t, err, why)
		wantError(t, a.Queue(text("x")), nil)
		wantError(t, a.Flush(), why)
		wantError(t, a.Queue(text("x")), why)
		wantNumbered(t, kept(t, s), 1, 0)
	})
}

// TestTryMakesOneTry: what is tried again after an error is kept once.
func TestTryMakesOneTry(t *testing.T) {
	inAppenderBubble(t, func(t *testing.T, store *appenderStore, s *reprise.Stream) {
		a := s.Appender(t.Context(), nil)
		began := time.Now()
		store.fail(1, reprise.ErrUnavailable, true)
		_, err := a.Try(numbered(1, 2)...)
		wantError(t, err, reprise.ErrUnavailable)
		appended, err := a.Try(numbered(1, 2)...)
		if err != nil || !appended.Duplicate || appended.Last != 2 || !time.Now().Equal(began) {
			t.Errorf("%+v, %v", appended, err)
		}
		wantNumbered(t, kept(t, s), 1, 2)
	})
}

// TestAppenderToldOfLostAppendsGoesOn: after a promotion that lost acknowledged appends the next one is refused with
// ErrConflict, once; a loss of others' events is not noticed, and a fork that lost nothing neither.
func TestAppenderToldOfLostAppendsGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFailover(t, nil)
		a := f.s.Appender(t.Context(), nil)
		_, err := a.Append(numbered(11, 2)...)
		check(t, err)
		f.lose(t, 12)
		_, err = a.Append(text("13"))
		check(t, err)
		for range 2 {
			_, err = a.Append(text("14"))
			check(t, err)
			f.lose(t, 13)
			_, err = a.Append(text("x"))
			wantError(t, err, reprise.ErrConflict)
			_, err = a.Append(text("14"))
			check(t, err)
			f.lose(t, 14)
			f.add(t, 1)
			f.lose(t, 14)
			_, err = a.Append(text("15"))
			check(t, err)
			f.lose(t, 13)
			_, err = a.End("completed", reprise.Event{})
			wantError(t, err, reprise.ErrConflict)
		}
		_, err = a.End("completed", text("14"))
		check(t, err)
		wantNumbered(t, kept(t, f.s), 1, 14)
		check(t, f.log.Close())
	})
}

// renew puts a stream into another epoch, as a store that was restarted from an older copy does: it has the events up
// to keep, which is the last of a batch, and the producers.
func (s *appenderStore) renew(t *testing.T, key reprise.StreamKey, keep uint64, producers ...reprise.Producer) {
	page, err := s.Store.Read(t.Context(), key, 0, 1<<20)
	check(t, err)
	renewed := page.Info
	renewed.Tail = keep
	renewed.Renew(reprise.NewEpoch())
	renewed.Tail, renewed.Earliest, renewed.Bytes, renewed.Producers = 0, 1, 0, producers
	check(t, s.Store.Remove(t.Context(), key, reprise.RemoveSpec{}))
	_, err = s.Store.Create(t.Context(), renewed)
	check(t, err)
	for _, b := range page.Batches {
		if b.Last() > keep {
			return
		}
		errs := s.Store.Append(t.Context(), []reprise.AppendRequest{{
			Key: key, Epoch: renewed.Epoch, First: b.First, Count: b.Count, Bytes: b.Bytes, Earliest: 1, Kept: 1,
		}})
		if errs != nil {
			t.Fatal(errs)
		}
	}
}

// TestAppenderBeginsProducerEpochWhenStoreIsOlder: the store is restarted while an append is in doubt, with all
// events, and then from an older copy, in which the producer is at an older number.
func TestAppenderBeginsProducerEpochWhenStoreIsOlder(t *testing.T) {
	inAppenderBubble(t, func(t *testing.T, store *appenderStore, s *reprise.Stream) {
		a := s.Appender(t.Context(), &reprise.AppenderOptions{ID: "p"})
		_, err := a.Append(text("1"))
		check(t, err)
		store.fail(1, reprise.ErrUnavailable, true)
		store.lost = func() { store.renew(t, s.Key(), 2, reprise.Producer{ID: "p", Seq: 1, First: 2, Last: 2}) }
		appended, err := a.Append(text("2"))
		if err != nil || appended.Last != 2 || !appended.Duplicate {
			t.Errorf("%+v, %v", appended, err)
		}
		_, err = a.Append(text("x"))
		check(t, err)

		store.fail(1, reprise.ErrUnavailable, true)
		store.lost = func() { store.renew(t, s.Key(), 2, reprise.Producer{ID: "p", Seq: 0, First: 1, Last: 1}) }
		_, err = a.Append(text("x"))
		wantError(t, err, reprise.ErrConflict)
		_, err = a.Append(text("3"))
		check(t, err)
		wantNumbered(t, kept(t, s), 1, 3)
		if got := info(t, s).Producers; len(got) != 1 || got[0].Epoch != 1 || got[0].Seq != 0 || got[0].First != 3 {
			t.Errorf("producers %+v", got)
		}
	})
}

// TestQueueAppendsTogetherWhatComesMeanwhile: in order, and the end last and alone.
func TestQueueAppendsTogetherWhatComesMeanwhile(t *testing.T) {
	inAppenderBubble(t, func(t *testing.T, store *appenderStore, s *reprise.Stream) {
		a := s.Appender(t.Context(), nil)
		release := store.hold()
		check(t, a.Queue(text("1")))
		synctest.Wait() // the first append is under way
		check(t, a.Queue(numbered(2, 2)...))
		check(t, a.Queue(numbered(4, 3)...))
		check(t, a.QueueEnd("completed", text("7")))
		wantError(t, a.Queue(text("x")), reprise.ErrEnded)
		wantError(t, a.QueueEnd("completed", text("x")), reprise.ErrEnded)
		release()
		check(t, a.Flush())
		wantNumbered(t, kept(t, s), 1, 7)
		if got, want := store.counts(), []int{1, 5, 1}; !slices.Equal(got, want) {
			t.Errorf("appends of %d events, want %d", got, want)
		}
		if got := info(t, s).End; got == nil || got.Outcome != "completed" || string(got.Data) != "7" {
			t.Errorf("the end is %+v", got)
		}
	})
}

// TestQueueRefusesWhatCannotBeAppended, and appends the rest.
func TestQueueRefusesWhatCannotBeAppended(t *testing.T) {
	inAppenderBubble(t, func(t *testing.T, _ *appenderStore, s *reprise.Stream) {
		a := s.Appender(t.Context(), nil)
		check(t, a.Queue(text("1")))
		wantError(t, a.Queue(), reprise.ErrInvalid)
		wantError(t, a.Queue(text("x"), reprise.Event{Type: strings.Repeat("x", 65)}), reprise.ErrInvalid)
		wantError(t, a.QueueEnd("", reprise.Event{}), reprise.ErrInvalid)
		check(t, a.Queue(text("2")))
		check(t, a.Flush())
		wantNumbered(t, kept(t, s), 1, 2)
	})
}

// TestQueueBoundsAppends: by events and by bytes, and the events of one call stay together.
func TestQueueBoundsAppends(t *testing.T) {
	inAppenderBubble(t, func(t *testing.T, store *appenderStore, s *reprise.Stream) {
		a := s.Appender(t.Context(), nil)
		release := store.hold()
		check(t, a.Queue(text("1")))
		synctest.Wait()
		for range 3 {
			check(t, a.Queue(slices.Repeat([]reprise.Event{text("x")}, 4_000)...))
		}
		release()
		check(t, a.Flush())
		if got, want := store.counts(), []int{1, 8000, 4000}; !slices.Equal(got, want) {
			t.Errorf("appends of %d events, want %d", got, want)
		}
		release = store.hold()
		big := reprise.Event{Data: bytes.Repeat([]byte("x"), 1<<20)}
		check(t, a.Queue(text("1")))
		synctest.Wait()
		check(t, a.Queue(big, big, big, big)) // 4 MiB, and a little more than may wait
		full := make(chan error)
		go func() { full <- a.Queue(big, big, big, big) }()
		synctest.Wait()
		select {
		case err := <-full:
			t.Errorf("Queue does not wait while 4 MiB are queued: %v", err)
		default:
		}
		release()
		check(t, <-full)
		check(t, a.Flush())
		if got, want := store.counts(), []int{1, 4, 4}; !slices.Equal(got, want) {
			t.Errorf("appends of %d events, want %d", got, want)
		}
	})
}

// TestQueueGoesOnWhenStoreIsBack: nothing is lost, doubled or out of order over an outage, whoever queues.
func TestQueueGoesOnWhenStoreIsBack(t *testing.T) {
	inAppenderBubble(t, func(t *testing.T, store *appenderStore, s *reprise.Stream) {
		a := s.Appender(t.Context(), nil)
		const writers, each = 4, 200
		store.fail(50, reprise.ErrUnavailable, true)
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for i := range each {
					if err := a.Queue(text(fmt.Sprint(w, " ", 2*i)), text(fmt.Sprint(w, " ", 2*i+1))); err != nil {
						t.Error(err)
					}
					if i%50 == 0 {
						if err := a.Flush(); err != nil {
							t.Error(err)
						}
						store.fail(3, reprise.ErrUnavailable, i%100 == 0)
					}
				}
			})
		}
		all.Wait()
		check(t, a.Flush())
		var next [writers]int
		events := kept(t, s)
		for at, e := range events {
			var w, i int
			_, err := fmt.Sscan(string(e.Data), &w, &i)
			check(t, err)
			if i != next[w] || i%2 == 1 && string(events[at-1].Data) != fmt.Sprint(w, " ", i-1) {
				t.Fatalf("event %d is %q, want %d of that writer", at, e.Data, next[w])
			}
			next[w]++
		}
		if len(events) != writers*each*2 {
			t.Errorf("%d events, want %d", len(events), writers*each*2)
		}
	})
}

// TestQueueFailsForGood: Failed is called once, before Flush returns, and those who wait for room are told.
func TestQueueFailsForGood(t *testing.T) {
	inAppenderBubble(t, func(t *testing.T, store *appenderStore, s *reprise.Stream) {
		var failed []error
		a := s.Appender(t.Context(), &reprise.AppenderOptions{Failed: func(err error) {
			time.Sleep(time.Second)
			failed = append(failed, err)
		}})
		release := store.hold()
		big := reprise.Event{Data: bytes.Repeat([]byte("x"), 1<<20)}
		check(t, a.Queue(text("1")))
		synctest.Wait()
		check(t, a.Queue(big, big, big, big))
		waits := make(chan error)
		for range 2 {
			go func() { waits <- a.Queue(text("x")) }()
		}
		go func() {
			_, err := a.Append(text("x"))
			waits <- err
		}()
		synctest.Wait()
		store.fail(1, reprise.ErrInvalid, false)
		release()
		for range 3 {
			wantError(t, <-waits, reprise.ErrInvalid)
		}
		wantError(t, a.Flush(), reprise.ErrInvalid)
		wantError(t, a.Queue(text("x")), reprise.ErrInvalid)
		if len(failed) != 1 || !errors.Is(failed[0], reprise.ErrInvalid) {
			t.Errorf("Failed was called with %v", failed)
		}
		wantNumbered(t, kept(t, s), 1, 0)
	})
}

// TestAppendComesAfterWhatIsQueued, and what is queued meanwhile after it.
func TestAppendComesAfterWhatIsQueued(t *testing.T) {
	inAppenderBubble(t, func(t *testing.T, store *appenderStore, s *reprise.Stream) {
		a := s.Appender(t.Context(), nil)
		release := store.hold()
		check(t, a.Queue(text("1")))
		check(t, a.Queue(text("2")))
		appended := make(chan reprise.Appended)
		go func() {
			got, _ := a.Append(text("3"))
			appended <- got
		}()
		synctest.Wait()
		release()
		if got := <-appended; got.First != 3 {
			t.Errorf("it is event %d, want 3", got.First)
		}
		release = store.hold()
		go func() {
			got, _ := a.Append(text("4"))
			appended <- got
		}()
		synctest.Wait()
		check(t, a.Queue(text("5")))
		release()
		<-appended
		check(t, a.Flush())
		wantNumbered(t, kept(t, s), 1, 5)
	})
}
