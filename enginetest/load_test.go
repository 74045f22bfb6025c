package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/shared"
	"reprise/store/memstore"
)

// moody is a Store whose appends fail or panic now and then, some of them after they have kept their events. It
// remembers the bytes that it was given, as stores may.
type moody struct {
	*memstore.Store
	seed maphash.Seed

	mu    sync.Mutex
	given [][]byte
	sums  []uint64
}

func (m *moody) ConcurrentAppends() int { return 3 }

func (m *moody) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	m.mu.Lock()
	for i := range reqs {
		m.given = append(m.given, reqs[i].Bytes)
		m.sums = append(m.sums, maphash.Bytes(m.seed, reqs[i].Bytes))
	}
	m.mu.Unlock()
	switch rand.N(60) {
	case 0:
		panic(errMood)
	case 1:
		_ = m.Store.Append(ctx, reqs)
		panic(errMood)
	}
	errs := make([]error, len(reqs))
	for i := range reqs {
		mood := rand.N(40)
		if mood == 0 {
			errs[i] = fmt.Errorf("%w: before", reprise.ErrUnavailable)
			continue
		}
		if failed := m.Store.Append(ctx, reqs[i:i+1]); failed != nil {
			errs[i] = failed[0]
		} else if mood == 1 {
			errs[i] = fmt.Errorf("%w: after", reprise.ErrUnavailable)
		}
	}
	return errs
}

var errMood = errors.New("a bad mood")

// changed returns the number of batches that were written over after the store had them.
func (m *moody) changed() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, b := range m.given {
		if maphash.Bytes(m.seed, b) != m.sums[i] {
			n++
		}
	}
	return n
}

// retried repeats an append until it is acknowledged. Its caller loses patience at random, and writes over the data as
// soon as the append has returned.
func retried(t *testing.T, s *reprise.Stream, p reprise.ProducerID, data string) {
	for {
		ctx, cancel := context.WithCancel(t.Context())
		var timer *time.Timer
		if rand.N(3) == 0 {
			timer = time.AfterFunc(rand.N(100*time.Microsecond), cancel)
		}
		own := []byte(data)
		opts := reprise.AppendOptions{Producer: &p}
		if rand.N(8) == 0 {
			opts.Trace = new(reprise.AppendTrace)
		}
		var err error
		panicked := panicOf(func() { _, err = s.AppendWith(ctx, opts, reprise.Event{Data: own}) })
		clear(own)
		if opts.Trace != nil {
			opts.Trace.Events = 0
		}
		if timer != nil {
			timer.Stop()
		}
		cancel()
		switch {
		case panicked != nil && panicked != errMood:
			panic(panicked)
		case panicked != nil, errors.Is(err, context.Canceled), errors.Is(err, reprise.ErrUnavailable):
		case err != nil:
			t.Errorf("append %d of %s: %v", p.Seq, p.ID, err)
			return
		default:
			return
		}
	}
}

// runsOf reads a stream from the beginning until it ends and keeps all that it was given, as slow readers do.
func runsOf(t *testing.T, s *reprise.Stream) (runs []reprise.Events) {
	r, err := s.Reader(t.Context(), reprise.Earliest())
	if err != nil {
		t.Error(err)
		return nil
	}
	defer r.Close()
	for {
		events, err := r.Next(t.Context())
		if errors.Is(err, reprise.ErrEnded) {
			return runs
		}
		if err != nil {
			t.Error(err)
			return runs
		}
		runs = append(runs, events)
	}
}

