package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/store/memstore"
)

// createIdle makes a stream that may be idle for bound.
func createIdle(tb testing.TB, log *reprise.Log, name string, bound time.Duration) *reprise.Stream {
	tb.Helper()
	s, _, err := log.Create(tb.Context(), named(name), reprise.StreamConfig{
		Retention: reprise.Retention{MaxAge: time.Hour},
		Labels:    map[string]string{reprise.MaxIdleLabel: bound.String()},
	})
	check(tb, err)
	return s
}

// wantSweep sweeps and compares the number of ended and of removed streams.
func wantSweep(tb testing.TB, log *reprise.Log, idle, removed int64) {
	tb.Helper()
	result, err := log.Sweep(tb.Context())
	check(tb, err)
	if result.Idle != idle || result.Streams != removed {
		tb.Fatalf("%d streams were ended and %d removed, want %d and %d", result.Idle, result.Streams, idle, removed)
	}
}

// TestIdleStreamEndsAndExpires (G4): the bound counts from the newest event, readers get the end, and the stream then
// expires as any other.
func TestIdleStreamEndsAndExpires(t *testing.T) {
	sweeping(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, &reprise.Options{SweepEvery: -1})
		defer log.Close()
		s, open := createIdle(t, log, "s", time.Hour), create(t, log, "open", reprise.Retention{})
		r := openReader(t, s, reprise.Earliest())
		for i := range 3 {
			time.Sleep(59 * time.Minute)
			wantSweep(t, log, 0, 0)
			add(t, s, numbered(i+1, 1)...)
		}
		time.Sleep(59 * time.Minute)
		wantSweep(t, log, 0, 0) // which sees the newest event
		time.Sleep(time.Minute - time.Millisecond)
		wantSweep(t, log, 0, 0)
		time.Sleep(time.Millisecond)
		wantSweep(t, log, 1, 0)
		events, ended := drain(t, r)
		if len(events) != 4 || !ended || events[3].Type != reprise.TypeEnd {
			t.Fatalf("%d events, ended %v", len(events), ended)
		}
		wantNumbered(t, events[:3], 1, 3)
		end := info(t, s).End
		data := `{"outcome":"failed","data":{"code":"idle","max_idle":"1h0m0s"}}`
		if end == nil || end.Outcome != "failed" || string(end.Data) != data ||
			!end.Expires.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("%+v", end)
		}
		_, err := s.Append(t.Context(), text("late"))
		wantError(t, err, reprise.ErrEnded)
		wantSweep(t, log, 0, 0)
		time.Sleep(time.Hour)
		wantSweep(t, log, 0, 1)
		time.Sleep(1000 * time.Hour)
		wantSweep(t, log, 0, 0)
		add(t, open, text("still open"))
	})
}

// TestIdlenessOutlivesARestart: the time before the restart counts, but a stream is ended only after the new Log has
// seen it unchanged.
func TestIdlenessOutlivesARestart(t *testing.T) {
	sweeping(t, func(t *testing.T, store reprise.Store) {
		opts := &reprise.Options{SweepEvery: -1}
		log := openLog(t, store, opts)
		never, once := createIdle(t, log, "never", time.Hour), createIdle(t, log, "once", time.Hour)
		add(t, once, text("1"))
		time.Sleep(20 * time.Minute)
		used := createIdle(t, log, "used", time.Hour)
		add(t, used, text("1"))
		check(t, log.Close())

		time.Sleep(40 * time.Minute)
		log = openLog(t, store, opts)
		defer log.Close()
		wantSweep(t, log, 0, 0)
		time.Sleep(time.Minute - time.Millisecond)
		wantSweep(t, log, 0, 0)
		time.Sleep(time.Millisecond)
		wantSweep(t, log, 2, 0)
		time.Sleep(19*time.Minute - time.Millisecond)
		wantSweep(t, log, 0, 0)
		time.Sleep(time.Millisecond)
		wantSweep(t, log, 1, 0)
		for _, s := range []*reprise.Stream{never, once, used} {
			again, err := log.Stream(t.Context(), s.Key())
			check(t, err)
			if info(t, again).End == nil {
				t.Errorf("%s is open", s.Key())
			}
		}
	})
}

