package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"reprise"
	"reprise/internal/shared"
	"reprise/store/memstore"
)

// room is a bound with room for events of 1,000 bytes.
func room(events int) int64 { return int64(events) * 1030 }

func filler() reprise.Event { return reprise.Event{Data: make([]byte, 1000)} }

// fillAndEnd makes a stream that keeps five fillers and its end.
func fillAndEnd(t *testing.T, log *reprise.Log, name string) *reprise.Stream {
	t.Helper()
	s := create(t, log, name, reprise.Retention{})
	add(t, s, slices.Repeat([]reprise.Event{filler()}, 5)...)
	end(t, s)
	return s
}

// isGone reports whether a stream has been removed early.
func isGone(t *testing.T, log *reprise.Log, name string) bool {
	t.Helper()
	_, err := log.Stream(t.Context(), named(name))
	if err != nil {
		wantError(t, err, reprise.ErrExpired)
	}
	return err != nil
}

// TestOldMakesRoomForNew: at a bound over all streams those go that ended first, and no more of them than necessary; an
// open stream loses nothing.
func TestOldMakesRoomForNew(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		for name, opts := range map[string]*reprise.Options{
			"tenant": {MaxTenantBytes: room(30) + 6*reprise.StreamOverhead},
			"total":  {MaxTotalBytes: room(30) + 6*reprise.StreamOverhead},
		} {
			t.Run(name, func(t *testing.T) { testOldMakesRoom(t, store, opts, name+"/") })
		}
	})
}

func testOldMakesRoom(t *testing.T, store reprise.Store, opts *reprise.Options, prefix string) {
	opts.SweepEvery = -1
	var removed []string
	opts.Hooks = &reprise.Hooks{RemovedEarly: func(key reprise.StreamKey, kept reprise.Size) {
		removed = append(removed, key.Name)
		if kept.Streams != 1 || kept.Events != 6 || kept.Bytes < 5000 || kept.Overhead < reprise.StreamOverhead {
			t.Errorf("%s had kept %+v", key, kept)
		}
	}}
	log := openLog(t, store, opts)
	open := create(t, log, prefix+"open", reprise.Retention{})
	add(t, open, filler(), filler())
	for i := range 4 {
		fillAndEnd(t, log, fmt.Sprint(prefix, i))
	}
	writer := create(t, log, prefix+"writer", reprise.Retention{})
	add(t, writer, slices.Repeat([]reprise.Event{filler()}, 7)...) // all fits
	if len(removed) != 0 {
		t.Fatalf("removed below the bound: %q", removed)
	}
	add(t, writer, filler(), filler())
	if want := []string{prefix + "0"}; !slices.Equal(removed, want) {
		t.Errorf("removed %q, want %q", removed, want)
	}
	late := fillAndEnd(t, log, prefix+"late") // it has ended after the list
	for range 7 {
		add(t, writer, filler(), filler())
	}
	if want := []string{prefix + "0", prefix + "1", prefix + "2", prefix + "3"}; !slices.Equal(removed, want) {
		t.Errorf("removed %q, want %q", removed, want)
	}
	refused := 0
	for range 8 { // late goes, and then nothing can
		if _, err := writer.Append(t.Context(), filler()); err != nil {
			wantError(t, err, reprise.ErrQuota)
			refused++
		}
	}
	if !isGone(t, log, late.Key().Name) || refused != 2 {
		t.Errorf("%d appends were refused; removed %q", refused, removed)
	}
	if n, m := len(kept(t, open)), len(kept(t, writer)); n != 2 || m != 7+2+14+6 {
		t.Errorf("the open streams keep %d and %d events", n, m)
	}
	usage, sizes := log.Usage(), sizesOf(t, log)
	if got, want := usage.Tenants[reprise.DefaultTenant], sizes[reprise.DefaultTenant]; got.Streams != want.Streams ||
		got.Events != want.Events || got.Bytes != want.Bytes+want.Overhead {
		t.Errorf("counted %+v, the store keeps %+v", got, want)
	}
	for _, s := range []*reprise.Stream{open, writer} {
		_, err := s.End(t.Context(), "completed", reprise.Event{Data: make([]byte, 60<<10)})
		check(t, err) // from its reserve
		check(t, s.Remove(t.Context()))
	}
	check(t, log.Close())
}