// TestAppendsUnderStress: whatever store, callers and memory do, each event of a producer that retries is there once
// and in its order, and what readers and the store were given never changes.
func TestAppendsUnderStress(t *testing.T) {
	const writers, each, streams, readers = 12, 40, 5, 2
	store := &moody{Store: memory(t).(*memstore.Store), seed: maphash.MakeSeed()}
	log := openLog(t, store, &reprise.Options{
		SweepEvery: -1, MaxStreams: streams + 3, TailBytes: 8 << 10, TailTotalBytes: 20 << 10,
	})
	handles := make([]*reprise.Stream, streams)
	for i := range handles {
		handles[i] = create(t, log, fmt.Sprint(i), reprise.Retention{MaxEvents: 1 << 20, MaxBytes: 1 << 30})
	}
	var reading, writing sync.WaitGroup
	var runs [streams][readers][]reprise.Events
	for i, s := range handles {
		for k := range readers {
			if i > 0 { // the first stream has none, so that it is evicted now and then
				reading.Go(func() { runs[i][k] = runsOf(t, s) })
			}
		}
	}
	for w := range writers {
		writing.Go(func() {
			var seqs [streams]uint64
			for n := range each {
				i := rand.N(streams)
				size := []int{1, 1, 1, 30, 700, 9000}[rand.N(6)]
				data := fmt.Sprintf("%d %d %s", w, seqs[i], strings.Repeat(string(rune('a'+w)), size))
				retried(t, handles[i], reprise.ProducerID{ID: fmt.Sprint("p", w), Seq: seqs[i]}, data)
				if seqs[i]++; n%10 == 0 { // streams come and go
					retried(t, created(t, log, fmt.Sprintf("other-%d-%d", w, n)), reprise.ProducerID{ID: "p"}, "data")
				}
			}
		})
	}
	writing.Wait()
	total := 0
	for i, s := range handles {
		retriedEnd(t, s)
		total += checkProducers(t, i, kept(t, s)) - 1
	}
	if total != writers*each {
		t.Errorf("%d events are there, %d were acknowledged", total, writers*each)
	}
	reading.Wait()
	for i := range runs {
		for _, run := range runs[i] {
			var events []reprise.Event
			for _, r := range run {
				for e := range r.All() {
					events = append(events, e)
				}
			}
			if i > 0 {
				checkProducers(t, i, events)
			}
		}
	}
	if n := store.changed(); n > 0 {
		t.Errorf("%d of %d batches were written over", n, len(store.given))
	}
}

// created creates a stream. To make room for it, Create may take part in a commit that panics.
func created(t *testing.T, log *reprise.Log, name string) (s *reprise.Stream) {
	for s == nil {
		var err error
		panicked := panicOf(func() { s, _, err = log.Create(t.Context(), named(name), reprise.StreamConfig{}) })
		if panicked == nil && err != nil {
			t.Error(err)
		}
	}
	return s
}

// retriedEnd ends a stream.
func retriedEnd(t *testing.T, s *reprise.Stream) {
	for {
		var err error
		panicked := panicOf(func() { _, err = s.End(t.Context(), "completed", reprise.Event{}) })
		if panicked == nil && (err == nil || errors.Is(err, reprise.ErrEnded)) {
			return
		}
		if panicked == nil && !errors.Is(err, reprise.ErrUnavailable) {
			t.Fatal(err)
		}
	}
}

// checkProducers checks the events of an ended stream and returns their number.
func checkProducers(t *testing.T, stream int, events []reprise.Event) int {
	t.Helper()
	next := map[int]int{}
	for i, e := range events {
		if i == len(events)-1 && e.Type == reprise.TypeEnd && e.Seq == uint64(i+1) {
			return len(events)
		}
		var w, n int
		var rest string
		if _, err := fmt.Sscan(string(e.Data), &w, &n, &rest); err != nil || e.Seq != uint64(i+1) || n != next[w] ||
			strings.Trim(rest, string(rune('a'+w))) != "" {
			t.Fatalf("stream %d, event %d at place %d is %.40q, want number %d: %v",
				stream, e.Seq, i+1, e.Data, next[w], err)
		}
		next[w]++
	}
	t.Errorf("stream %d lacks its end after %d events", stream, len(events))
	return len(events)
}

// slowDisk takes a while for each commit, and longer for a large one.
type slowDisk struct{ reprise.Store }

func (s slowDisk) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	size := 0
	for i := range reqs {
		size += len(reqs[i].Bytes)
	}
	time.Sleep(2*time.Millisecond + time.Duration(size)*time.Second/(200<<20))
	return s.Store.Append(ctx, reqs)
}

