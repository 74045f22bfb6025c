package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/store/memstore"
)

// TestUsageIsWhatTheStoreKeeps: what a Log counts without asking its store is what the store adds up, after
// everything that changes what is kept.
func TestUsageIsWhatTheStoreKeeps(t *testing.T) { synctest.Test(t, testUsage) }

func testUsage(t *testing.T) {
	log := openLog(t, memory(t), &reprise.Options{SweepEvery: -1, MaxTenantBytes: 1 << 30, MaxTotalBytes: 2 << 30})
	before := log.Usage()
	if before.Bytes != 0 || len(before.Tenants) != 0 || before.MaxTenantBytes != 1<<30 || before.MaxBytes != 2<<30 {
		t.Errorf("an empty log: %+v", before)
	}
	same := func(when string) reprise.Size {
		t.Helper()
		sizes, err := log.Sizes(t.Context())
		check(t, err)
		usage := log.Usage()
		var total int64
		for tenant, size := range sizes {
			want := reprise.Size{Streams: size.Streams, Events: size.Events, Bytes: size.Bytes + size.Overhead}
			if got := usage.Tenants[tenant]; got != want {
				t.Errorf("%s, %s: counted %+v, the store has %+v", when, tenant, got, want)
			}
			total += want.Bytes
		}
		if len(usage.Tenants) != len(sizes) || usage.Bytes != total {
			t.Errorf("%s: %d bytes of %v, the store has %d of %v", when, usage.Bytes, usage.Tenants, total, sizes)
		}
		return usage.Tenants[reprise.DefaultTenant]
	}
	s := create(t, log, "s", reprise.Retention{MaxEvents: 5})
	short := create(t, log, "short", reprise.Retention{MaxAge: time.Nanosecond})
	other, _, err := log.Create(t.Context(), reprise.StreamKey{Tenant: "other", Name: "s"}, reprise.StreamConfig{})
	check(t, err)
	if size := same("three streams"); size.Streams != 2 || size.Events != 0 {
		t.Errorf("two streams of the default tenant: %+v", size)
	}
	add(t, s, numbered(1, 3)...)
	add(t, short, numbered(1, 2)...)
	add(t, other, numbered(1, 4)...)
	same("events")
	add(t, s, numbered(4, 6)...) // of nine events the oldest four go
	if size := same("retention"); size.Events != 5+2 {
		t.Errorf("after retention: %+v", size)
	}
	check(t, s.Trim(t.Context(), 8))
	if size := same("a trim"); size.Events != 2+2 {
		t.Errorf("after a trim: %+v", size)
	}
	end(t, short)
	time.Sleep(time.Second)
	_, err = log.Sweep(t.Context())
	check(t, err)
	if size := same("a sweep"); size.Streams != 1 || size.Events != 2 {
		t.Errorf("after a sweep: %+v", size)
	}
	check(t, log.Remove(t.Context(), other.Key()))
	same("a removal")
}

// createFor makes a stream that is charged to an account of the default tenant.
func createFor(
	ctx context.Context, log *reprise.Log, name, account string,
) (*reprise.Stream, error) {
	config := reprise.StreamConfig{Labels: map[string]string{"k": "v"}}
	if account != "" {
		config.Labels[reprise.AccountLabel] = account
	}
	s, _, err := log.Create(ctx, reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name}, config)
	return s, err
}

// TestAccountsAreCountedAsTheStoreKeeps: what accounts keep is what their streams take, through appends, retention,
// removal and a restart.
func TestAccountsAreCountedAsTheStoreKeeps(t *testing.T) { synctest.Test(t, testAccountsAreCounted) }