func sizesOf(t *testing.T, log *reprise.Log) map[reprise.Tenant]reprise.Size {
	t.Helper()
	sizes, err := log.Sizes(t.Context())
	check(t, err)
	return sizes
}

// TestRoomIsMadeForNewStreams: also with their first events, and for what was there before the Log was opened.
func TestRoomIsMadeForNewStreams(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		opts := &reprise.Options{MaxTotalBytes: room(12) + 3*reprise.StreamOverhead, SweepEvery: -1}
		log := openLog(t, store, opts)
		fillAndEnd(t, log, "a")
		fillAndEnd(t, log, "b")
		check(t, log.Close())
		log = openLog(t, store, opts)
		events := slices.Repeat([]reprise.Event{filler()}, 4)
		s, _, err := log.CreateWith(t.Context(), filling(events, ""), named("c"), reprise.StreamConfig{})
		check(t, err)
		if !isGone(t, log, "a") || isGone(t, log, "b") || len(kept(t, s)) != 4 {
			t.Error("not the oldest stream made room")
		}
		for i := range 20 {
			create(t, log, fmt.Sprint("empty", i), reprise.Retention{})
		}
		if !isGone(t, log, "b") {
			t.Error("no room was made for streams without events")
		}
	})
}

// TestRoomIsMadeByItsOwner: streams of other tenants stay, and so do those of other accounts where the bound is that
// of an account.
func TestRoomIsMadeByItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := openLog(t, memory(t), &reprise.Options{
			MaxTotalBytes: room(40), SweepEvery: -1,
			Quota: func(_ reprise.Tenant, account string) reprise.Quota {
				if account == "" {
					return reprise.Quota{}
				}
				return reprise.Quota{Bytes: room(13)}
			},
		})
		synctest.Wait() // until what accounts keep is counted
		other, _, err := log.Create(t.Context(), reprise.StreamKey{Tenant: "other", Name: "s"}, reprise.StreamConfig{})
		check(t, err)
		end(t, other)
		for _, name := range []string{"b1", "a1", "a2", "b2"} {
			s, err := createFor(t.Context(), log, name, name[:1])
			check(t, err)
			add(t, s, slices.Repeat([]reprise.Event{filler()}, 5)...)
			end(t, s)
		}
		s, err := createFor(t.Context(), log, "a3", "a")
		check(t, err)
		add(t, s, slices.Repeat([]reprise.Event{filler()}, 4)...)
		if isGone(t, log, "b1") || !isGone(t, log, "a1") || isGone(t, log, "a2") {
			t.Error("the bound of account a did not remove its oldest stream alone")
		}
		full := create(t, log, "full", reprise.Retention{})
		for range 29 {
			add(t, full, filler())
		}
		if !isGone(t, log, "b1") || !isGone(t, log, "a2") || isGone(t, log, "b2") {
			t.Error("the bound of the process did not remove the oldest streams of the tenant")
		}
		for {
			if _, err = full.Append(t.Context(), filler()); err != nil {
				break
			}
		}
		wantError(t, err, reprise.ErrQuota)
		if _, err := other.Info(t.Context()); err != nil {
			t.Errorf("the stream of another tenant: %v", err)
		}
	})
}

// TestNoRoomIsMadeInVain: what can never fit costs no stream its place.
func TestNoRoomIsMadeInVain(t *testing.T) {
	log := openLog(t, memory(t), &reprise.Options{MaxTenantBytes: room(10), SweepEvery: -1})
	fillAndEnd(t, log, "a")
	s := create(t, log, "s", reprise.Retention{})
	_, err := s.Append(t.Context(), reprise.Event{Data: make([]byte, room(10))})
	wantError(t, err, reprise.ErrQuota)
	if isGone(t, log, "a") {
		t.Error("a stream was removed for an event that is larger than the bound")
	}
}

