package reprise_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
)

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
		store := newGate(memory(t))
		log := openLog(t, store, &reprise.Options{SweepEvery: -1})
		s := create(t, log, "s", reprise.Retention{})
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
	deadline := time.After(10 * time.Second)
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
