package memstore_test

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"reprise"
	"reprise/store/memstore"
)

// arena hands out batches as a Log does: one behind the other in blocks of memory.
type arena struct {
	block []byte
	// old, if not empty, are blocks to be used again, the first of them next, so that a
	// benchmark measures the store and not the allocation of the events.
	old [][]byte
}

const blockBytes = 64 << 10

// recycling is an arena for events of which no more than the newest bytes are kept.
func recycling(bytes int) *arena {
	a := &arena{}
	for range bytes/blockBytes + 3 {
		a.old = append(a.old, make([]byte, 0, blockBytes))
	}
	return a
}

func (a *arena) next(size int) []byte {
	if cap(a.block)-len(a.block) < size {
		if len(a.old) > 0 {
			a.block = a.old[0]
			a.old = append(a.old[1:], a.block)
		} else {
			a.block = make([]byte, 0, blockBytes)
		}
	}
	n := len(a.block)
	a.block = a.block[:n+size]
	return a.block[n:]
}

// fill makes quiet streams, each with one event.
func fill(tb testing.TB, s *memstore.Store, n int) {
	tb.Helper()
	data := make([]byte, 64)
	for i := range n {
		mustCreate(tb, s, "quiet/"+strconv.Itoa(i))
		req := reprise.AppendRequest{
			Key: key("quiet/" + strconv.Itoa(i)), Epoch: epoch, First: 1, Count: 1, Bytes: data, Earliest: 1, Kept: 64,
		}
		mustAppend(tb, s, req)
	}
}

// BenchmarkAppend is one batch of one 200-byte event to one stream of many, with the
// retention of a Log: 10,000 events are kept.
func BenchmarkAppend(b *testing.B) {
	for _, quiet := range []int{0, 1_000_000} {
		b.Run(fmt.Sprintf("size=200/batch=1/quiet=%d", quiet), func(b *testing.B) {
			s := memstore.New(nil)
			defer s.Close()
			fill(b, s, quiet)
			runtime.GC()
			mustCreate(b, s, "busy")
			from := recycling(10_000 * 200)
			reqs := []reprise.AppendRequest{{Key: key("busy"), Epoch: epoch, Count: 1, Earliest: 1}}
			req := &reqs[0]
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				req.First++
				if req.First > 10_000 {
					req.Earliest++
				}
				req.Bytes = from.next(200)
				req.Kept = int64(req.First+1-req.Earliest) * 200
				if errs := s.Append(ctx, reqs); errs != nil {
					b.Fatal(errs)
				}
			}
		})
	}
}

// BenchmarkReadTail reads the last 10 of many batches of one event each.
func BenchmarkReadTail(b *testing.B) {
	for _, events := range []int{100, 1_000_000} {
		b.Run(fmt.Sprintf("size=200/batch=1/events=%d", events), func(b *testing.B) {
			s, ctx := memstore.New(nil), b.Context()
			defer s.Close()
			appendEvents(b, s, events)
			b.ReportAllocs()
			for b.Loop() {
				page, err := s.Read(ctx, key("busy"), uint64(events-10), 1<<20)
				if err != nil || len(page.Batches) != 10 {
					b.Fatal(len(page.Batches), err)
				}
			}
		})
	}
}

// BenchmarkExpire is a sweep of 10,000 of 100,000 streams.
func BenchmarkExpire(b *testing.B) {
	now := time.Now()
	for b.Loop() {
		b.StopTimer()
		s := memstore.New(nil)
		for i := range 100_000 {
			name := strconv.Itoa(i)
			mustCreate(b, s, name)
			expires := now.Add(time.Hour)
			if i%10 == 0 {
				expires = now
			}
			mustAppend(b, s, reprise.AppendRequest{
				Key: key(name), Epoch: epoch, First: 1, Count: 1, Bytes: []byte("x"), Earliest: 1, Kept: 1,
				End: &reprise.End{Outcome: "completed", Time: now, Expires: expires},
			})
		}
		b.StartTimer()
		swept, err := s.Sweep(b.Context(), now, now.Add(time.Hour), 100_000)
		if err != nil || len(swept) != 10_000 {
			b.Fatal(len(swept), err)
		}
	}
}

// BenchmarkHeap reports the heap that an event of 200 bytes takes, its bytes included.
func BenchmarkHeap(b *testing.B) {
	const events = 1_000_000
	for b.Loop() {
		before := heap()
		s := memstore.New(nil)
		appendEvents(b, s, events)
		b.ReportMetric(float64(heap()-before)/events, "B/event")
		runtime.KeepAlive(s)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// appendEvents makes the stream "busy" of events of 200 bytes, a batch each.
func appendEvents(tb testing.TB, s *memstore.Store, events int) {
	tb.Helper()
	mustCreate(tb, s, "busy")
	var from arena
	for i := range events {
		mustAppend(tb, s, reprise.AppendRequest{
			Key: key("busy"), Epoch: epoch, First: uint64(i + 1), Count: 1, Bytes: from.next(200),
			Earliest: 1, Kept: int64(i+1) * 200,
		})
	}
}
