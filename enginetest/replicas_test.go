package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/shared"
	"reprise/store/memstore"
)

// replicas opens n Logs that share what is in a memstore.
func replicas(t *testing.T, n int, wrap func(reprise.Store) reprise.Store) []*reprise.Log {
	t.Helper()
	hub := shared.New(memstore.New(nil))
	keys := reprise.NewKeyset()
	logs := make([]*reprise.Log, n)
	for i := range logs {
		var store reprise.Store = hub.Store()
		t.Cleanup(func() { check(t, store.Close()) })
		if wrap != nil && i == n-1 {
			store = wrap(store)
		}
		logs[i] = openLog(t, store, &reprise.Options{Keys: keys, SweepEvery: -1})
	}
	return logs
}

func createOn(t *testing.T, log *reprise.Log, name string) *reprise.Stream {
	t.Helper()
	s, _, err := log.Create(t.Context(), reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name},
		reprise.StreamConfig{})
	check(t, err)
	return s
}

// TestFollowAnotherReplica (R2.10): what is appended through one replica reaches the readers of another, in
// order, live and to the end, and a cursor of the one is good at the other.
func TestFollowAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := replicas(t, 2, nil)
		writer, other := createOn(t, logs[0], "s"), createOn(t, logs[1], "s")
		var got []string
		cursor := reprise.Cursor{}
		var wg sync.WaitGroup
		wg.Go(func() {
			r, err := other.Reader(t.Context(), reprise.Earliest())
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			for e, err := range r.Events(t.Context()) {
				if err != nil {
					t.Error(err)
					return
				}
				got = append(got, string(e.Data))
				cursor = r.Cursor()
			}
		})
		for i := range 50 {
			s := writer
			if i%3 == 0 {
				s = other
			}
			_, err := s.Append(t.Context(), text(strconv.Itoa(i)))
			check(t, err)
			if i%10 == 0 {
				synctest.Wait()
			}
		}
		_, err := writer.End(t.Context(), "completed", reprise.Event{})
		check(t, err)
		wg.Wait()
		if len(got) != 51 {
			t.Fatalf("%d events, want 51", len(got))
		}
		for i := range 50 {
			if got[i] != strconv.Itoa(i) {
				t.Fatalf("event %d is %q", i+1, got[i])
			}
		}
		r, err := writer.Reader(t.Context(), reprise.After(cursor))
		check(t, err)
		defer r.Close()
		if _, err := r.Poll(t.Context()); !errors.Is(err, reprise.ErrEnded) {
			t.Errorf("the last cursor at the other replica: %v, want EOF", err)
		}
	})
}

// TestCursorOfAnotherReplicaIsAccepted: a replica never refuses a cursor of another replica because it has not yet seen
// the event.
func TestCursorOfAnotherReplicaIsAccepted(t *testing.T) {
	logs := replicas(t, 2, nil)
	a, b := createOn(t, logs[0], "s"), createOn(t, logs[1], "s")
	for i := range 100 {
		appended, err := a.Append(t.Context(), text("x"))
		check(t, err)
		r, err := b.Reader(t.Context(), reprise.After(a.Cursor(appended.Last)))
		if err != nil {
			t.Fatalf("event %d: %v", i+1, err)
		}
		check(t, r.Close())
		info, err := b.Info(t.Context())
		if err != nil || info.Tail != appended.Last {
			t.Fatalf("tail %d at the other replica (%v), want %d", info.Tail, err, appended.Last)
		}
	}
}

// TestContentionOfReplicasLosesNoAppend: appends of many writers through several replicas to one stream are all kept,
// once.
func TestContentionOfReplicasLosesNoAppend(t *testing.T) {
	const writers, each = 12, 60
	logs := replicas(t, 3, nil)
	var wg sync.WaitGroup
	for w := range writers {
		s := createOn(t, logs[w%len(logs)], "s")
		wg.Go(func() {
			for i := range each {
				producer := &reprise.ProducerID{ID: strconv.Itoa(w), Seq: uint64(i)}
				for range 1 + i%2 { // every other one is tried again
					if _, err := s.AppendWith(t.Context(), reprise.AppendOptions{Producer: producer},
						text(fmt.Sprintf("%d/%d", w, i))); err != nil {
						t.Errorf("writer %d, event %d: %v", w, i, err)
					}
				}
			}
		})
	}
	wg.Wait()
	s := createOn(t, logs[0], "s")
	_, err := s.End(t.Context(), "completed", reprise.Event{})
	check(t, err)
	next := make([]int, writers)
	r, err := s.Reader(t.Context(), reprise.Earliest())
	check(t, err)
	defer r.Close()
	count := 0
	for e, err := range r.Events(t.Context()) {
		check(t, err)
		if e.Type == reprise.TypeEnd {
			break
		}
		count++
		var w, i int
		if _, err := fmt.Sscanf(string(e.Data), "%d/%d", &w, &i); err != nil || next[w] != i {
			t.Fatalf("event %d of writer %d, want %d (%v)", i, w, next[w], err)
		}
		next[w]++
	}
	if count != writers*each {
		t.Errorf("%d events, want %d", count, writers*each)
	}
}