// TestWhoIsNeverIdle: streams with an owner, of namespaces unless their label says so, and of the system.
func TestWhoIsNeverIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &observed{Store: memstore.New(nil)}
		defer store.Close()
		log := openLog(t, store, &reprise.Options{SweepEvery: -1, MaxIdle: time.Hour})
		defer log.Close()
		labelled := reprise.StreamConfig{Labels: map[string]string{reprise.MaxIdleLabel: "30m"}}
		owner := reprise.Owner{Name: "r1", Fence: 1}
		owned, _, err := log.CreateWith(t.Context(), reprise.CreateOptions{Owner: owner}, named("owned"), labelled)
		check(t, err)
		taken := createIdle(t, log, "taken", time.Hour)
		_, err = taken.AppendWith(t.Context(), reprise.AppendOptions{Owner: owner}, text("1"))
		check(t, err)
		queue, _, err := log.Create(t.Context(), named("queue:q"), reprise.StreamConfig{})
		check(t, err)
		system, _, err := log.Create(t.Context(), reprise.StreamKey{Tenant: reprise.SystemTenant, Name: "s"}, labelled)
		check(t, err)

		time.Sleep(2 * time.Hour)
		wantSweep(t, log, 0, 0) // it reads the stream that was taken over
		before := store.reads.Load()
		time.Sleep(1000 * time.Hour)
		wantSweep(t, log, 0, 0)
		if n := store.reads.Load() - before; n != 0 {
			t.Errorf("%d reads for streams that are never idle", n)
		}
		for _, s := range []*reprise.Stream{owned, taken, queue, system} {
			if info(t, s).End != nil {
				t.Errorf("%s has ended", s.Key())
			}
		}
		call, _, err := log.Create(t.Context(), named("queue:labelled"), labelled)
		check(t, err)
		plain := create(t, log, "plain", reprise.Retention{})
		time.Sleep(2 * time.Hour)
		wantSweep(t, log, 2, 0)
		if info(t, call).End == nil || info(t, plain).End == nil {
			t.Error("a stream with a bound is open")
		}
	})
}

// TestEventsOfThePastEndNoStream: a stream to which old events are copied is used.
func TestEventsOfThePastEndNoStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		defer store.Close()
		log := openLog(t, store, &reprise.Options{SweepEvery: -1, MaxStreams: 1})
		defer log.Close()
		s, other := createIdle(t, log, "s", time.Hour), create(t, log, "other", reprise.Retention{})
		for range 10 {
			add(t, s, reprise.Event{Data: []byte("old"), Time: time.Now().AddDate(-1, 0, 0)})
			add(t, other, text("s leaves memory"))
			for range 2 {
				time.Sleep(25 * time.Minute)
				wantSweep(t, log, 0, 0)
			}
		}
		time.Sleep(time.Hour)
		first, err := log.Sweep(t.Context())
		check(t, err)
		time.Sleep(time.Hour)
		second, err := log.Sweep(t.Context())
		check(t, err)
		if first.Idle+second.Idle != 1 {
			t.Errorf("%d and %d streams were ended", first.Idle, second.Idle)
		}
	})
}

// observed is a Store whose calls are counted and can be followed by something else.
type observed struct {
	reprise.Store
	lists, reads atomic.Int64
	afterRead    func(reprise.StreamKey)
}

func (o *observed) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	o.lists.Add(1)
	return o.Store.List(ctx, q)
}

func (o *observed) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	page, err := o.Store.Read(ctx, key, after, maxBytes)
	o.reads.Add(1)
	if f := o.afterRead; f != nil {
		o.afterRead = nil
		f(key)
	}
	return page, err
}

// TestSweepListsNoStreamsForIdleOnes: all streams are listed once.
func TestSweepListsNoStreamsForIdleOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &observed{Store: sweeper{memstore.New(nil)}}
		defer store.Close()
		log := openLog(t, struct {
			*observed
			reprise.Sweeper
		}{store, store.Store.(reprise.Sweeper)}, &reprise.Options{SweepEvery: -1})
		defer log.Close()
		for i := range 100 {
			createIdle(t, log, fmt.Sprint(i), 24*time.Hour)
		}
		wantSweep(t, log, 0, 0)
		lists, reads := store.lists.Load(), store.reads.Load()
		for range 200 {
			time.Sleep(5 * time.Minute)
			wantSweep(t, log, 0, 0)
		}
		if l, r := store.lists.Load()-lists, store.reads.Load()-reads; l != 0 || r != 0 {
			t.Errorf("%d lists and %d reads in 200 sweeps", l, r)
		}
	})
}