func testAccountsAreCounted(t *testing.T) {
	store := memory(t)
	opts := &reprise.Options{
		SweepEvery: -1, Quota: func(reprise.Tenant, string) reprise.Quota { return reprise.Quota{} },
	}
	log := openLog(t, store, opts)
	synctest.Wait() // until they are counted
	same := func(when string, log *reprise.Log) {
		t.Helper()
		page, err := log.List(t.Context(), reprise.ListQuery{Tenant: reprise.DefaultTenant, Limit: 100})
		check(t, err)
		want := map[string]reprise.Size{}
		for _, info := range page.Streams {
			for _, account := range []string{"", info.Config.Account()} {
				size := want[account]
				size.Streams++
				size.Events += int64(info.Kept())
				size.Bytes += info.Bytes + info.Overhead()
				want[account] = size
			}
		}
		for _, account := range []string{"", "a", "b", "c"} {
			if got := log.UsageOf(reprise.DefaultTenant, account); got != want[account] {
				t.Errorf("%s, account %q: %+v, want %+v", when, account, got, want[account])
			}
		}
	}
	for i, account := range []string{"a", "a", "b"} {
		s, err := createFor(t.Context(), log, fmt.Sprint("s", i), account)
		check(t, err)
		add(t, s, numbered(1, 3)...)
	}
	same("three streams", log)
	check(t, log.Remove(t.Context(), reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s0"}))
	same("a removal", log)
	again, err := createFor(t.Context(), log, "s1", "b")
	check(t, err)
	if info, err := again.Info(t.Context()); err != nil || info.Config.Account() != "a" || info.Tail != 3 {
		t.Errorf("the stream of another account was found as %+v, %v", info.Config, err)
	}
	check(t, log.Close())
	log = openLog(t, store, opts)
	synctest.Wait() // until they are counted
	same("a restart", log)
	if _, err := createFor(t.Context(), log, "s1", "c"); err != nil { // it is not in memory now
		t.Errorf("the stream of another account: %v", err)
	}
}

// TestQuotaHoldsEventsBesideTheEnd: a stream can end whatever its account keeps. What is appended together with the end
// is held to the quota, as the same events before it would be.
func TestQuotaHoldsEventsBesideTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := openLog(t, memory(t), &reprise.Options{
			Quota: func(_ reprise.Tenant, account string) reprise.Quota {
				if account == "" {
					return reprise.Quota{}
				}
				return reprise.Quota{Bytes: 8000}
			},
		})
		synctest.Wait() // until what accounts keep is counted
		full, err := createFor(t.Context(), log, "full", "a")
		check(t, err)
		one, err := createFor(t.Context(), log, "one", "a")
		check(t, err)
		two, err := createFor(t.Context(), log, "two", "a")
		check(t, err)
		large := reprise.Event{Type: "note", Data: make([]byte, 5000)}
		add(t, full, large)
		_, err = one.End(t.Context(), "completed", reprise.Event{})
		check(t, err)
		ended := make(chan error, 1)
		go func() {
			_, err := two.Appender(t.Context(), nil).End("completed", large, reprise.Event{})
			ended <- err
		}()
		time.Sleep(time.Minute)
		select {
		case err := <-ended:
			t.Fatalf("ended over the quota: %v", err)
		default:
		}
		check(t, full.Remove(t.Context()))
		check(t, <-ended)
	})
}

// TestQuotasOfStreamsAndBytes: the bounds of an account and of a tenant refuse, name themselves, and free again.
func TestQuotasOfStreamsAndBytes(t *testing.T) {
	for _, of := range []string{"principal", "tenant"} {
		synctest.Test(t, func(t *testing.T) {
			log := openLog(t, memory(t), &reprise.Options{
				Quota: func(tenant reprise.Tenant, account string) reprise.Quota {
					if tenant == reprise.DefaultTenant && (account == "") == (of == "tenant") {
						return reprise.Quota{Streams: 2, Bytes: 8000}
					}
					return reprise.Quota{}
				},
			})
			synctest.Wait() // until what accounts keep is counted
			refused := func(quota string, err error) {
				t.Helper()
				e, ok := errors.AsType[*reprise.QuotaError](err)
				if !ok || !errors.Is(err, reprise.ErrQuota) || e.Quota != quota || e.Of != of {
					t.Errorf("%v, want %s of the %s", err, quota, of)
				}
			}
			one, err := createFor(t.Context(), log, "one", "a")
			check(t, err)
			two, err := createFor(t.Context(), log, "two", "a")
			check(t, err)
			for range 3 {
				_, err = createFor(t.Context(), log, "three", "a")
				refused("streams", err)
			}
			if _, err = createFor(t.Context(), log, "two", "a"); err != nil {
				t.Errorf("one that is there: %v", err)
			}
			_, err = createFor(t.Context(), log, "other", "b")
			if of == "tenant" {
				refused("streams", err)
			} else {
				check(t, err)
			}
			large := reprise.Event{Type: "note", Data: make([]byte, 5000)}
			add(t, one, large)
			for range 3 {
				_, err = two.Append(t.Context(), large)
				refused("bytes", err)
			}
			_, err = one.Append(t.Context(), large) // it does not give up its own events either
			refused("bytes", err)
			check(t, one.Remove(t.Context()))
			add(t, two, large)
			three, err := createFor(t.Context(), log, "three", "a")
			check(t, err)
			check(t, three.Remove(t.Context()))
		})
	}
}