// TestRemovedElsewhere: when a replica removes a stream, the readers of the others learn it, and handles and names
// come to the next life.
func TestRemovedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := replicas(t, 2, nil)
		a, b := createOn(t, logs[0], "s"), createOn(t, logs[1], "s")
		_, err := a.Append(t.Context(), text("x"))
		check(t, err)
		old := a.Cursor(1)
		r, err := b.Reader(t.Context(), reprise.Earliest())
		check(t, err)
		defer r.Close()
		_, err = r.Next(t.Context())
		check(t, err)
		waiting := make(chan error, 1)
		go func() {
			_, err := r.Next(t.Context())
			waiting <- err
		}()
		synctest.Wait()
		check(t, logs[0].Remove(t.Context(), a.Key()))
		if err := <-waiting; !errors.Is(err, reprise.ErrNotFound) {
			t.Errorf("the reader got %v, want ErrNotFound", err)
		}

		// A stream that nobody watches, and whose name has another life by now.
		b = createOn(t, logs[1], "s")
		check(t, logs[0].Remove(t.Context(), a.Key()))
		a = createOn(t, logs[0], "s")
		if _, err := b.Append(t.Context(), text("y")); err != nil {
			t.Errorf("append through a handle that was not used: %v", err)
		}
		check(t, logs[0].Remove(t.Context(), a.Key()))
		a = createOn(t, logs[0], "s")
		if _, err := b.Append(t.Context(), text("z")); !errors.Is(err, reprise.ErrNotFound) {
			t.Errorf("append through a handle of the life before: %v, want ErrNotFound", err)
		}
		c, err := logs[1].Stream(t.Context(), a.Key())
		check(t, err)
		_, err = c.Reader(t.Context(), reprise.After(old))
		if window, ok := errors.AsType[*reprise.WindowError](err); !ok || window.Reason != reprise.EpochChanged {
			t.Errorf("the cursor of the first life: %v, want epoch_changed", err)
		}
	})
}

// TestTrimmedElsewhere: a reader whose events another replica has trimmed is told of the gap.
func TestTrimmedElsewhere(t *testing.T) {
	logs := replicas(t, 2, nil)
	a, b := createOn(t, logs[0], "s"), createOn(t, logs[1], "s")
	for range 10 {
		_, err := a.Append(t.Context(), text("x"))
		check(t, err)
	}
	r, err := b.Reader(t.Context(), reprise.Earliest())
	check(t, err)
	defer r.Close()
	check(t, a.Trim(t.Context(), 6))
	again, err := b.Reader(t.Context(), reprise.Earliest()) // makes the replica look
	check(t, err)
	check(t, again.Close())
	_, err = r.Poll(t.Context())
	if window, ok := errors.AsType[*reprise.WindowError](err); !ok || window.Missed() != 5 {
		t.Errorf("the reader got %v, want a gap of 5", err)
	}
	info, err := b.Info(t.Context())
	if err != nil || info.Earliest != 6 || info.Kept() != 5 {
		t.Errorf("window %d to %d (%v), want 6 to 10", info.Earliest, info.Tail, err)
	}
}

// lateReader is a shared Store whose removals wait until remove is closed. Once late is set, a read waits with what
// it has found until read is closed.
type lateReader struct {
	reprise.Store
	late         atomic.Bool
	read, remove chan struct{}
}

func (l *lateReader) Watch(key reprise.StreamKey, moved func()) (func(), error) {
	return l.Store.(reprise.Watcher).Watch(key, moved)
}

