package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"reprise"
)

// Benchmark measures the operations that a Log uses: appends to one stream and to many in one commit, reads near the
// tail of a long stream, and a replay of the whole stream. Results have names such as
// append/streams=1/size=200/batch=100. ns/event is the time for one event, and ns/op is the time for one call.
// Options.Events bounds the length of the long stream, which is at most 100,000. opts may be nil.
func Benchmark(b *testing.B, open Opener, opts *Options) {
	events := min(opts.withDefaults().Events, 100_000)
	for _, size := range []int{200, 16 << 10} {
		for _, batch := range []int{1, 100} {
			for _, streams := range []int{1, 64, 512} {
				if streams*batch*size > 16<<20 {
					continue
				}
				b.Run(fmt.Sprintf("append/streams=%d/size=%d/batch=%d", streams, size, batch), func(b *testing.B) {
					newBench(b, open, streams, size, batch).append()
				})
			}
		}
	}
	for _, batch := range []int{1, 100} {
		last := 10
		b.Run(fmt.Sprintf("tail/events=%d/size=200/batch=%d", events, batch), func(b *testing.B) {
			newBench(b, open, 1, 200, batch).fill(events).tail(last)
		})
		b.Run(fmt.Sprintf("replay/events=%d/size=200/batch=%d", events, batch), func(b *testing.B) {
			newBench(b, open, 1, 200, batch).fill(events).replay()
		})
	}
}

// bench is a fresh Store with some streams.
type bench struct {
	*testing.B
	store reprise.Store
	reqs  []reprise.AppendRequest // the next append to each stream
	size  int                     // of an event
	batch int                     // events
	block []byte                  // from which the bytes of batches are cut
	text  []byte                  // the content of new blocks
}

func newBench(b *testing.B, open Opener, streams, size, batch int) *bench {
	store, err := open(b).Open()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	m := &bench{B: b, store: store, size: size, batch: batch}
	m.text = bytes.Repeat([]byte("The quick brown fox jumps over the lazy dog.\n"), max(64<<10, size*batch)/45+1)
	for i := range streams {
		info := reprise.StreamInfo{Key: key(fmt.Sprint("s/", i)), Epoch: reprise.NewEpoch(), Created: now()}
		if _, err := store.Create(b.Context(), info); err != nil {
			b.Fatal(err)
		}
		m.reqs = append(m.reqs,
			reprise.AppendRequest{Key: info.Key, Epoch: info.Epoch, First: 1, Count: batch, Earliest: 1})
	}
	return m
}

// window is the number of kept events, which is the default of a Log.
const window = 10_000

// next prepares the next append to every stream. keep is the number of kept events.
func (m *bench) next(keep int) {
	for i := range m.reqs {
		req := &m.reqs[i]
		if req.Bytes != nil {
			req.First += uint64(m.batch)
		}
		req.Bytes = m.bytes(m.size * m.batch)
		last := req.First + uint64(m.batch) - 1
		if last > uint64(keep) {
			req.Earliest = last - uint64(keep) + 1
		}
		req.Kept = int64(last+1-req.Earliest) * int64(m.size)
	}
}

// bytes cuts a batch from a block, right after the previous one, as a Log does.
func (m *bench) bytes(n int) []byte {
	if cap(m.block)-len(m.block) < n {
		m.block = slices.Grow([]byte(nil), max(64<<10, n))
		copy(m.block[:cap(m.block)], m.text)
	}
	from := len(m.block)
	m.block = m.block[:from+n]
	return m.block[from:]
}

func (m *bench) send() {
	if errs := m.store.Append(m.Context(), m.reqs); errs != nil {
		m.Fatal(errs[slices.IndexFunc(errs, func(err error) bool { return err != nil })])
	}
}

// perEvent reports the time for an event. events is the number of events in a call.
func (m *bench) perEvent(events int) {
	m.ReportMetric(float64(m.Elapsed().Nanoseconds())/float64(m.N)/float64(events), "ns/event")
}

func (m *bench) append() {
	m.SetBytes(int64(m.size * m.batch * len(m.reqs)))
	m.ReportAllocs()
	for m.Loop() {
		m.next(window)
		m.send()
	}
	m.perEvent(m.batch * len(m.reqs))
}

// fill appends to the stream until it has the given number of events.
func (m *bench) fill(events int) *bench {
	for range events / m.batch {
		m.next(events)
		m.send()
	}
	return m
}

func (m *bench) tail(events int) {
	req := &m.reqs[0]
	after := req.First + uint64(req.Count) - 1 - uint64(events)
	m.ReportAllocs()
	for m.Loop() {
		if page := m.page(after); len(page.Batches) == 0 {
			m.Fatal("nothing near the tail")
		}
	}
}

func (m *bench) replay() {
	req := &m.reqs[0]
	last := req.First + uint64(req.Count) - 1
	m.SetBytes(int64(last) * int64(m.size))
	m.ReportAllocs()
	for m.Loop() {
		for after := uint64(0); after < last; {
			page := m.page(after)
			after = page.Batches[len(page.Batches)-1].Last()
		}
	}
	m.perEvent(int(last))
}

func (m *bench) page(after uint64) reprise.Page {
	page, err := m.store.Read(m.Context(), m.reqs[0].Key, after, 256<<10)
	if err != nil {
		m.Fatal(err)
	}
	return page
}