// sweeper is a Store that is a Sweeper and nothing else.
type sweeper struct{ *memstore.Store }

// TestIdleStreamsBeyondTheBound are found by later lists, also if those that are known are used.
func TestIdleStreamsBeyondTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		defer store.Close()
		log := openLog(t, store, &reprise.Options{SweepEvery: -1, MaxStreams: 3})
		defer log.Close()
		used := make([]*reprise.Stream, 4)
		for i := range used {
			used[i] = createIdle(t, log, fmt.Sprint("used", i), time.Hour)
		}
		for i := range 8 {
			createIdle(t, log, fmt.Sprint(i), time.Hour)
		}
		var ended int64
		for range 24 * 12 {
			for _, s := range used {
				add(t, s, text("x"))
			}
			time.Sleep(5 * time.Minute)
			result, err := log.Sweep(t.Context())
			check(t, err)
			ended += result.Idle
		}
		if ended != 8 {
			t.Errorf("%d of 8 idle streams were ended within a day", ended)
		}
		for _, s := range used {
			add(t, s, text("open"))
		}
	})
}

// TestAppendPreventsAnIdleEnd (G6): an append between the look at a stream and its end, at the same Log or at another
// replica, is kept, and the stream stays open.
func TestAppendPreventsAnIdleEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store *observed
		logs := replicas(t, 2, func(s reprise.Store) reprise.Store {
			store = &observed{Store: s}
			return struct {
				*observed
				reprise.Watcher
			}{store, s.(reprise.Watcher)}
		})
		for i, by := range logs {
			s := createIdle(t, logs[1], fmt.Sprint(i), time.Hour)
			add(t, s, text("1"))
			time.Sleep(time.Hour)
			_, err := logs[1].Sweep(t.Context()) // sees the event
			check(t, err)
			time.Sleep(time.Minute)
			writer, err := by.Stream(t.Context(), s.Key())
			check(t, err)
			store.afterRead = func(key reprise.StreamKey) {
				if key != s.Key() {
					t.Errorf("%s is looked at", key)
				}
				add(t, writer, text("2"))
			}
			result, err := logs[1].Sweep(t.Context())
			if err != nil || result.Idle != 0 || store.afterRead != nil {
				t.Errorf("the sweep: %+v, %v", result, err)
			}
			wantTexts(t, kept(t, s), 1, "1", "2")
			add(t, s, text("3"))
			end(t, s) // so that the next round has no other stream to look at
		}
	})
}

// TestAppendOfTheSameCommitPreventsAnIdleEnd: the append came first.
func TestAppendOfTheSameCommitPreventsAnIdleEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newGate(memory(t))
		log := openLog(t, store, &reprise.Options{SweepEvery: -1})
		s, other := createIdle(t, log, "s", time.Nanosecond), create(t, log, "other", reprise.Retention{})
		store.shut()
		under := appending(t.Context(), other, text("1"))
		<-store.stored
		first := appending(t.Context(), s, text("1"))
		time.Sleep(time.Second) // longer than s may be idle
		swept := make(chan reprise.SweepResult, 1)
		go func() {
			result, err := log.Sweep(t.Context())
			if err != nil {
				t.Error(err)
			}
			swept <- result
		}()
		synctest.Wait()
		store.open()
		check(t, <-under)
		check(t, <-first)
		if result := <-swept; result.Idle != 0 {
			t.Errorf("%+v", result)
		}
		add(t, s, text("2"))
	})
}

// TestReplicasEndAnIdleStreamOnce: of replicas that sweep, one ends it; one that has not seen the appends of another
// does not.
func TestReplicasEndAnIdleStreamOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := replicas(t, 3, nil)
		var used []*reprise.Stream
		for i, log := range logs {
			createIdle(t, logs[0], fmt.Sprint("idle", i), time.Hour)
			used = append(used, createIdle(t, log, "used", time.Hour))
		}
		var ended int64
		for range 30 {
			var wg sync.WaitGroup
			var sum atomic.Int64
			for _, log := range logs {
				wg.Go(func() {
					result, err := log.Sweep(t.Context())
					sum.Add(result.Idle)
					if err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			ended += sum.Load()
			add(t, used[0], text("x"))
			time.Sleep(5 * time.Minute)
		}
		if ended != 3 {
			t.Errorf("%d ends of 3 streams", ended)
		}
		for i, s := range used {
			if info(t, s).End != nil {
				t.Errorf("the stream in use was ended, says replica %d", i)
			}
		}
	})
}

