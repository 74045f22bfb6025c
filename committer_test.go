package reprise_test

import (
	"context"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/store/memstore"
)

// slowAppend is a Store whose commits take a millisecond and are counted.
type slowAppend struct {
	*memstore.Store
	commits atomic.Int64
}

func (s *slowAppend) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	s.commits.Add(1)
	time.Sleep(time.Millisecond)
	return s.Store.Append(ctx, reqs)
}

// TestAppendersShareCommits: appenders that each wait for their event before they append the next are in one commit
// together. With a commit for the first who comes back, and one for all others, there are twice as many.
func TestAppendersShareCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const appenders, rounds = 40, 50
		store := &slowAppend{Store: memstore.New(nil)}
		log := openLog(t, store, &reprise.Options{SweepEvery: -1})
		s := create(t, log, "s", reprise.Retention{})
		var wg sync.WaitGroup
		for range appenders {
			wg.Go(func() {
				for range rounds {
					if _, err := s.Append(t.Context(), text("e")); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if n := store.commits.Load(); n > rounds*3/2 {
			t.Errorf("%d commits for %d events of %d appenders, %d at most are expected",
				n, rounds*appenders, appenders, rounds*3/2)
		}
		info, err := s.Info(t.Context())
		check(t, err)
		if info.Tail != rounds*appenders {
			t.Errorf("%d events are there, %d were acknowledged", info.Tail, rounds*appenders)
		}
	})
}

// TestLargeAppendDoesNotWaitForLaterOnes: an append that leaves no room for others in a commit is in the second commit
// after the one that is under way, however many small appends come meanwhile. That one may begin after the count.
func TestLargeAppendDoesNotWaitForLaterOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowAppend{Store: memstore.New(nil)}
		log := openLog(t, store, &reprise.Options{SweepEvery: -1})
		s := create(t, log, "s", reprise.Retention{})
		large := largestAppend(t, s)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				for ctx.Err() == nil {
					if _, err := s.Append(t.Context(), text("e")); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range 20 {
			time.Sleep(10 * time.Millisecond)
			before := store.commits.Load()
			_, err := s.Append(t.Context(), large...)
			check(t, err)
			if n := store.commits.Load() - before; n > 3 {
				t.Errorf("%d commits came until the large append was kept", n)
			}
		}
		stop()
		wg.Wait()
	})
}

// largestAppend returns the events of the largest append that s takes.
func largestAppend(t *testing.T, s *reprise.Stream) []reprise.Event {
	t.Helper()
	events := make([]reprise.Event, 9)
	for i := range 8 {
		events[i] = text(strings.Repeat("x", 1<<20-1<<10))
	}
	size := sort.Search(1<<20, func(n int) bool {
		events[8] = text(strings.Repeat("x", n))
		_, err := s.Append(t.Context(), events...)
		return err != nil
	}) - 1
	events[8] = text(strings.Repeat("x", size))
	return events
}