// private is a Store whose pages share no memory, as those of a store on disk.
type private struct{ reprise.Store }

func (s private) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	page, err := s.Store.Read(ctx, key, after, maxBytes)
	for i := range page.Batches {
		page.Batches[i].Bytes = bytes.Clone(page.Batches[i].Bytes)
	}
	return page, err
}

// heap is what is in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestIdleReadersKeepNoPages: a reader that has read from the store and waits at the tail holds a position.
func TestIdleReadersKeepNoPages(t *testing.T) {
	const readers = 100
	store := private{memory(t)}
	log := openLog(t, store, nil)
	s := create(t, log, "s", reprise.Retention{})
	for i := range 10 {
		add(t, s, reprise.Event{Data: bytes.Repeat([]byte{byte(i)}, 20_000)})
	}
	check(t, log.Close())
	log = openLog(t, store, nil) // with no event in memory
	s, err := log.Stream(t.Context(), s.Key())
	check(t, err)
	before := heap()
	for range readers {
		r := openReader(t, s, reprise.Earliest())
		if events, _ := drain(t, r); len(events) != 10 {
			t.Fatalf("%d events, want 10", len(events))
		}
	}
	if each := (heap() - before) / readers; each > 4<<10 {
		t.Errorf("a reader that waits keeps %d bytes", each)
	}
}

// TestHotBytesAreGivenBack: what streams take in memory is counted as it is, however they leave it.
func TestHotBytesAreGivenBack(t *testing.T) {
	store := newFaulty(memory(t))
	log := openLog(t, store, &reprise.Options{MaxStreams: 8, TailBytes: 10_000, TailTotalBytes: 20_000})
	var handles []*reprise.Stream
	for i := range 40 { // most are evicted again
		s := create(t, log, fmt.Sprint(i), reprise.Retention{MaxEvents: 8})
		for range 10 { // in several blocks
			add(t, s, reprise.Event{Data: make([]byte, 600)})
		}
		handles = append(handles, s)
	}
	for i, s := range handles {
		store.after.Store(i%3 == 0)
		_, err := s.Append(t.Context(), text("31"))
		if i%3 == 0 {
			wantError(t, err, reprise.ErrUnavailable)
			store.after.Store(false)
		}
		add(t, s, text("32"))
	}
	if log.Memory().TailBytes <= 0 {
		t.Errorf("%d bytes in memory", log.Memory().TailBytes)
	}
	for i := range handles {
		check(t, log.Remove(t.Context(), named(fmt.Sprint(i))))
	}
	if left := log.Memory().TailBytes; left != 0 {
		t.Errorf("%d bytes are counted though no stream is left", left)
	}
}

// TestLongCommitAllocatesLittle: what is staged does not move with each append.
func TestLongCommitAllocatesLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, size = 1500, 2000
		store, _, s := behindGate(t)
		store.shut()
		under := appending(t.Context(), s, text("1"))
		<-store.stored
		waiting := make([]<-chan error, calls)
		data := make([]byte, size)
		for i := range waiting {
			waiting[i] = appending(t.Context(), s, reprise.Event{Data: data})
		}
		synctest.Wait()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		store.open()
		check(t, <-under)
		for _, done := range waiting {
			check(t, <-done)
		}
		runtime.ReadMemStats(&after)
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 10*calls*size {
			t.Errorf("%d bytes were allocated for a commit of %d", allocated, calls*size)
		}
	})
}