// jain is the fairness index of what parties have got: 1 where all have got the same, 1/n where one has got everything.
func jain(got []int64) float64 {
	var sum, squares float64
	for _, n := range got {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	return sum * sum / (float64(len(got)) * squares)
}

// appendsOfTenants lets 50 tenants append with 20 writers each for a while, and returns how often each could. The first
// has more writers, or appends more at a time.
func appendsOfTenants(t *testing.T, floodWriters, floodBytes int) []int64 {
	const tenants, writers, enough = 50, 20, 100 * time.Millisecond
	log := openLog(t, slowDisk{memory(t)}, &reprise.Options{SweepEvery: -1})
	ctx, stop := context.WithTimeout(t.Context(), enough)
	defer stop()
	counts := make([]atomic.Int64, tenants)
	var all sync.WaitGroup
	for i := range tenants {
		n, size := writers, 200
		if i == 0 {
			n, size = floodWriters, floodBytes
		}
		event := reprise.Event{Type: "note", Data: bytes.Repeat([]byte("x"), size)}
		for w := range n {
			key := reprise.StreamKey{Tenant: reprise.Tenant(fmt.Sprint("tenant-", i)), Name: fmt.Sprint("s", w%4)}
			config := reprise.StreamConfig{Retention: reprise.Retention{MaxBytes: 4 << 20}}
			s, _, err := log.Create(t.Context(), key, config)
			check(t, err)
			all.Go(func() {
				for ctx.Err() == nil {
					if _, err := s.Append(ctx, event); err == nil {
						counts[i].Add(1)
					} else if ctx.Err() == nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	got := make([]int64, tenants)
	for i := range counts {
		got[i] = counts[i].Load()
	}
	return got
}

// TestAppendsAreFairWhileOneTenantFloods: with as many writers as each of the others, one that appends a thousand
// times as much at a time gets no more turns than they. With twenty times as many writers it has more turns, in the
// commits that the others' appends are in too: each of those has as many as every other, and nearly as many as without.
func TestAppendsAreFairWhileOneTenantFloods(t *testing.T) {
	var calm int64
	for _, tt := range []struct {
		name           string
		writers, bytes int
		compared       int // the first tenant of those who are
	}{
		{"calm", 20, 200, 0},
		{"large appends", 20, 200 << 10, 0},
		{"many writers", 400, 200, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			got := appendsOfTenants(t, tt.writers, tt.bytes)
			if index := jain(got[tt.compared:]); index < 0.95 {
				t.Errorf("%s: the fairness index is %.3f: %v", tt.name, index, got)
			}
			switch {
			case calm == 0:
				calm = got[1]
			case tt.compared == 1 && got[1] < calm*3/4:
				t.Errorf("%s: another tenant has %d turns, %d without the flood", tt.name, got[1], calm)
			}
		})
	}
}

// slowAside is a Store of which everything but Append, Create and List waits until free is closed, for the streams of
// one tenant.
type slowAside struct {
	reprise.Store
	tenant reprise.Tenant
	armed  atomic.Bool
	free   chan struct{}
}

func (s *slowAside) wait(tenant reprise.Tenant) {
	if s.armed.Load() && tenant == s.tenant {
		<-s.free
	}
}

func (s *slowAside) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	s.wait(key.Tenant)
	return s.Store.Read(ctx, key, after, maxBytes)
}

func (s *slowAside) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	s.wait(key.Tenant)
	return s.Store.Remove(ctx, key, spec)
}

func (s *slowAside) Sweep(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
	s.wait(s.tenant)
	return s.Store.(reprise.Sweeper).Sweep(ctx, now, remember, limit)
}

// TestAppendDoesNotWaitForStoreOperationsOfOthers (G7): whatever one tenant makes the store read or remove, an append
// of another tenant does not wait for it.
func TestAppendDoesNotWaitForStoreOperationsOfOthers(t *testing.T) {
	const slow = reprise.Tenant("slow")
	for name, operation := range map[string]func(*testing.T, *reprise.Log, *reprise.Stream) error{
		"append to a full stream that came back into memory": func(t *testing.T, _ *reprise.Log,
			s *reprise.Stream,
		) error {
			_, err := s.Append(t.Context(), reprise.Event{Data: make([]byte, 1000)})
			return err
		},
		"trim": func(t *testing.T, _ *reprise.Log, s *reprise.Stream) error { return s.Trim(t.Context(), 50) },
		"remove": func(t *testing.T, log *reprise.Log,
			s *reprise.Stream,
		) error {
			return log.Remove(t.Context(), s.Key())
		},
		"sweep": func(t *testing.T, log *reprise.Log, _ *reprise.Stream) error {
			_, err := log.Sweep(t.Context())
			return err
		},
		"read": func(t *testing.T, _ *reprise.Log, s *reprise.Stream) error {
			r, err := s.Reader(t.Context(), reprise.Earliest())
			if err != nil {
				return err
			}
			defer r.Close()
			_, err = r.Poll(t.Context())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &slowAside{Store: memstore.New(nil), tenant: slow, free: make(chan struct{})}
				defer store.Close()
				config := reprise.StreamConfig{Retention: reprise.Retention{MaxBytes: 2000}}
				key := reprise.StreamKey{Tenant: slow, Name: "full"}
				first := openLog(t, store, &reprise.Options{SweepEvery: -1})
				s, _, err := first.Create(t.Context(), key, config)
				check(t, err)
				add(t, s, numbered(1, 100)...)
				for i := range 100 {
					add(t, s, text(fmt.Sprint(i)))
				}
				check(t, first.Close())

				log := openLog(t, store, &reprise.Options{SweepEvery: -1})
				s, err = log.Stream(t.Context(), key)
				check(t, err)
				other := create(t, log, "other", reprise.Retention{})
				store.armed.Store(true)
				done := make(chan error, 1)
				go func() { done <- operation(t, log, s) }()
				synctest.Wait()
				if len(done) > 0 {
					t.Fatal("the operation did not use the store")
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err = other.Append(ctx, text("at once"))
				check(t, err)
				close(store.free)
				check(t, <-done)
			})
		})
	}
}

// TestAppendWaitsWhileItsStreamIsRemoved: an append that comes while the store removes its stream does not bring it
// back.
func TestAppendWaitsWhileItsStreamIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowAside{Store: memstore.New(nil), tenant: reprise.DefaultTenant, free: make(chan struct{})}
		defer store.Close()
		log := openLog(t, store, &reprise.Options{SweepEvery: -1})
		s := create(t, log, "s", reprise.Retention{})
		add(t, s, text("1"))
		store.armed.Store(true)
		removed, appended := make(chan error, 1), make(chan error, 1)
		go func() { removed <- log.Remove(t.Context(), s.Key()) }()
		synctest.Wait()
		go func() {
			_, err := s.Append(t.Context(), text("2"))
			appended <- err
		}()
		synctest.Wait()
		if len(appended) > 0 {
			t.Errorf("the append did not wait: %v", <-appended)
		}
		close(store.free)
		check(t, <-removed)
		wantError(t, <-appended, reprise.ErrNotFound)
		if page, err := store.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 1}); err != nil ||
			len(page.Streams) != 0 {
			t.Errorf("the store has %d streams, %v", len(page.Streams), err)
		}
	})
}

