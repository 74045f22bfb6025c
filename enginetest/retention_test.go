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
	"time"

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

// recordBytes is what an event takes whose data has at most 118 bytes.
func recordBytes(e reprise.Event) int64 { return int64(1 + 8 + len(e.Type) + len(e.Data)) }

// wantBytes compares what the stream says to keep with what it does keep. It may count up to
// slack more, for it trims in steps.
func wantBytes(tb testing.TB, s *reprise.Stream, slack int64) {
	tb.Helper()
	var actual int64
	for _, e := range kept(tb, s) {
		actual += recordBytes(e)
	}
	if says := info(tb, s).Bytes; says < actual || says > actual+slack {
		tb.Fatalf("%d bytes are kept, the stream says %d", actual, says)
	}
}

// TestCountBound: it holds exactly at each append, in the middle of a batch too.
func TestCountBound(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		s := create(t, log, "s", reprise.Retention{MaxEvents: 10})
		tail := 0
		for _, n := range []int{3, 4, 5, 1, 10, 11, 25, 2, 9} {
			add(t, s, numbered(tail+1, n)...)
			tail += n
			want := min(tail, 10)
			if state := info(t, s); state.Kept() != uint64(want) {
				t.Fatalf("after %d events %d are kept", tail, state.Kept())
			}
			wantNumbered(t, kept(t, s), uint64(tail-want+1), want)
		}
	})
}

// eventOverhead is what the doc of Retention.MaxBytes says that an event counts in addition.
const eventOverhead = 48

// TestByteBound: it holds at each append, uses most of the room, and the newest batch is always kept.
func TestByteBound(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		const bound = 20_000
		s := create(t, log, "s", reprise.Retention{MaxBytes: bound})
		for i := range 400 {
			add(t, s, text(fmt.Sprintf("%0*d", i%100, i)))
			state := info(t, s)
			counted := state.Bytes + eventOverhead*int64(state.Kept())
			if counted > bound || i > 350 && counted < bound*9/10 {
				t.Fatalf("after %d appends %d bytes are kept, which count %d", i+1, state.Bytes, counted)
			}
		}
		wantBytes(t, s, bound/100)
		add(t, s, reprise.Event{Data: make([]byte, 2*bound)})
		if n := len(kept(t, s)); n != 1 {
			t.Errorf("%d events are kept after one above the bound, want it alone", n)
		}
		add(t, s, text("small"))
		if n := len(kept(t, s)); n != 1 {
			t.Errorf("%d events are kept, want the newest alone", n)
		}
	})
}

// TestBytesAfterAReload: what a stream keeps is known again when it comes back into memory, however
// often that happens, and no history is lost for bytes that are not there.
func TestBytesAfterAReload(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		const bound, size = 30_000, 100
		create(t, openLog(t, store, nil), "s", reprise.Retention{MaxBytes: bound, MaxEvents: 150})
		data := fmt.Sprintf("%0*d", size, 0)
		for range 20 {
			log := openLog(t, store, nil)
			s, err := log.Stream(t.Context(), named("s"))
			check(t, err)
			for range 25 {
				add(t, s, text(data), text(data))
				if bytes := info(t, s).Bytes; bytes > bound || bytes < 0 {
					t.Fatalf("%d bytes are kept", bytes)
				}
			}
			check(t, log.Close())
		}
		log := openLog(t, store, nil)
		s, err := log.Stream(t.Context(), named("s"))
		check(t, err)
		for range 300 {
			add(t, s, text(data))
		}
		if n := len(kept(t, s)); n != 150 {
			t.Errorf("%d events are kept, their number allows 150 and their bytes more", n)
		}
		wantBytes(t, s, 4*size)
	})
}

func TestTrimRemovesOldestEvents(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, nil)
		s := create(t, log, "s", reprise.Retention{})
		for i := 1; i <= 30; i += 3 {
			add(t, s, numbered(i, 3)...)
		}
		check(t, s.Trim(t.Context(), 11))
		wantNumbered(t, kept(t, s), 11, 20)
		wantBytes(t, s, 3*20)
		check(t, s.Trim(t.Context(), 5)) // gone already
		wantNumbered(t, kept(t, s), 11, 20)
		wantError(t, s.Trim(t.Context(), 32), reprise.ErrInvalid)

		again, err := openLog(t, store, nil).Stream(t.Context(), named("s"))
		check(t, err)
		wantNumbered(t, kept(t, again), 11, 20)
		check(t, again.Trim(t.Context(), 25))
		wantNumbered(t, kept(t, again), 25, 6)
		wantBytes(t, again, 3*20)
		check(t, again.Trim(t.Context(), 31))
		if state := info(t, again); state.Kept() != 0 || state.Bytes != 0 || state.Tail != 30 {
			t.Errorf("after all was trimmed: %+v", state)
		}
		r := openReader(t, again, reprise.Earliest())
		add(t, again, text("31"))
		events, _ := drain(t, r)
		wantNumbered(t, events, 31, 1)
		wantBytes(t, again, 0)
	})
}

