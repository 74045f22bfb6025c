package reprise_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/store/memstore"
)

func configure(tb testing.TB, s *reprise.Stream, edit func(*reprise.StreamConfig)) reprise.StreamInfo {
	tb.Helper()
	state, err := s.Configure(tb.Context(), edit)
	check(tb, err)
	return state
}

// retain returns the change to a retention.
func retain(r reprise.Retention) func(*reprise.StreamConfig) {
	return func(c *reprise.StreamConfig) { c.Retention = r }
}

// TestLargerRetentionHoldsFromNextAppend: what the earlier bound has removed stays gone, and the next append removes
// nothing below the new one.
func TestLargerRetentionHoldsFromNextAppend(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		s := create(t, openLog(t, store, nil), "s", reprise.Retention{MaxEvents: 3, MaxBytes: 1 << 20})
		add(t, s, numbered(1, 5)...)
		state := configure(t, s, retain(reprise.Retention{MaxEvents: 10, MaxBytes: 1 << 20}))
		if state.Revision != 1 || state.Config.Retention.MaxEvents != 10 {
			t.Fatalf("revision %d, %+v", state.Revision, state.Config)
		}
		wantNumbered(t, kept(t, s), 3, 3)
		add(t, s, numbered(6, 7)...)
		wantNumbered(t, kept(t, s), 3, 10)
		add(t, s, numbered(13, 1)...)
		wantNumbered(t, kept(t, s), 4, 10)
	})
}

// TestSmallerRetentionTrimsAtOnce: in memory and of a stream that was read from the store, by events and by bytes.
func TestSmallerRetentionTrimsAtOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		for _, again := range []bool{false, true} {
			name := fmt.Sprint("again-", again)
			log := openLog(t, store, nil)
			s := create(t, log, name, reprise.Retention{})
			for i := range 40 {
				add(t, s, numbered(1+25*i, 25)...)
			}
			if again {
				check(t, log.Close())
				log = openLog(t, store, nil)
				var err error
				s, err = log.Stream(t.Context(), named(name))
				check(t, err)
			}
			configure(t, s, retain(reprise.Retention{MaxEvents: 400}))
			wantNumbered(t, kept(t, s), 601, 400)
			const bound = 10_000
			state := configure(t, s, retain(reprise.Retention{MaxBytes: bound}))
			counted := state.Bytes + eventOverhead*int64(state.Kept())
			if counted > bound || counted < bound/2 || state.Tail != 1000 {
				t.Errorf("%s: %d bytes are kept of events %d to %d, the bound is %d", name, counted, state.Earliest,
					state.Tail, bound)
			}
			wantBytes(t, s, 0)
			state = configure(t, s, retain(reprise.Retention{MaxBytes: 1}))
			if state.Kept() == 0 || state.Kept() > 25 {
				t.Errorf("%s: %d events are kept, want the newest batch or a part of it", name, state.Kept())
			}
			add(t, s, numbered(1001, 2)...)
			wantNumbered(t, kept(t, s), 1001, 2)
		}
	})
}

// TestSmallerRetentionIsToldToReaders (G1): one that has not received the removed events gets an error that names them.
func TestSmallerRetentionIsToldToReaders(t *testing.T) {
	for i, log := range replicas(t, 2, nil) {
		s := createOn(t, log, fmt.Sprint("s/", i))
		add(t, s, numbered(1, 20)...)
		r, err := s.Reader(t.Context(), reprise.After(s.Cursor(5)))
		check(t, err)
		defer r.Close()
		configure(t, s, retain(reprise.Retention{MaxEvents: 4}))
		_, err = r.Next(t.Context())
		window, ok := errors.AsType[*reprise.WindowError](err)
		if !ok || window.Earliest.Seq != 16 {
			t.Errorf("a reader at 5 of a stream whose first event is 17 gets %v", err)
		}
	}
}

// TestOtherReplicaLearnsRetention: at its next append, although nothing was read through it meanwhile. If it went on
// with the bound that it knows, it would remove events that are to be kept.
func TestOtherReplicaLearnsRetention(t *testing.T) {
	logs := replicas(t, 2, nil)
	small := reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: 3}}
	first, _, err := logs[0].Create(t.Context(), named("s"), small)
	check(t, err)
	other, _, err := logs[1].Create(t.Context(), named("s"), small)
	check(t, err)
	add(t, other, numbered(1, 5)...)
	configure(t, first, retain(reprise.Retention{MaxEvents: 8}))
	add(t, other, numbered(6, 4)...)
	wantNumbered(t, kept(t, other), 3, 7)
	configure(t, other, retain(reprise.Retention{MaxEvents: 2}))
	add(t, first, numbered(10, 1)...)
	for _, s := range []*reprise.Stream{first, other} {
		wantNumbered(t, kept(t, s), 9, 2)
		if state := info(t, s); state.Revision != 2 {
			t.Errorf("revision %d, want 2", state.Revision)
		}
	}
}