// TestReserveOfTheEndIsSmall: an end that is larger is held to the bound like any event.
func TestReserveOfTheEndIsSmall(t *testing.T) {
	log := openLog(t, memory(t), &reprise.Options{MaxTenantBytes: room(10), SweepEvery: -1})
	s := create(t, log, "s", reprise.Retention{})
	_, err := s.End(t.Context(), "completed", reprise.Event{Data: make([]byte, 65<<10)})
	wantError(t, err, reprise.ErrQuota)
	_, err = s.End(t.Context(), "completed", reprise.Event{Data: make([]byte, 60<<10)})
	check(t, err)
}

// listCounting counts the calls of List.
type listCounting struct {
	*memstore.Store
	lists atomic.Int64
}

func (c *listCounting) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	c.lists.Add(1)
	return c.Store.List(ctx, q)
}

// TestMakingRoomListsOnce: the streams are listed at the first bound that is reached, and not again for any append,
// whether it finds room or not (G7).
func TestMakingRoomListsOnce(t *testing.T) {
	store := &listCounting{Store: memstore.New(nil)}
	t.Cleanup(func() { check(t, store.Close()) })
	log := openLog(t, store, &reprise.Options{MaxTenantBytes: room(60), SweepEvery: -1})
	fillAndEnd(t, log, "old")
	before := store.lists.Load()
	for i := range 100 {
		fillAndEnd(t, log, fmt.Sprint("s", i))
	}
	s := create(t, log, "s", reprise.Retention{})
	refused := 0
	for range 100 {
		if _, err := s.Append(t.Context(), filler()); err != nil {
			refused++
		}
	}
	if lists := store.lists.Load() - before; lists != 1 || refused < 30 {
		t.Errorf("%d lists, %d appends were refused", lists, refused)
	}
}

