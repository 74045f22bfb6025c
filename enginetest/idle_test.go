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
