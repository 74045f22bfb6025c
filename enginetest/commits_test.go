package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// appending appends to s in a goroutine of its own.
func appending(ctx context.Context, s *reprise.Stream, events ...reprise.Event) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := s.Append(ctx, events...)
		done <- err
	}()
	return done
}

// TestAppendsGoTogether: what comes while a commit is under way goes into the next one, whatever the streams.
func TestAppendsGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 50
		store := newGate(memory(t))
		log := openLog(t, store, &reprise.Options{SweepEvery: -1})
		first := create(t, log, "first", reprise.Retention{})
		store.shut()
		alone := appending(t.Context(), first, text("1"))
		if n := <-store.stored; n != 1 {
			t.Fatalf("a lone append went in a commit of %d", n)
		}
		waiting := make([]<-chan error, streams)
		handles := make([]*reprise.Stream, streams)
		for i := range streams {
			handles[i] = create(t, log, fmt.Sprint("s", i), reprise.Retention{})
			waiting[i] = appending(t.Context(), handles[i], numbered(1, 3)...)
		}
		synctest.Wait()
		store.open()
		check(t, <-alone)
		for _, done := range waiting {
			check(t, <-done)
		}
		if n := <-store.stored; n != streams {
			t.Errorf("the next commit had %d streams, want %d", n, streams)
		}
		for _, s := range handles {
			wantNumbered(t, kept(t, s), 1, 3)
		}
	})
}

// TestAppendsOfOneCommitAreToldTheirSeqs (G3): each is told the seqs of its own events.
func TestAppendsOfOneCommitAreToldTheirSeqs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _, s := behindGate(t)
		store.shut()
		told := make(chan string, 3)
		for _, events := range [][]reprise.Event{numbered(1, 1), numbered(2, 2), numbered(4, 3)} {
			go func() {
				a, err := s.Append(t.Context(), events...)
				told <- fmt.Sprintf("%s: %d to %d, %v", events[0].Data, a.First, a.Last, err)
			}()
			synctest.Wait()
		}
		store.open()
		got := []string{<-told, <-told, <-told}
		slices.Sort(got)
		if want := []string{"1: 1 to 1, <nil>", "2: 2 to 3, <nil>", "4: 4 to 6, <nil>"}; !slices.Equal(got, want) {
			t.Errorf("the appends were told %q, want %q", got, want)
		}
	})
}

// TestWaitForACommitIsTold: of appends that gather, the wait of the first is told with their commit.
func TestWaitForACommitIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waited []time.Duration // one commit is under way at a time
		hooks := &reprise.Hooks{Committed: func(c reprise.CommitInfo) { waited = append(waited, c.Waited) }}
		store := newGate(memory(t))
		log := openLog(t, store, &reprise.Options{SweepEvery: -1, Hooks: hooks})
		s := create(t, log, "s", reprise.Retention{})
		store.shut()
		var appends []<-chan error
		for range 3 {
			appends = append(appends, appending(t.Context(), s, text("x")))
			synctest.Wait()
			time.Sleep(time.Second)
		}
		store.open()
		for _, done := range appends {
			check(t, <-done)
		}
		if want := []time.Duration{0, 2 * time.Second}; !slices.Equal(waited, want) {
			t.Errorf("waits of %v, want %v", waited, want)
		}
	})
}

// TestLoneAppendWaitsForNobody: it is a commit of its own, made by its own goroutine.
func TestLoneAppendWaitsForNobody(t *testing.T) {
	commits := 0
	log := openLog(t, memory(t), &reprise.Options{Hooks: &reprise.Hooks{Committed: func(c reprise.CommitInfo) {
		commits++ // in the goroutine of the caller: the race detector would tell
		if c.Streams != 1 || c.Events != 2 || c.Failed != 0 {
			t.Errorf("commit %+v", c)
		}
	}}})
	s := create(t, log, "s", reprise.Retention{})
	for range 10 {
		add(t, s, numbered(1, 2)...)
	}
	if commits != 10 {
		t.Errorf("%d commits for 10 appends", commits)
	}
}

// TestConcurrentAppendsKeepTheirOrder: every acknowledged event is there once, in the order of its writer.
func TestConcurrentAppendsKeepTheirOrder(t *testing.T) {
	const writers, each, streams = 24, 60, 3
	log := openLog(t, memory(t), &reprise.Options{TailBytes: 2000})
	handles := make([]*reprise.Stream, streams)
	for i := range handles {
		handles[i] = create(t, log, fmt.Sprint(i), reprise.Retention{})
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			last := [streams]uint64{}
			for i := range each {
				n := i%4 + 1
				events := make([]reprise.Event, n)
				for k := range events {
					events[k] = text(fmt.Sprintf("%d %d %d", w, i, k))
				}
				appended, err := handles[i%streams].Append(t.Context(), events...)
				if err != nil || appended.Last-appended.First+1 != uint64(n) || appended.First <= last[i%streams] {
					t.Errorf("%+v after %d: %v", appended, last[i%streams], err)
				}
				last[i%streams] = appended.Last
			}
		})
	}
	wg.Wait()
	total := 0
	for _, s := range handles {
		seen := map[string]bool{}
		last := map[int]int{}
		for i, e := range kept(t, s) {
			var w, n, k int
			if _, err := fmt.Sscanf(string(e.Data), "%d %d %d", &w, &n, &k); err != nil {
				t.Fatal(err)
			}
			if e.Seq != uint64(i+1) || seen[string(e.Data)] || n*4+k < last[w] {
				t.Fatalf("event %d at place %d: %q, seen %v, writer was at %d", e.Seq, i+1, e.Data,
					seen[string(e.Data)], last[w])
			}
			seen[string(e.Data)], last[w] = true, n*4+k
			total++
		}
	}
	if want := writers * each / 4 * (1 + 2 + 3 + 4); total != want {
		t.Errorf("%d events, want %d", total, want)
	}
}