func (l *lateReader) Read(
	ctx context.Context,
	key reprise.StreamKey,
	after uint64,
	maxBytes int,
) (reprise.Page, error) {
	page, err := l.Store.Read(ctx, key, after, maxBytes)
	if l.late.CompareAndSwap(true, false) {
		<-l.read
	}
	return page, err
}

func (l *lateReader) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	<-l.remove
	return l.Store.Remove(ctx, key, spec)
}

// TestAdoptedWindowDoesNotMoveBack (G1): a page that was read before a trim of ours tells of newer events and of an
// older window. Only the newer events are taken over.
func TestAdoptedWindowDoesNotMoveBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lateReader{read: make(chan struct{}), remove: make(chan struct{})}
		logs := replicas(t, 2, func(s reprise.Store) reprise.Store { store.Store = s; return store })
		a, b := createOn(t, logs[0], "s"), createOn(t, logs[1], "s")
		_, err := b.Append(t.Context(), numbered(1, 10)...)
		check(t, err)
		trimmed := make(chan error, 1)
		go func() { trimmed <- b.Trim(t.Context(), 6) }()
		synctest.Wait()
		_, err = a.Append(t.Context(), text("11"))
		check(t, err)
		store.late.Store(true)
		asked := make(chan reprise.StreamInfo, 1)
		go func() { asked <- info(t, b) }()
		synctest.Wait()
		close(store.remove)
		synctest.Wait()
		close(store.read)
		check(t, <-trimmed)
		if got := <-asked; got.Earliest != 6 || got.Tail != 11 {
			t.Errorf("the window is %d to %d, want 6 to 11", got.Earliest, got.Tail)
		}
	})
}

// unreachable is a Store whose reads fail while it is cut off, and whose watches tell nothing.
type unreachable struct {
	reprise.Store
	mu  sync.Mutex
	cut bool
	// moved are the watches, called when the store can be reached again.
	moved []func()
}

func (u *unreachable) Watch(key reprise.StreamKey, moved func()) (func(), error) {
	u.mu.Lock()
	u.moved = append(u.moved, moved)
	u.mu.Unlock()
	return u.Store.(reprise.Watcher).Watch(key, func() {
		if !u.isCut() {
			moved()
		}
	})
}

func (u *unreachable) Read(ctx context.Context, key reprise.StreamKey, after uint64,
	maxBytes int,
) (reprise.Page, error) {
	if u.isCut() {
		return reprise.Page{}, errFault
	}
	return u.Store.Read(ctx, key, after, maxBytes)
}

func (u *unreachable) isCut() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.cut
}

func (u *unreachable) set(cut bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cut = cut
	if !cut {
		for _, moved := range u.moved {
			moved()
		}
	}
}

// TestUnreachableStore (R7.4): while a replica cannot reach the store its readers keep what is in memory, a position
// that it cannot know is not refused for good, and when the store is back all goes on.
func TestUnreachableStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store *unreachable
		logs := replicas(t, 2, func(s reprise.Store) reprise.Store {
			store = &unreachable{Store: s}
			return store
		})
		a, b := createOn(t, logs[0], "s"), createOn(t, logs[1], "s")
		_, err := a.Append(t.Context(), text("1"))
		check(t, err)
		r, err := b.Reader(t.Context(), reprise.Earliest())
		check(t, err)
		defer r.Close()
		store.set(true)
		_, err = a.Append(t.Context(), text("2"))
		check(t, err)

		if run, err := r.Poll(t.Context()); err != nil || run.Len() != 1 {
			t.Errorf("what is in memory: %d events, %v", run.Len(), err)
		}
		another, err := b.Reader(t.Context(), reprise.Earliest())
		check(t, err)
		defer another.Close()
		if _, err := b.Reader(t.Context(), reprise.After(a.Cursor(2))); !errors.Is(err, reprise.ErrUnavailable) {
			t.Errorf("a position that may be there: %v, want ErrUnavailable", err)
		}
		if _, err := b.Info(t.Context()); !errors.Is(err, reprise.ErrUnavailable) {
			t.Errorf("info: %v, want ErrUnavailable", err)
		}
		time.Sleep(time.Minute)
		store.set(false)
		run, err := r.Next(t.Context())
		if err != nil || run.Len() != 1 || run.First() != 2 {
			t.Errorf("after the outage: %d events, %v; want event 2", run.Len(), err)
		}
	})
}