// TestTotalsCostNoStreamItsEvents: with the bound of the tenant or of all reached, appends to open streams are refused,
// and none of these streams loses an event.
func TestTotalsCostNoStreamItsEvents(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		for name, opts := range map[string]*reprise.Options{
			"tenant": {MaxTenantBytes: 10_000 + 4*reprise.StreamOverhead},
			"total":  {MaxTotalBytes: 10_000 + 4*reprise.StreamOverhead},
		} {
			log := openLog(t, store, opts)
			other, _, err := log.Create(t.Context(), reprise.StreamKey{Tenant: "other", Name: name},
				reprise.StreamConfig{})
			check(t, err)
			quiet, noisy, late := create(t, log, name+"/quiet", reprise.Retention{}), create(t, log, name+"/noisy",
				reprise.Retention{}), create(t, log, name+"/late", reprise.Retention{})
			add(t, quiet, numbered(1, 20)...)
			before := info(t, quiet).Bytes
			appended := 0
			for i := range 300 {
				if _, err := noisy.Append(t.Context(), text(fmt.Sprintf("%0100d", i))); err == nil {
					appended++
				} else {
					wantError(t, err, reprise.ErrQuota)
				}
				if sum := before + info(t, noisy).Bytes; sum > 10_000+2*reprise.StreamOverhead {
					t.Fatalf("%s: %d bytes are kept", name, sum)
				}
			}
			wantNumbered(t, kept(t, quiet), 1, 20)
			if n := len(kept(t, noisy)); n < 70 || n != appended {
				t.Errorf("%s: the noisy stream keeps %d of %d events", name, n, appended)
			}
			_, err = late.Append(t.Context(), reprise.Event{Data: make([]byte, 2000)})
			wantError(t, err, reprise.ErrQuota)

			_, err = other.Append(t.Context(), reprise.Event{Data: make([]byte, 2000)})
			if name == "tenant" {
				check(t, err)
			} else {
				wantError(t, err, reprise.ErrQuota)
			}

			// The room of what is removed is free again, also for a Log that has opened since.
			check(t, log.Remove(t.Context(), noisy.Key()))
			_, err = late.Append(t.Context(), reprise.Event{Data: make([]byte, 2000)})
			check(t, err)
			check(t, log.Close())
			again := openLog(t, store, opts)
			late, err = again.Stream(t.Context(), late.Key())
			check(t, err)
			_, err = late.Append(t.Context(), reprise.Event{Data: make([]byte, 6000)})
			check(t, err)
			last := create(t, again, name+"/last", reprise.Retention{})
			_, err = last.Append(t.Context(), reprise.Event{Data: make([]byte, 2000)})
			wantError(t, err, reprise.ErrQuota)
			_, err = last.End(t.Context(), "completed", reprise.Event{Data: make([]byte, 2000)})
			check(t, err) // or it could never be swept
			for _, key := range []reprise.StreamKey{quiet.Key(), late.Key(), other.Key(), last.Key()} {
				check(t, again.Remove(t.Context(), key))
			}
			sizes, err := again.Sizes(t.Context())
			check(t, err)
			for tenant, size := range sizes {
				if size.Bytes != 0 {
					t.Errorf("%s: tenant %s is said to keep %+v", name, tenant, size)
				}
			}
			check(t, again.Close())
		}
	})
}

// TestHotTailsShareOneBound: the bytes of events in memory stay bounded with readers on every stream.
func TestHotTailsShareOneBound(t *testing.T) {
	const streams, room = 40, 200 << 10
	log := openLog(t, memory(t), &reprise.Options{TailBytes: 64 << 10, TailTotalBytes: room})
	handles := make([]*reprise.Stream, streams)
	for i := range handles {
		handles[i] = create(t, log, fmt.Sprint(i), reprise.Retention{})
		openReader(t, handles[i], reprise.Earliest())
	}
	data := make([]byte, 1000)
	for range 60 {
		for _, s := range handles {
			add(t, s, reprise.Event{Data: data})
		}
	}
	// The newest block of each may be as large as all that it had before, so the room can be exceeded, but not
	// by all that the streams may keep by themselves.
	if hot := log.Memory().TailBytes; hot > streams*40<<10 {
		t.Errorf("%d bytes are in memory", hot)
	}
	for _, s := range handles {
		if n := len(kept(t, s)); n != 60 {
			t.Fatalf("%d events, want 60", n)
		}
	}
}

