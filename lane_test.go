package reprise_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/shared"
	"reprise/store/memstore"
)

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