// TestIdleStreamOfADeadReplica: another one finds and ends it.
func TestIdleStreamOfADeadReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := replicas(t, 2, nil)
		wantSweep(t, logs[1], 0, 0)
		s := createIdle(t, logs[0], "s", time.Hour)
		_, err := logs[1].Stream(t.Context(), s.Key()) // its memory lags behind the store from now on
		check(t, err)
		add(t, s, text("1"))
		check(t, logs[0].Close())
		var ended int64
		for range 26 {
			time.Sleep(5 * time.Minute)
			result, err := logs[1].Sweep(t.Context())
			check(t, err)
			ended += result.Idle
		}
		if ended != 1 {
			t.Errorf("%d ends", ended)
		}
	})
}

// TestIdleEndsAndAppendsCompete (G4, G6): writers append to streams whose bound is over all the time. What was
// acknowledged is kept, before the end.
func TestIdleEndsAndAppendsCompete(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, &reprise.Options{SweepEvery: -1})
		const streams = 30
		ctx, cancel := context.WithCancel(t.Context())
		var sweeps, writers sync.WaitGroup
		for range 2 {
			sweeps.Go(func() {
				for ctx.Err() == nil {
					if _, err := log.Sweep(ctx); err != nil && ctx.Err() == nil {
						t.Error(err)
						cancel()
					}
				}
			})
		}
		for i := range streams {
			s := createIdle(t, log, fmt.Sprint(i), time.Microsecond)
			writers.Go(func() {
				acknowledged := 0
				for { // it is ended soon
					appended, err := s.Append(ctx, numbered(acknowledged+1, 1)...)
					if errors.Is(err, reprise.ErrEnded) {
						break
					}
					acknowledged++
					if err != nil || appended.Last != uint64(acknowledged) {
						t.Errorf("append %d: %+v, %v", acknowledged, appended, err)
						return
					}
				}
				if end := info(t, s); end.End == nil || end.Tail != uint64(acknowledged)+1 {
					t.Errorf("the tail is %d after %d appends", end.Tail, acknowledged)
				}
			})
		}
		writers.Wait()
		cancel()
		sweeps.Wait()
	})
}

// TestIdleEndOfAFailingStore: the end is tried again, and there is one.
func TestIdleEndOfAFailingStore(t *testing.T) {
	for _, stored := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := newFaulty(memstore.New(nil))
			defer store.Close()
			log := openLog(t, store, &reprise.Options{SweepEvery: -1})
			defer log.Close()
			s := createIdle(t, log, "s", time.Hour)
			wantSweep(t, log, 0, 0)
			time.Sleep(time.Hour)
			fails := &store.before
			if stored {
				fails = &store.after
			}
			fails.Store(true)
			_, err := log.Sweep(t.Context())
			wantError(t, err, reprise.ErrUnavailable)
			fails.Store(false)
			_, err = log.Sweep(t.Context())
			check(t, err)
			if events := kept(t, s); len(events) != 1 || events[0].Type != reprise.TypeEnd {
				t.Errorf("%d events are kept", len(events))
			}
		})
	}
}

func TestMaxIdleLabelIsChecked(t *testing.T) {
	log := openLog(t, memory(t), nil)
	for _, bound := range []string{"", "0s", "-1h", "1 day", "24", strings.Repeat("1", 30) + "h"} {
		_, _, err := log.Create(t.Context(), named("s"), reprise.StreamConfig{
			Labels: map[string]string{reprise.MaxIdleLabel: bound},
		})
		wantError(t, err, reprise.ErrInvalid)
	}
	_, err := reprise.Open(t.Context(), memory(t), &reprise.Options{MaxIdle: -1})
	wantError(t, err, reprise.ErrInvalid)
}