// TestCancelledBeforeItsTurn: who leaves the queue gets the cause at once, and what he left is not appended; the
// leader of a group that leaves does not hold up the others.
func TestCancelledBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _, s := behindGate(t)
		store.shut()
		under := appending(t.Context(), s, text("under way"))
		<-store.stored

		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		leaders := appending(ctx, s, text("left by the leader"))
		synctest.Wait()
		stays := appending(t.Context(), s, text("stays"))
		synctest.Wait()
		follower := appending(ctx, s, text("left by a follower"))
		synctest.Wait()
		cancel(cause)
		wantError(t, <-leaders, cause) // while the store is still shut
		wantError(t, <-follower, cause)
		store.open()
		check(t, <-under)
		check(t, <-stays)
		wantTexts(t, kept(t, s), 1, "under way", "stays")
	})
}

// TestCancelledInItsCommit: once the commit has begun it cannot be taken back, and its answer is waited for.
func TestCancelledInItsCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _, s := behindGate(t)
		store.shut()
		under := appending(t.Context(), s, text("1"))
		<-store.stored
		ctx, cancel := context.WithCancel(t.Context())
		next := appending(ctx, s, text("2"))
		synctest.Wait()
		store.openOne()
		check(t, <-under)
		<-store.stored // the second is in the store
		cancel()
		store.open()
		check(t, <-next)
		wantNumbered(t, kept(t, s), 1, 2)
	})
}

// TestCancelledWaiterStaysInItsCommit (G6): one of a group that another member commits waits for that commit too.
func TestCancelledWaiterStaysInItsCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _, s := behindGate(t)
		store.shut()
		under := appending(t.Context(), s, text("1"))
		synctest.Wait()
		first := appending(t.Context(), s, text("2"))
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		waiter := appending(ctx, s, text("3"))
		synctest.Wait()
		store.openOne()
		check(t, <-under)
		synctest.Wait() // the group is in the store
		cancel()
		synctest.Wait()
		select {
		case err := <-waiter:
			t.Fatalf("the append returned in its commit: %v", err)
		default:
		}
		store.open()
		check(t, <-first)
		check(t, <-waiter)
		wantNumbered(t, kept(t, s), 1, 3)
	})
}

func TestCancelledContextAppendsNothing(t *testing.T) {
	log := openLog(t, memory(t), nil)
	s := create(t, log, "s", reprise.Retention{})
	ctx, cause := aborted(t)
	_, err := s.Append(ctx, text("1"))
	wantError(t, err, cause)
	_, err = s.End(ctx, "completed", reprise.Event{})
	wantError(t, err, cause)
	wantError(t, s.Trim(ctx, 1), cause)
	if tail := info(t, s).Tail; tail != 0 {
		t.Errorf("%d events were appended", tail)
	}
}

// TestLeadershipNeverStalls: callers that come and go at any moment leave nobody waiting, and
// each event that was acknowledged is there once, each whose caller left at most once.
func TestLeadershipNeverStalls(t *testing.T) {
	const writers, each = 16, 150
	log := openLog(t, memory(t), nil)
	s := create(t, log, "s", reprise.Retention{})
	var mu sync.Mutex
	acknowledged := map[string]bool{}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				ctx, cancel := context.WithCancel(t.Context())
				if i%3 == w%3 {
					go cancel()
				}
				id := fmt.Sprint(w, " ", i)
				_, err := s.Append(ctx, text(id))
				cancel()
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				mu.Lock()
				acknowledged[id] = err == nil
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	count := map[string]int{}
	for _, e := range kept(t, s) {
		count[string(e.Data)]++
	}
	for id, ok := range acknowledged {
		if n := count[id]; ok && n != 1 || !ok && n != 0 {
			t.Errorf("event %q, acknowledged %v, is there %d times", id, ok, n)
		}
	}
}

// TestAppendCopies: what the caller does with its slices afterwards changes nothing.
func TestAppendCopies(t *testing.T) {
	log := openLog(t, memory(t), nil)
	s := create(t, log, "s", reprise.Retention{})
	events := numbered(1, 3)
	add(t, s, events...)
	for i := range events {
		events[i].Data[0], events[i].Type = 'x', "other"
	}
	wantNumbered(t, kept(t, s), 1, 3)
}