// TestReplicasConfigureTogether: each change is made once, on top of the others.
func TestReplicasConfigureTogether(t *testing.T) {
	const changes = 20
	logs := replicas(t, 2, nil)
	var wg sync.WaitGroup
	for i, log := range logs {
		s := createOn(t, log, "s")
		wg.Go(func() {
			for n := range changes {
				_, err := s.Configure(t.Context(), func(c *reprise.StreamConfig) {
					if c.Labels == nil {
						c.Labels = map[string]string{}
					}
					c.Labels[fmt.Sprint(i, ".", n)] = ""
				})
				if err != nil {
					t.Error(err)
				}
				if _, err := s.Append(t.Context(), text("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	state := info(t, createOnAgain(t, logs[0], "s"))
	if state.Revision != 2*changes || len(state.Config.Labels) != 2*changes || state.Tail != 2*changes {
		t.Errorf("revision %d with %d labels and %d events, want %d of each", state.Revision, len(state.Config.Labels),
			state.Tail, 2*changes)
	}
}

func createOnAgain(t *testing.T, log *reprise.Log, name string) *reprise.Stream {
	t.Helper()
	s, err := log.Stream(t.Context(), named(name))
	check(t, err)
	return s
}

// TestMaxAgeOfEndedStreamMovesItsExpiry: in both directions, and sweeps go by it.
func TestMaxAgeOfEndedStreamMovesItsExpiry(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, &reprise.Options{SweepEvery: -1})
		later := create(t, log, "later", reprise.Retention{MaxAge: time.Nanosecond})
		sooner := create(t, log, "sooner", reprise.Retention{MaxAge: time.Hour})
		for _, s := range []*reprise.Stream{later, sooner} {
			add(t, s, numbered(1, 3)...)
			_, err := s.End(t.Context(), "completed", reprise.Event{Time: time.Now().Add(-time.Minute)})
			check(t, err)
		}
		state := configure(t, later, retain(reprise.Retention{MaxAge: 2 * time.Hour}))
		if got := state.End.Expires.Sub(state.End.Time); got != 2*time.Hour {
			t.Errorf("it expires %v after its end", got)
		}
		configure(t, sooner, retain(reprise.Retention{MaxAge: time.Nanosecond}))
		_, err := log.Sweep(t.Context())
		check(t, err)
		if got := info(t, later); got.Tail != 4 {
			t.Errorf("the tail is %d", got.Tail)
		}
		_, err = log.Stream(t.Context(), sooner.Key())
		wantError(t, err, reprise.ErrExpired)
		_, err = sooner.Configure(t.Context(), retain(reprise.Retention{}))
		wantError(t, err, reprise.ErrExpired)
	})
}

// TestConfigureRefuses: what Create refuses, and what belongs to the creator.
func TestConfigureRefuses(t *testing.T) {
	log := openLog(t, memory(t), &reprise.Options{
		MaxTenantBytes: 8 << 10,
		Quota:          func(reprise.Tenant, string) reprise.Quota { return reprise.Quota{} },
	})
	s := create(t, log, "s", reprise.Retention{})
	add(t, s, numbered(1, 3)...)
	for name, edit := range map[string]func(*reprise.StreamConfig){
		"a negative bound": retain(reprise.Retention{MaxBytes: -1}),
		"Meta":             func(c *reprise.StreamConfig) { c.Meta = []byte("mine") },
		"the account": func(c *reprise.StreamConfig) {
			c.Labels = map[string]string{reprise.AccountLabel: "other"}
		},
		"a label without a name": func(c *reprise.StreamConfig) { c.Labels = map[string]string{"": "v"} },
	} {
		if _, err := s.Configure(t.Context(), edit); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	_, err := s.Configure(t.Context(), func(c *reprise.StreamConfig) {
		c.Labels = map[string]string{}
		for i := range 64 {
			c.Labels[fmt.Sprint("label", i)] = strings.Repeat("v", 256)
		}
	})
	wantError(t, err, reprise.ErrQuota)
	if state := info(t, s); state.Revision != 0 || state.Kept() != 3 {
		t.Errorf("revision %d with %d events after changes that were refused", state.Revision, state.Kept())
	}
	check(t, log.Remove(t.Context(), s.Key()))
	_, err = s.Configure(t.Context(), retain(reprise.Retention{}))
	wantError(t, err, reprise.ErrNotFound)
}

// TestConfigureCountsOverhead: labels that are added and removed are counted as those of a new stream are.
func TestConfigureCountsOverhead(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		s := create(t, log, "s", reprise.Retention{})
		usage := func() reprise.Size { return log.UsageOf(reprise.DefaultTenant, "") }
		before := usage()
		labels := map[string]string{"name": strings.Repeat("v", 200)}
		configure(t, s, func(c *reprise.StreamConfig) { c.Labels = maps.Clone(labels) })
		with := usage()
		if more := with.Overhead + with.Bytes - before.Overhead - before.Bytes; more != 204 {
			t.Errorf("a label of 204 bytes counts %d", more)
		}
		configure(t, s, func(c *reprise.StreamConfig) { c.Labels = nil })
		if after := usage(); after != before {
			t.Errorf("%+v after the label is gone, want %+v", after, before)
		}
	})
}

// untrimmed is a Store whose trims fail while failing is set.
type untrimmed struct {
	reprise.Store
	failing atomic.Bool
}

func (u *untrimmed) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	if u.failing.Load() {
		return fmt.Errorf("%w: no trims now", reprise.ErrUnavailable)
	}
	return u.Store.Remove(ctx, key, spec)
}

// TestConfigureThatCouldNotTrim: the configuration is changed. The next append trims, and so does the same change
// again, also of a stream that has ended. A crash between the two steps leaves the same.
func TestConfigureThatCouldNotTrim(t *testing.T) {
	store := &untrimmed{Store: memstore.New(nil)}
	t.Cleanup(func() { check(t, store.Close()) })
	log := openLog(t, store, nil)
	for _, ended := range []bool{false, true} {
		s := create(t, log, fmt.Sprint("ended-", ended), reprise.Retention{})
		add(t, s, numbered(1, 20)...)
		if ended {
			end(t, s)
		}
		store.failing.Store(true)
		smaller := retain(reprise.Retention{MaxEvents: 3})
		_, err := s.Configure(t.Context(), smaller)
		wantError(t, err, reprise.ErrUnavailable)
		store.failing.Store(false)
		if !ended {
			add(t, s, numbered(21, 1)...)
			wantNumbered(t, kept(t, s), 19, 3)
			continue
		}
		if state := configure(t, s, smaller); state.Kept() != 3 || state.Revision != 1 {
			t.Errorf("%d events are kept in revision %d, want 3 in revision 1", state.Kept(), state.Revision)
		}
	}
}

// TestAppendsGoOnWhileConfigured: no append fails or is lost, and the last bounds hold.
func TestAppendsGoOnWhileConfigured(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		s := create(t, openLog(t, store, nil), "s", reprise.Retention{MaxEvents: 50})
		const writers, each = 4, 60
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for range each {
					if _, err := s.Append(t.Context(), text("x")); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for n := range 30 {
			configure(t, s, retain(reprise.Retention{MaxEvents: int64(10 + n%7*10)}))
		}
		wg.Wait()
		state := configure(t, s, retain(reprise.Retention{MaxEvents: 7}))
		if state.Tail != writers*each || state.Kept() != 7 {
			t.Errorf("%d events to %d are kept, want 7 to %d", state.Kept(), state.Tail, writers*each)
		}
	})
}

// TestCreateFindsConfiguredStream: by the configuration that the stream has now.
func TestCreateFindsConfiguredStream(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		s := create(t, log, "s", reprise.Retention{MaxEvents: 5})
		configure(t, s, retain(reprise.Retention{MaxEvents: 6}))
		for range 2 {
			_, created, err := log.Create(t.Context(), s.Key(),
				reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: 6}})
			check(t, err)
			if created {
				t.Error("it is created again")
			}
			_, _, err = log.Create(t.Context(), s.Key(),
				reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: 5}})
			wantError(t, err, reprise.ErrConflict)
			check(t, log.Close())
			log = openLog(t, store, nil)
		}
	})
}