// sweeping runs f in a bubble, over a store that finds expired streams by itself and over one
// that has to be listed.
func sweeping(t *testing.T, f func(*testing.T, reprise.Store)) {
	t.Helper()
	for _, able := range []bool{true, false} {
		t.Run(fmt.Sprint("sweeper=", able), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var store reprise.Store = memstore.New(nil)
				if !able {
					store = newFaulty(store)
				}
				defer store.Close()
				f(t, store)
			})
		})
	}
}

// TestAgeCountsFromTheEnd: it counts from the end, and what has not ended stays.
func TestAgeCountsFromTheEnd(t *testing.T) {
	sweeping(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, &reprise.Options{SweepEvery: -1, Remember: 24 * time.Hour})
		defer log.Close()
		config := reprise.StreamConfig{Retention: reprise.Retention{MaxAge: time.Hour}}
		s, _, err := log.Create(t.Context(), named("ends"), config)
		check(t, err)
		open := create(t, log, "open", reprise.Retention{MaxAge: time.Hour})
		add(t, s, numbered(1, 5)...)
		add(t, open, numbered(1, 5)...)
		bytes := info(t, s).Bytes
		r := openReader(t, s, reprise.Earliest())
		time.Sleep(2 * time.Hour)
		end(t, s)
		if expires := info(t, s).End.Expires; !expires.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("it expires at %v", expires)
		}

		time.Sleep(time.Hour - time.Millisecond)
		result, err := log.Sweep(t.Context())
		if err != nil || result.Streams != 0 {
			t.Fatalf("a moment too early: %+v, %v", result, err)
		}
		time.Sleep(time.Millisecond)
		result, err = log.Sweep(t.Context())
		if err != nil || result.Streams != 1 || result.Events != 6 || result.Bytes <= bytes {
			t.Fatalf("%+v, %v", result, err)
		}
		for range 2 {
			_, err = r.Poll(t.Context())
			wantError(t, err, reprise.ErrExpired)
		}
		_, err = s.Info(t.Context())
		wantError(t, err, reprise.ErrExpired)
		_, err = log.Stream(t.Context(), named("ends"))
		wantError(t, err, reprise.ErrExpired)
		time.Sleep(24*time.Hour + time.Millisecond)
		_, err = log.Stream(t.Context(), named("ends"))
		wantError(t, err, reprise.ErrNotFound)
		wantNumbered(t, kept(t, open), 1, 5)
	})
}

// TestNameOfASweptStream is free again at once, for another life.
func TestNameOfASweptStream(t *testing.T) {
	sweeping(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, &reprise.Options{SweepEvery: -1})
		defer log.Close()
		s := create(t, log, "s", reprise.Retention{MaxAge: time.Minute})
		end(t, s)
		old := s.Cursor(1)
		time.Sleep(time.Minute)
		_, err := log.Sweep(t.Context())
		check(t, err)
		again := create(t, log, "s", reprise.Retention{MaxAge: time.Minute})
		_, err = again.Reader(t.Context(), reprise.After(old))
		windowError(t, err, reprise.EpochChanged)
		_, err = log.Sweep(t.Context())
		check(t, err)
		add(t, again, text("1"))
		wantNumbered(t, kept(t, again), 1, 1)
	})
}

// TestSweepByItself: in the background, and more streams than are removed at a time.
func TestSweepByItself(t *testing.T) {
	sweeping(t, func(t *testing.T, store reprise.Store) {
		const streams = 1201
		swept := make(chan reprise.SweepResult, 10)
		log := openLog(t, store, &reprise.Options{
			SweepEvery: 10 * time.Minute,
			Hooks: &reprise.Hooks{Swept: func(result reprise.SweepResult, err error) {
				if err != nil {
					t.Error(err)
				}
				swept <- result
			}},
		})
		defer log.Close()
		for i := range streams {
			end(t, create(t, log, fmt.Sprint(i), reprise.Retention{MaxAge: time.Minute}))
		}
		start := time.Now()
		if result := <-swept; result.Streams != streams || result.Events != streams {
			t.Errorf("%+v", result)
		}
		if took := time.Since(start); took != 10*time.Minute {
			t.Errorf("the sweep came after %v", took)
		}
		sizes, err := log.Sizes(t.Context())
		if err != nil || sizes[reprise.DefaultTenant].Streams != 0 {
			t.Errorf("%+v, %v", sizes, err)
		}
	})
}