// TestManySmallAppendsInOneCommit: the cost of a group is linear in its size.
func TestManySmallAppendsInOneCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, size = 2000, 2000
		store, _, s := behindGate(t)
		store.shut()
		under := appending(t.Context(), s, text("1"))
		<-store.stored
		data := make([]byte, size)
		waiting := make([]<-chan error, calls)
		for i := range waiting {
			waiting[i] = appending(t.Context(), s, reprise.Event{Data: data})
		}
		synctest.Wait()
		store.open()
		check(t, <-under)
		for _, done := range waiting {
			check(t, <-done)
		}
		if n := len(kept(t, s)); n != calls+1 {
			t.Errorf("%d events, want %d", n, calls+1)
		}
	})
}

// TestEventTimeIsThatOfTheWallClock: an event without a time gets that of its commit, also when the wall clock was read
// a moment ago.
func TestEventTimeIsThatOfTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := openLog(t, memory(t), &reprise.Options{SweepEvery: -1})
		s := create(t, log, "s", reprise.Retention{})
		var want []time.Time
		appendNow := func() {
			add(t, s, text("e"))
			want = append(want, time.Now().Truncate(time.Millisecond))
		}
		for range 20 {
			appendNow()
			time.Sleep(300 * time.Microsecond)
		}
		for i, e := range kept(t, s) {
			if !e.Time.Equal(want[i]) {
				t.Errorf("event %d has the time %v, want %v", i+1, e.Time, want[i])
			}
		}
	})
}

// TestRefusedAppendLeavesNoBatchBehind: an append that was refused behind that of another stream has begun a batch. A
// later commit with both streams begins behind what was appended since.
func TestRefusedAppendLeavesNoBatchBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate(memory(t))
		log := openLog(t, gate, &reprise.Options{SweepEvery: -1})
		s, other := create(t, log, "s", reprise.Retention{}), create(t, log, "other", reprise.Retention{})
		under := create(t, log, "busy", reprise.Retention{})
		add(t, s, text("1"))
		inOneCommit := func(opts reprise.AppendOptions, data string) (err error) {
			gate.shut()
			first := appending(t.Context(), under, text("e"))
			synctest.Wait()
			second := appending(t.Context(), other, text("e"))
			synctest.Wait()
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, err = s.AppendWith(t.Context(), opts, text(data))
			}()
			synctest.Wait()
			gate.open()
			check(t, <-first)
			check(t, <-second)
			<-done
			return err
		}
		wantError(t, inOneCommit(producing("p", 0, 7), "refused"), reprise.ErrConflict)
		add(t, s, text("2"))
		check(t, inOneCommit(reprise.AppendOptions{}, "3"))
		wantNumbered(t, kept(t, s), 1, 3)
	})
}

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

// sharedGate is a shared store whose first append waits until open is closed, and whose append number refuse is
// refused as unavailable and stores nothing.
type sharedGate struct {
	reprise.Store
	appends atomic.Int32
	refuse  int32
	open    chan struct{}
}

func (g *sharedGate) Watch(key reprise.StreamKey, moved func()) (func(), error) {
	return g.Store.(reprise.Watcher).Watch(key, moved)
}

func (g *sharedGate) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	n := g.appends.Add(1)
	if n == 1 {
		<-g.open
	}
	if n == g.refuse {
		errs := make([]error, len(reqs))
		for i := range errs {
			errs[i] = reprise.ErrUnavailable
		}
		return errs
	}
	return g.Store.Append(ctx, reqs)
}

// TestAppendIsNotAcknowledgedWhenItsBatchFailed (G6): of two appends in one commit, one fails with its batch and the
// other is tried again because its producer is in doubt. The second try does not make a success of the first append.
func TestAppendIsNotAcknowledgedWhenItsBatchFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &sharedGate{refuse: 2, open: make(chan struct{})}
		log := replicas(t, 1, func(s reprise.Store) reprise.Store { store.Store = s; return store })[0]
		s := createOn(t, log, "s")
		type answer struct {
			reprise.Appended
			err error
		}
		first, plain, gap := make(chan answer, 1), make(chan answer, 1), make(chan answer, 1)
		try := func(to chan answer, opts reprise.AppendOptions, data string) {
			go func() {
				a, err := s.AppendWith(t.Context(), opts, text(data))
				to <- answer{a, err}
			}()
			synctest.Wait()
		}
		try(first, reprise.AppendOptions{}, "first")
		try(plain, reprise.AppendOptions{}, "in the batch that fails")
		try(gap, producing("p", 0, 7), "after a gap in the producer's numbers")
		close(store.open)

		if a := <-first; a.err != nil || a.Last != 1 {
			t.Errorf("the first append: %+v", a)
		}
		if a := <-plain; !errors.Is(a.err, reprise.ErrUnavailable) {
			t.Errorf("the append of the failed batch: %+v, want ErrUnavailable", a)
		}
		if a := <-gap; !errors.Is(a.err, reprise.ErrConflict) {
			t.Errorf("the append after a gap: %+v, want ErrConflict", a)
		}
		if tail := info(t, s).Tail; tail != 1 {
			t.Errorf("the tail is %d, want 1", tail)
		}
	})
}
