package logstore

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRunsAreThoseOfSlice: whatever is added, moved, trimmed and settled, the runs say the segments of all batches.
// From any run on, no segment has less space than its batches take from there on: it would be removed with them.
func TestRunsAreThoseOfSlice(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		h := &runHistory{t: t, rnd: rnd, newest: 1, earliest: 1, live: map[uint32]int64{}}
		for range 300 {
			h.step()
			h.check()
		}
		h.trim(h.tail + 1)
		h.check()
		for segment, bytes := range h.live {
			if bytes != 0 {
				t.Fatalf("segment %d has %d bytes when all is dropped", segment, bytes)
			}
		}
	}
}

// runHistory is what happens to a stream, and what it should have.
type runHistory struct {
	t              *testing.T
	rnd            *rand.Rand
	runs           runs
	batches        []batch // in order, also those that are dropped and count still
	tail, earliest uint64
	newest         uint32           // segment
	live           map[uint32]int64 // bytes that count
}

func (h *runHistory) step() {
	switch h.rnd.IntN(8) {
	case 0:
		h.newest++
	case 1:
		h.trim(h.earliest + h.rnd.Uint64N(h.tail+2-h.earliest)/8)
	case 2:
		h.move()
	default:
		b := batch{first: h.tail + 1, count: 1 + h.rnd.Uint32N(3), segment: h.newest, size: h.rnd.Uint32N(300)}
		h.batches = append(h.batches, b)
		h.tail = b.last()
		h.runs.add(run{b.first, b.segment, space(int(b.size))})
		h.live[b.segment] += b.space()
	}
}

// trim drops batches, and in half of the cases counts the batches of the oldest run.
func (h *runHistory) trim(earliest uint64) {
	h.earliest = max(h.earliest, earliest)
	h.runs.drop(h.earliest, h.tail+1, func(r run) { h.live[r.segment] -= int64(r.space) })
	oldest, some := h.runs.oldest()
	before := trimming{earliest: h.earliest}
	for len(h.batches) > 0 && (!some || h.batches[0].first < oldest.first) {
		h.batches = h.batches[1:]
	}
	for _, b := range h.batches {
		if !before.add(b) {
			break
		}
	}
	if some && before.next > oldest.first && h.rnd.IntN(2) == 0 {
		h.live[oldest.segment] -= int64(h.runs.settle(before.next, uint32(before.space)))
	}
}

// move moves some of the batches of a segment to the newest one, most often in order.
func (h *runHistory) move() {
	if len(h.batches) == 0 {
		return
	}
	from := h.batches[h.rnd.IntN(len(h.batches))].segment
	h.newest++
	order := h.rnd.Perm(len(h.batches))
	if h.rnd.IntN(3) > 0 {
		slices.Sort(order)
	}
	for _, i := range order {
		b := &h.batches[i]
		if b.segment != from || b.last() < h.earliest || h.rnd.IntN(10) == 0 {
			continue
		}
		was, dropped, ok := h.runs.move(b.first, b.last(), h.tail+1, uint32(b.space()), h.newest)
		if !ok || was != from {
			h.t.Fatalf("batch %d is moved from segment %d, %t, want %d", b.first, was, ok, from)
		}
		b.segment = h.newest
		h.live[from] -= b.space() + int64(dropped)
		h.live[b.segment] += b.space()
		h.runs.drop(h.earliest, h.tail+1, func(r run) { h.live[r.segment] -= int64(r.space) })
	}
}

func (h *runHistory) check() {
	count := map[uint32]int64{}
	list := []run{}
	for r, next := range h.runs.all() {
		list = append(list, r)
		count[r.segment] += int64(r.space)
		if next <= r.first {
			h.t.Fatalf("run %v ends before %d", r, next)
		}
	}
	for segment, bytes := range h.live {
		if bytes != count[segment] {
			h.t.Fatalf("segment %d has %d bytes, the runs %v", segment, bytes, list)
		}
	}
	for i := range list {
		spare := map[uint32]int64{}
		for _, r := range list[i:] {
			spare[r.segment] += int64(r.space)
		}
		for _, b := range h.batches {
			if b.last() >= h.earliest && b.first >= list[i].first {
				spare[b.segment] -= b.space()
			}
		}
		for segment, bytes := range spare {
			if bytes < 0 {
				h.t.Fatalf("from event %d on, segment %d has %d bytes: %v", list[i].first, segment, bytes, list)
			}
		}
	}
	for _, b := range h.batches {
		if r, ok := h.runs.holder(b.first); b.last() >= h.earliest && (!ok || r.segment != b.segment) {
			h.t.Fatalf("batch %d lies in segment %d, and in the run %v", b.first, b.segment, r)
		}
	}
}