// TestConcurrentAppendsMakeRoomOnce: those who wait for room together do not each remove streams.
func TestConcurrentAppendsMakeRoomOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		var removed atomic.Int64
		log := openLog(t, store, &reprise.Options{
			MaxTenantBytes: room(120) + 40*reprise.StreamOverhead, SweepEvery: -1,
			Hooks: &reprise.Hooks{RemovedEarly: func(reprise.StreamKey, reprise.Size) { removed.Add(1) }},
		})
		for i := range 20 {
			fillAndEnd(t, log, fmt.Sprint(i))
		}
		var writers sync.WaitGroup
		for i := range 10 {
			s := create(t, log, fmt.Sprint("w", i), reprise.Retention{})
			writers.Go(func() {
				for range 6 {
					if _, err := s.Append(t.Context(), filler()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		writers.Wait()
		// 60 events need 60 places. 20 are free, and each removed stream gives a little more than five: 8 are removed.
		// Appends of the ten writers that are under way together may each take the last place.
		if n := removed.Load(); n < 5 || n > 10 {
			t.Errorf("%d streams were removed, want 8, or up to 3 less", n)
		}
	})
}

// TestReplicasMakeRoomAtOnce: two replicas that share a store remove no open stream and none of another tenant, and
// what they append is there. No append is refused while there are ended streams: what the other replica has removed
// does not count any more. A stream that both remove at the same moment is counted by both.
func TestReplicasMakeRoomAtOnce(t *testing.T) {
	const ended, each = 40, 60
	hub := shared.New(memstore.New(nil))
	keys := reprise.NewKeyset()
	var mu sync.Mutex
	removed := map[string]int{}
	logs := make([]*reprise.Log, 2)
	for i := range logs {
		store := hub.Store()
		t.Cleanup(func() { check(t, store.Close()) })
		logs[i] = openLog(t, store, &reprise.Options{
			Keys: keys, SweepEvery: -1, MaxTenantBytes: room(5*ended/2+20) + 50*reprise.StreamOverhead,
			Hooks: &reprise.Hooks{RemovedEarly: func(key reprise.StreamKey, _ reprise.Size) {
				mu.Lock()
				defer mu.Unlock()
				removed[key.String()]++
			}},
		})
	}
	other, _, err := logs[0].Create(t.Context(), reprise.StreamKey{Tenant: "other", Name: "s"}, reprise.StreamConfig{})
	check(t, err)
	end(t, other)
	for i := range ended {
		fillAndEnd(t, logs[i%2], fmt.Sprint("old/", i))
	}
	var writers sync.WaitGroup
	open := make([]*reprise.Stream, 4)
	for i := range open {
		open[i] = createOn(t, logs[i%2], fmt.Sprint("open/", i))
		writers.Go(func() {
			for range each / 2 {
				if _, err := open[i].Append(t.Context(), filler()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	for i, s := range open {
		if n := len(kept(t, s)); n != each/2 {
			t.Errorf("the open stream %d keeps %d events, want %d", i, n, each/2)
		}
	}
	if len(removed) < 2 {
		t.Errorf("only %v were removed", removed)
	}
	for key, times := range removed {
		if times > len(logs) || !strings.HasPrefix(key, "default/old/") {
			t.Errorf("%s was removed %d times", key, times)
		}
	}
	_, err = logs[1].Stream(t.Context(), other.Key())
	check(t, err)
	sizes := sizesOf(t, logs[0])[reprise.DefaultTenant]
	if want := int64(ended + len(open) - len(removed)); sizes.Streams != want {
		t.Errorf("%d streams are left, want %d", sizes.Streams, want)
	}
}

// TestRoomMadeByAnotherReplica: the usage that a Log has counted is a few seconds old. If all streams that it would
// remove are gone already, it counts again before it refuses anything.
func TestRoomMadeByAnotherReplica(t *testing.T) {
	hub := shared.New(memstore.New(nil))
	logs := make([]*reprise.Log, 2)
	for i := range logs {
		store := hub.Store()
		t.Cleanup(func() { check(t, store.Close()) })
		logs[i] = openLog(t, store, &reprise.Options{
			SweepEvery: -1, MaxTenantBytes: room(55) + 12*reprise.StreamOverhead,
		})
	}
	for i := range 10 {
		fillAndEnd(t, logs[0], fmt.Sprint("old/", i))
	}
	open := createOn(t, logs[0], "open")
	add(t, open, slices.Repeat([]reprise.Event{filler()}, 6)...) // makes room, and lists the streams for it
	if !isGone(t, logs[0], "old/0") {
		t.Fatal("no room was made")
	}
	for i := 1; i < 10; i++ {
		check(t, logs[1].Remove(t.Context(), named(fmt.Sprint("old/", i))))
	}
	for range 30 {
		add(t, open, filler())
	}
}

// TestFullWithOpenStreams: where 1,000 streams are open and nothing can go, an append is refused and told so, no stream
// loses anything, and each of them can end.
func TestFullWithOpenStreams(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		const streams = 1000
		log := openLog(t, store, &reprise.Options{
			MaxTotalBytes: room(streams) + streams*reprise.StreamOverhead, SweepEvery: -1,
		})
		open := make([]*reprise.Stream, streams)
		for i := range open {
			open[i] = create(t, log, fmt.Sprint("s/", i), reprise.Retention{})
			if _, err := open[i].Append(t.Context(), filler()); err != nil {
				wantError(t, err, reprise.ErrQuota) // the names take a little room too
			}
		}
		refused := 0
		for _, s := range open[:100] {
			_, err := s.Append(t.Context(), filler())
			if full, ok := errors.AsType[*reprise.QuotaError](err); ok && full.Quota == "bytes" {
				refused++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if refused < 50 {
			t.Errorf("%d of 100 appends to a full store were refused", refused)
		}
		for _, s := range open {
			if state := info(t, s); state.Earliest != 1 {
				t.Fatalf("%s has lost its first %d events", s.Key(), state.Earliest-1)
			}
		}
		for _, s := range open {
			end(t, s)
		}
		late := create(t, log, "late", reprise.Retention{})
		add(t, late, slices.Repeat([]reprise.Event{filler()}, 50)...)
	})
}
