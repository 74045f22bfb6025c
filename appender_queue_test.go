package reprise_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
)

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