// TestSweepGivesRoom: what was swept no longer counts against the tenant.
func TestSweepGivesRoom(t *testing.T) {
	sweeping(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, &reprise.Options{SweepEvery: -1, MaxTenantBytes: 10_000})
		defer log.Close()
		large := reprise.Event{Data: make([]byte, 9000)}
		s, late := create(t, log, "s", reprise.Retention{MaxAge: time.Minute}), create(t, log, "late",
			reprise.Retention{})
		add(t, s, large)
		_, err := late.Append(t.Context(), large)
		wantError(t, err, reprise.ErrQuota)
		end(t, s)
		time.Sleep(time.Minute)
		_, err = log.Sweep(t.Context())
		check(t, err)
		add(t, late, large)
	})
}

// TestSweepOfATenantsLastStream: who keeps nothing any more has all of the room.
func TestSweepOfATenantsLastStream(t *testing.T) {
	sweeping(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, &reprise.Options{SweepEvery: -1, MaxTenantBytes: 10_000})
		defer log.Close()
		for i := range 3 {
			s := create(t, log, fmt.Sprint(i), reprise.Retention{MaxAge: time.Minute})
			add(t, s, reprise.Event{Data: make([]byte, 9000)})
			end(t, s)
			time.Sleep(time.Minute)
			_, err := log.Sweep(t.Context())
			check(t, err)
		}
	})
}

// TestQuotaCountsStreamsBesideEvents: labels, Meta and the streams themselves take room, and give it back.
func TestQuotaCountsStreamsBesideEvents(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		ctx := t.Context()
		log := openLog(t, store, &reprise.Options{SweepEvery: -1, MaxTenantBytes: 1 << 20})
		wide := reprise.StreamConfig{Labels: map[string]string{}}
		for i := range 64 {
			wide.Labels[fmt.Sprintf("label-%032d", i)] = strings.Repeat("v", 256)
		}
		made := 0
		for ; made < 600; made++ {
			_, _, err := log.Create(ctx, named(fmt.Sprint("s", made)), wide)
			if errors.Is(err, reprise.ErrQuota) {
				break
			}
			check(t, err)
		}
		if made < 50 || made > 56 { // of 19 kB each
			t.Fatalf("%d streams were made in 1 MiB", made)
		}
		if _, created, err := log.Create(ctx, named("s0"), wide); created || err != nil {
			t.Errorf("one that exists is not found: %v", err)
		}
		_, _, err := log.Create(ctx, named("s0"), reprise.StreamConfig{})
		wantError(t, err, reprise.ErrConflict)
		sizes, err := log.Sizes(ctx)
		check(t, err)
		if got := sizes[named("s0").Tenant].Overhead; got < 19_000*int64(made) || got > 2<<20 {
			t.Errorf("an overhead of %d bytes in %d streams", got, made)
		}
		_, _, err = log.Create(ctx, reprise.StreamKey{Tenant: "other", Name: "s"}, wide)
		check(t, err)
		check(t, log.Remove(ctx, named("s1")))
		s, _, err := log.Create(ctx, named("again"), wide)
		check(t, err)
		if _, err = s.End(ctx, "completed", reprise.Event{}); err != nil {
			t.Errorf("a stream of a full tenant cannot end: %v", err)
		}
	})
}

// TestListsAreBoundedInBytes: a page of streams with large configurations ends early, and the pages have all of them.
func TestListsAreBoundedInBytes(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		const streams = 250
		for i := range streams {
			config := reprise.StreamConfig{}
			if i < 200 {
				config.Meta = make([]byte, 60<<10)
			}
			_, _, err := log.Create(t.Context(), named(fmt.Sprint("s", i)), config)
			check(t, err)
		}
		query := reprise.ListQuery{Tenant: reprise.DefaultTenant, Limit: 1000}
		listed, largest := 0, int64(0)
		for {
			page, err := log.List(t.Context(), query)
			check(t, err)
			var size int64
			for _, info := range page.Streams {
				if listed++; info.Key != named(fmt.Sprint("s", streams-listed)) {
					t.Fatalf("stream %d of the list is %s", listed, info.Key)
				}
				size += info.Overhead()
			}
			largest = max(largest, size)
			if query.After = page.Next; query.After == "" {
				break
			}
		}
		if listed != streams || largest > 8<<20 {
			t.Errorf("%d streams were listed, in pages of up to %d bytes", listed, largest)
		}
	})
}