// forgetful is a Store that can lose the newest events of a stream.
type forgetful struct {
	reprise.Store
	mu   sync.Mutex
	tail uint64 // what is left, if not 0
}

func (f *forgetful) Watch(key reprise.StreamKey, moved func()) (func(), error) {
	return f.Store.(reprise.Watcher).Watch(key, moved)
}

func (f *forgetful) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	page, err := f.Store.Read(ctx, key, after, maxBytes)
	if f.tail > 0 && err == nil {
		page.Info.Tail = f.tail
		page.Batches = nil
	}
	return page, err
}

// TestLostHistory: a store that has lost what it had acknowledged is noticed; nobody goes on as if
// nothing had happened.
func TestLostHistory(t *testing.T) {
	var store *forgetful
	logs := replicas(t, 1, func(s reprise.Store) reprise.Store {
		store = &forgetful{Store: s}
		return store
	})
	s := createOn(t, logs[0], "s")
	for range 3 {
		_, err := s.Append(t.Context(), text("x"))
		check(t, err)
	}
	r, err := s.Reader(t.Context(), reprise.Earliest())
	check(t, err)
	defer r.Close()
	cursor := s.Cursor(3)
	store.mu.Lock()
	store.tail = 2
	store.mu.Unlock()
	if _, err := s.Info(t.Context()); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("the handle says %v, want ErrNotFound", err)
	}
	if _, err := r.Poll(t.Context()); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("the reader says %v, want ErrNotFound", err)
	}
	s, err = logs[0].Stream(t.Context(), s.Key())
	check(t, err)
	_, err = s.Reader(t.Context(), reprise.After(cursor))
	if window, ok := errors.AsType[*reprise.WindowError](err); !ok || window.Reason != reprise.CursorAhead {
		t.Errorf("a cursor after what was lost: %v, want cursor_ahead", err)
	}
}

// TestCreateElsewhere: of replicas that create a stream at the same time exactly one makes it.
func TestCreateElsewhere(t *testing.T) {
	logs := replicas(t, 3, nil)
	for i := range 50 {
		key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: strconv.Itoa(i)}
		var wg sync.WaitGroup
		var made [3]bool
		for n, log := range logs {
			wg.Go(func() {
				_, created, err := log.Create(t.Context(), key, reprise.StreamConfig{})
				if err != nil {
					t.Error(err)
				}
				made[n] = created
			})
		}
		wg.Wait()
		count := 0
		for _, m := range made {
			if m {
				count++
			}
		}
		if count != 1 {
			t.Fatalf("stream %d was made %d times", i, count)
		}
	}
}

// counting is a Store that counts the watches that are on.
type counting struct {
	reprise.Store
	mu sync.Mutex
	on int
}

func (c *counting) Watch(key reprise.StreamKey, moved func()) (func(), error) {
	stop, err := c.Store.(reprise.Watcher).Watch(key, moved)
	c.add(1)
	return func() {
		stop()
		c.add(-1)
	}, err
}

func (c *counting) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on += n
}

func (c *counting) watches() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.on
}

// errDamaged is what a store says of events that it cannot read.
var errDamaged = errors.New("damaged")

// damaged is a Store in which event 2 of each stream cannot be read.
type damaged struct{ counting }

func (d *damaged) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	page, err := d.Store.Read(ctx, key, after, maxBytes)
	if n := len(page.Batches); n > 0 && page.Batches[0].First <= 2 && page.Batches[n-1].Last() >= 2 {
		return reprise.Page{}, errDamaged
	}
	return page, err
}

// TestDamageIsToldToReaders: readers that wait on another replica get the error of events that cannot be read there.
// Readers behind them and appends go on.
func TestDamageIsToldToReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := replicas(t, 2, func(s reprise.Store) reprise.Store { return &damaged{counting{Store: s}} })
		here, there := createOn(t, logs[0], "s"), createOn(t, logs[1], "s")
		add(t, here, text("a"))
		r := openReader(t, there, reprise.After(there.Cursor(1)))
		time.Sleep(time.Second)
		add(t, here, text("b"))
		waiting, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := r.Next(waiting); !errors.Is(err, errDamaged) {
			t.Errorf("the reader of the event got %v", err)
		}
		check(t, r.Seek(reprise.Tail()))
		add(t, here, text("c"))
		if run, err := r.Next(waiting); err != nil || run.First() != 3 {
			t.Errorf("the reader behind it got %v, %v", run, err)
		}
		if _, err := there.Append(t.Context(), text("d")); err != nil {
			t.Error(err)
		}
	})
}