// lanes is a shared Store that takes several commits at a time, and counts them.
type lanes struct {
	reprise.Store
	at        int
	now, most atomic.Int32
	latency   time.Duration
	streams   sync.Map // those that a commit is under way for
	together  atomic.Bool
}

func (l *lanes) ConcurrentAppends() int { return l.at }

func (l *lanes) Watch(key reprise.StreamKey, moved func()) (func(), error) {
	return l.Store.(reprise.Watcher).Watch(key, moved)
}

func (l *lanes) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	now := l.now.Add(1)
	defer l.now.Add(-1)
	for most := l.most.Load(); now > most && !l.most.CompareAndSwap(most, now); most = l.most.Load() {
	}
	for i := range reqs {
		if _, busy := l.streams.LoadOrStore(reqs[i].Key, true); busy {
			l.together.Store(true)
		}
		defer l.streams.Delete(reqs[i].Key)
	}
	time.Sleep(l.latency)
	return l.Store.Append(ctx, reqs)
}

// TestCommitsOfDifferentStreamsAreUnderWayTogether: a Log has as many commits under way as the Store takes, never two
// of the same stream, and the events of each appender keep their order.
func TestCommitsOfDifferentStreamsAreUnderWayTogether(t *testing.T) {
	for _, at := range []int{1, 4} {
		t.Run(fmt.Sprintf("at=%d", at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &lanes{Store: shared.New(memstore.New(nil)).Store(), at: at, latency: time.Millisecond}
				defer store.Close()
				log := openLog(t, store, &reprise.Options{SweepEvery: -1, MaxStreams: 8, TailTotalBytes: 1 << 10})
				var wg sync.WaitGroup
				for i := range 32 {
					s := createOn(t, log, fmt.Sprint("s", i))
					for range 2 {
						wg.Go(func() {
							last := uint64(0)
							for range 20 {
								a, err := s.Append(t.Context(), text("x"))
								check(t, err)
								if a.First <= last {
									t.Errorf("event %d after %d", a.First, last)
								}
								last = a.Last
							}
						})
					}
				}
				wg.Wait()
				if most := int(store.most.Load()); most != at {
					t.Errorf("%d commits were under way together, want %d", most, at)
				}
				if store.together.Load() {
					t.Error("two commits of one stream were under way together")
				}
				for i := range 32 {
					s, err := log.Stream(t.Context(), named(fmt.Sprint("s", i)))
					check(t, err)
					if tail := info(t, s).Tail; tail != 40 {
						t.Errorf("stream %d has %d events", i, tail)
					}
				}
			})
		})
	}
}