// TestEvictionIsInvisible: streams come and go in memory, their handles and readers do not notice.
func TestEvictionIsInvisible(t *testing.T) {
	eachStore(t, func(t *testing.T, store reprise.Store) {
		log := openLog(t, store, &reprise.Options{MaxStreams: 4})
		handles := make([]*reprise.Stream, 20)
		readers := make([]*reprise.Reader, 20)
		for i := range handles {
			handles[i] = create(t, log, fmt.Sprint(i), reprise.Retention{})
			if i%5 == 0 {
				readers[i] = openReader(t, handles[i], reprise.Earliest())
			}
		}
		for round := range 5 {
			for _, s := range handles {
				if first := add(t, s, numbered(round*2+1, 2)...).First; first != uint64(round*2+1) {
					t.Fatalf("event %d in round %d", first, round)
				}
			}
		}
		for i, s := range handles {
			wantNumbered(t, kept(t, s), 1, 10)
			if readers[i] != nil {
				events, _ := drain(t, readers[i])
				wantNumbered(t, events, 1, 10)
			}
		}
		if n := log.Memory().Streams; n > 12 {
			t.Errorf("%d streams are in memory", n)
		}
	})
}

// TestSystemTenantIsNotBounded: replicas must be able to beat when users have filled the store.
func TestSystemTenantIsNotBounded(t *testing.T) {
	log := openLog(t, memory(t), &reprise.Options{MaxTotalBytes: 100 + 2*reprise.StreamOverhead + 20, SweepEvery: -1})
	full := createOn(t, log, "full")
	_, err := full.Append(t.Context(), text("0123456789012345678901234567890123456789012345678901234567890123456789"))
	check(t, err)
	if _, err := createOn(t, log, "other").Append(t.Context(),
		text("0123456789012345678901234567890123456789")); !errors.Is(err, reprise.ErrQuota) {
		t.Errorf("a user's append: %v, want ErrQuota", err)
	}
	s, _, err := log.Create(t.Context(), reprise.StreamKey{Tenant: reprise.SystemTenant, Name: "s"},
		reprise.StreamConfig{})
	check(t, err)
	_, err = s.Append(t.Context(), text("0123456789012345678901234567890123456789"))
	check(t, err)
}

// TestBytesBoundEmptyEvents: the bytes bound a stream whatever the size of its events: at the default retention empty
// ones reach them before their number is reached.
func TestBytesBoundEmptyEvents(t *testing.T) {
	log := openLog(t, memstore.New(nil), nil)
	s := create(t, log, "s", reprise.Retention{MaxBytes: 64 << 10})
	for range 100 {
		add(t, s, make([]reprise.Event, 50)...)
	}
	const each = 48 + 9 + len("message")
	state := info(t, s)
	if n := int(state.Kept()); n > 64<<10/each || n < 64<<10/each*9/10 {
		t.Errorf("%d empty events are kept in 64 KiB", n)
	}
	d := reprise.DefaultRetention
	if d.MaxEvents < d.MaxBytes/int64(each+len("a line")) {
		t.Errorf("%d events are the bound, not the %d bytes", d.MaxEvents, d.MaxBytes)
	}
}

// TestJobOfAnHourIsKeptWhole: 100,000 short lines, one every 36 ms, are all kept by default, and read from the start.
func TestJobOfAnHourIsKeptWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lines = 100_000
		log := openLog(t, memstore.New(nil), nil)
		s := create(t, log, "s", reprise.Retention{})
		for i := range lines {
			add(t, s, text(fmt.Sprintf("line %d", i+1)))
			time.Sleep(36 * time.Millisecond)
		}
		state := info(t, s)
		if state.Kept() != lines || state.Earliest != 1 {
			t.Fatalf("%d events are kept, from %d on", state.Kept(), state.Earliest)
		}
		if n := len(kept(t, s)); n != lines {
			t.Errorf("%d lines were read", n)
		}
	})
}