// TestWatchEnds: a stream is watched once for all its readers, and no longer when it has had none for a while.
func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store *counting
		logs := replicas(t, 1, func(s reprise.Store) reprise.Store {
			store = &counting{Store: s}
			return store
		})
		s := createOn(t, logs[0], "s")
		for range 100 { // one after the other
			r, err := s.Reader(t.Context(), reprise.Earliest())
			check(t, err)
			check(t, r.Close())
		}
		if n := store.watches(); n != 1 {
			t.Errorf("%d watches for readers who follow each other, want 1", n)
		}
		r, err := s.Reader(t.Context(), reprise.Earliest())
		check(t, err)
		time.Sleep(time.Hour)
		if n := store.watches(); n != 1 {
			t.Errorf("%d watches for a reader, want 1", n)
		}
		check(t, r.Close())
		time.Sleep(time.Minute)
		if n := store.watches(); n != 0 {
			t.Errorf("%d watches without a reader", n)
		}
	})
}

// TestProducerMoves: a producer goes on at another replica with the next number, which that one has to ask the store
// about.
func TestProducerMoves(t *testing.T) {
	logs := replicas(t, 2, nil)
	handles := []*reprise.Stream{createOn(t, logs[0], "s"), createOn(t, logs[1], "s")}
	appendAs := func(n int, seq uint64) (reprise.Appended, error) {
		return handles[n].AppendWith(t.Context(),
			reprise.AppendOptions{Producer: &reprise.ProducerID{ID: "p", Seq: seq}}, text("x"))
	}
	for seq := range uint64(20) {
		appended, err := appendAs(int(seq/3)%2, seq)
		if err != nil || appended.Duplicate {
			t.Fatalf("append %d: %+v, %v", seq, appended, err)
		}
	}
	for n := range handles {
		if _, err := appendAs(n, 30); !errors.Is(err, reprise.ErrConflict) {
			t.Errorf("replica %d takes a number that leaves others out: %v", n, err)
		}
		if appended, err := appendAs(n, 19); err != nil || !appended.Duplicate || appended.First != 20 {
			t.Errorf("replica %d about the last number: %+v, %v", n, appended, err)
		}
	}
}

// readBudget is a Store that refuses reads once the budget is spent, so that a loop of them ends.
type readBudget struct {
	*shared.Store
	left int
}

func (s *readBudget) Read(
	ctx context.Context,
	key reprise.StreamKey,
	after uint64,
	maxBytes int,
) (reprise.Page, error) {
	if s.left--; s.left < 0 {
		return reprise.Page{}, fmt.Errorf("%w: more reads than anybody needs", reprise.ErrUnavailable)
	}
	return s.Store.Read(ctx, key, after, maxBytes)
}

// TestAppendAfterAnotherReplicaMovedTheWindow: a full stream whose oldest events a replica has yet to measure, and of
// which another replica has dropped just those, or a promotion has changed the epoch, is read again and appended to.
func TestAppendAfterAnotherReplicaMovedTheWindow(t *testing.T) {
	for _, promoted := range []bool{false, true} {
		t.Run(fmt.Sprintf("promoted=%t", promoted), func(t *testing.T) {
			hub := shared.New(memstore.New(nil))
			limited := &readBudget{Store: hub.Store(), left: 1 << 20}
			opts := &reprise.Options{SweepEvery: -1, Retention: reprise.Retention{MaxBytes: 2000}}
			one, other := openLog(t, hub.Store(), opts), openLog(t, limited, opts)
			writer := createOn(t, one, "s")
			fill := func() {
				for range 30 {
					add(t, writer, reprise.Event{Data: make([]byte, 100)})
				}
			}
			fill()
			late, err := other.Stream(t.Context(), writer.Key())
			check(t, err)
			fill()
			if promoted {
				check(t, hub.Lose(t.Context(), writer.Key(), info(t, writer).Tail-1))
			}
			limited.left = 20
			_, err = late.Append(t.Context(), reprise.Event{Data: make([]byte, 100)})
			check(t, err)
		})
	}
}
