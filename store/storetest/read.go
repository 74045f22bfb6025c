package storetest

import (
	"slices"
	"sync/atomic"
	"time"

	"reprise"
)

const (
	ruleReadMaxBytes   = "It must stop after the first batch with which the page reaches maxBytes, so that a page with something to give is never empty unless maxBytes is 0."
	ruleReadConsistent = "Info, window and batches must be one consistent view: batches must cover everything from max(after+1, Earliest) on, to the tail unless maxBytes cut them."
	ruleReadBeyond     = "A position beyond the tail must give an empty page."
	ruleReadOrder      = "Read returns the batches that hold the events after seq after, in order and without a hole; the first may begin earlier."
	ruleReadError      = "The error is ErrNotFound or, for a while after the stream was swept, ErrExpired."
	ruleReadKept       = "The caller must not change what is returned."
	ruleReadCost       = "Finding the position must not cost more than O(log n) in the number of batches."
)

var readChecks = []check{
	{name: "positions", rule: ruleReadConsistent, run: func(e *env) {
		s := e.create("s").append(1, 5, 2, 1, 1, 7, 3)
		s.everyPosition()
		for _, before := range []uint64{2, 3, 7, 9, 20, 21} { // 20: only the last event is left, 21: nothing
			s.trim(before).everyPosition()
		}
		s.append(4, 2).everyPosition()
	}},
	{name: "max bytes", rule: ruleReadMaxBytes, run: func(e *env) {
		s := e.create("s").append(1, 5, 2, 1, 9)
		for maxBytes := range 19 * eventBytes {
			for after := range s.tail + 1 {
				s.read(after, maxBytes)
			}
		}
	}},
	{name: "beyond the tail", rule: ruleReadBeyond, run: func(e *env) {
		s := e.create("s")
		for range 2 {
			for _, after := range []uint64{s.tail, s.tail + 1, s.tail + 2, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
				page := s.read(after, 1<<20)
				e.sameInfo(page.Info, s.state())
			}
			s.append(3, 4)
		}
	}},
	{name: "batches as appended", rule: ruleReadOrder, run: func(e *env) {
		s := e.create("s")
		var want []reprise.Batch
		for _, n := range []int{1, 1, 1, 2, 30, 1, 3, 1000, 2, 1} {
			want = append(want, reprise.Batch{First: s.tail + 1, Count: n, Bytes: s.batch(s.tail+1, n)})
			s.append(n)
		}
		e.sameBatches(s.read(0, 1<<20).Batches, want)
	}},
	{name: "pages", rule: ruleReadOrder, run: func(e *env) {
		s := e.create("s")
		for n := range 300 {
			s.append(1 + n%5)
		}
		for _, maxBytes := range []int{1, 100, 1000, 1 << 20} {
			after := uint64(0)
			for after < s.tail {
				page := s.read(after, maxBytes)
				if first := page.Batches[0].First; first != after+1 {
					e.failf("the page after %d, which is the end of a batch, begins with %d", after, first)
				}
				after = page.Batches[len(page.Batches)-1].Last()
			}
		}
	}},
	{name: "empty", rule: ruleReadConsistent, run: func(e *env) { e.create("s").everyPosition() }},
	{name: "absent", rule: ruleReadError, run: func(e *env) {
		e.create("s").append(1)
		for _, k := range []reprise.StreamKey{key("absent"), key("S"), {Tenant: "other", Name: "s"}} {
			_, err := e.store.Read(e.ctx, k, 0, 1<<20)
			e.wantError(err, reprise.ErrNotFound, "read %s", k)
		}
	}},
	{name: "kept pages", rule: ruleReadKept, run: readKept},
	{name: "while it changes", rule: ruleReadConsistent, run: readWhileItChanges},
}

// everyPosition reads from every position of s with various limits.
func (s *stream) everyPosition() {
	s.same()
	for after := range s.tail + 3 {
		for _, maxBytes := range []int{0, 1, eventBytes, 3*eventBytes + 1, 1 << 20} {
			page := s.read(after, maxBytes)
			s.e.sameInfo(page.Info, s.state())
		}
	}
}

// readKept retains pages, as readers do, while the stream changes in every way.
func readKept(e *env) {
	p := newProducers(e)
	p.send("a", "b", "c")
	s := p.stream.append(3, 1, 200)
	var pages, copies []reprise.Page
	keep := func() {
		for _, after := range []uint64{0, 2, s.tail - 1} {
			page := s.read(after, 1<<20)
			pages, copies = append(pages, page), append(copies, clonePage(page))
		}
	}
	keep()
	s.append(2, 300)
	p.send("b", "d", "a")
	keep()
	s.trim(s.tail - 1)
	p.send("c")
	keep()
	s.finish(now().Add(time.Hour))
	s.remove(reprise.RemoveSpec{})
	e.create("s").append(500, 20).read(0, 1<<20)
	for i, want := range copies {
		got := pages[i]
		e.sameInfo(got.Info, want.Info)
		e.sameBatches(got.Batches, want.Batches)
		if !slices.Equal(got.Info.Producers, want.Info.Producers) {
			e.failf("the producers of a page have become %v, they were %v", got.Info.Producers, want.Info.Producers)
		}
	}
}

func clonePage(page reprise.Page) reprise.Page {
	page.Info.Producers = slices.Clone(page.Info.Producers)
	page.Batches = slices.Clone(page.Batches)
	for i := range page.Batches {
		page.Batches[i].Bytes = slices.Clone(page.Batches[i].Bytes)
	}
	return page
}

// readWhileItChanges reads pages while one caller appends and moves the window and another trims.
func readWhileItChanges(e *env) {
	const batches, window = 400, 60
	s := e.create("s").append(window)
	reader := *s
	var done atomic.Bool
	var tail atomic.Uint64
	tail.Store(window)
	e.concurrently(4, func(i int) {
		if i > 0 { // a reader
			for after := uint64(0); !done.Load(); after += 7 {
				acknowledged := tail.Load()
				page := reader.read(after%(acknowledged+1), 64*i*eventBytes)
				if page.Info.Tail < acknowledged {
					e.failf("the tail is %d after event %d was acknowledged", page.Info.Tail, acknowledged)
				}
			}
			return
		}
		defer done.Store(true)
		for n := range batches {
			req := s.request(1 + n%9)
			if next := req.First + uint64(req.Count); n%2 == 0 && next > req.Earliest+window {
				req.Earliest = next - window
			}
			req.Kept = keptBytes(req.Earliest, req.First+uint64(req.Count)-1)
			s.send(req)
			tail.Store(s.tail)
			if n%5 == 0 {
				s.trim(s.tail - window/2)
			}
		}
	})
	s.same()
}