// TestLoneAppendAllocatesBlocksAlone: neither the events that are passed nor what the commit needs beside them take
// memory of the heap. A block has room for several hundred events.
func TestLoneAppendAllocatesBlocksAlone(t *testing.T) {
	s := create(t, openLog(t, memory(t), nil), "s", reprise.Retention{})
	data, ctx := make([]byte, eventBytes), t.Context()
	if n := testing.AllocsPerRun(10_000, func() {
		if _, err := s.Append(ctx, reprise.Event{Data: data}); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("an append makes %v allocations", n)
	}
}

// TestLargeBatchesFillTheirBlocks: a block has room for a whole number of batches, so that little is lost at its end.
// The newest block, which is kept whatever TailBytes says, has at most 128 KiB.
func TestLargeBatchesFillTheirBlocks(t *testing.T) {
	const batches, count = 200, 100
	for _, size := range []int{90, 140, eventBytes, 202, 320, 420, 600} {
		t.Run(fmt.Sprintf("events=%dx%d", count, size), func(t *testing.T) {
			batch := make([]reprise.Event, count)
			for i := range batch {
				batch[i].Data = make([]byte, size)
			}
			fillBlocks := func(tail int) int64 {
				log := openLog(t, memory(t), &reprise.Options{TailBytes: tail})
				s := create(t, log, "s", many)
				for range batches {
					add(t, s, batch...)
				}
				return log.Memory().TailBytes
			}
			const record = 17 // what the record of such an event has besides its data
			bytes := int64(batches * count * (size + record))
			if kept := fillBlocks(1 << 30); kept > bytes+bytes/12 {
				t.Errorf("%d bytes are kept for %d", kept, bytes)
			}
			if newest := fillBlocks(1); newest > 128<<10 {
				t.Errorf("the newest block has %d bytes", newest)
			}
		})
	}
}

// TestLargeEventsAreNotKeptAlive: what an append was given can be collected, whatever the lane keeps for the next one.
func TestLargeEventsAreNotKeptAlive(t *testing.T) {
	s := create(t, openLog(t, memory(t), nil), "s", reprise.Retention{})
	collected := make(chan struct{})
	func() {
		data := make([]byte, 100<<10)
		runtime.AddCleanup(&data[0], func(done chan struct{}) { close(done) }, collected)
		_, err := s.Append(t.Context(), reprise.Event{Data: data})
		check(t, err)
	}()
	deadline := time.After(2 * time.Minute)
	for {
		runtime.GC()
		select {
		case <-collected:
			return
		case <-deadline:
			t.Fatal("the data of an event is kept alive after its append")
		case <-time.After(time.Millisecond):
		}
	}
}

// pacedStore takes a time for each append, and fails those that it is told to.
type pacedStore struct {
	reprise.Store
	pace time.Duration
	fail error
}

func (s *pacedStore) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	time.Sleep(s.pace) // of the bubble
	if s.fail != nil {
		errs := make([]error, len(reqs))
		for i := range errs {
			errs[i] = s.fail
		}
		return errs
	}
	return s.Store.Append(ctx, reqs)
}

// An append is told when it asked, when its commit asked the store, when that answered, and what went with it.
func TestAppendTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		store := &pacedStore{Store: memstore.New(nil), pace: time.Second}
		log, err := reprise.Open(ctx, store, nil)
		check(t, err)
		defer log.Close()
		stream, _, err := log.Create(ctx, reprise.StreamKey{Tenant: "t", Name: "s"}, reprise.StreamConfig{})
		check(t, err)
		traced := func(producer *reprise.ProducerID, events int) (*reprise.AppendTrace, error) {
			trace := new(reprise.AppendTrace)
			_, err := stream.AppendWith(ctx, reprise.AppendOptions{Trace: trace, Producer: producer},
				make([]reprise.Event, events)...)
			return trace, err
		}
		begun := time.Now()
		var first, second *reprise.AppendTrace
		var appends sync.WaitGroup
		appends.Go(func() { first, _ = traced(nil, 2) })
		synctest.Wait()             // the first is with the store
		time.Sleep(time.Second / 4) // of the bubble
		appends.Go(func() { second, _ = traced(nil, 3) })
		appends.Wait()
		if first.Asked != begun || first.Began != begun || first.Stored != begun.Add(time.Second) ||
			first.Streams != 1 || first.Events != 2 || first.Bytes == 0 || first.Tries != 1 {
			t.Errorf("the first: %+v", first)
		}
		if second.Asked != begun.Add(time.Second/4) || second.Began != first.Stored ||
			second.Stored != second.Began.Add(time.Second) || second.Events != 3 {
			t.Errorf("the second: %+v", second)
		}
		producer := &reprise.ProducerID{ID: "p"}
		_, err = traced(producer, 1)
		check(t, err)
		if again, err := traced(producer, 1); err != nil || !again.Began.IsZero() || again.Asked.IsZero() {
			t.Errorf("a duplicate: %+v, %v", again, err)
		}
		store.fail = reprise.ErrUnavailable
		failed, err := traced(nil, 1)
		if !errors.Is(err, reprise.ErrUnavailable) || failed.Stored.Sub(failed.Began) != time.Second {
			t.Errorf("a failure: %+v, %v", failed, err)
		}
	})
}
