package logstore

import (
	"bytes"
	"iter"
	"slices"
	"sort"
)

// batch is the place of a batch: its checksum, followed by its bytes.
type batch struct {
	first   uint64
	count   uint32
	segment uint32 // set by view
	at      uint32
	size    uint32 // of the bytes
}

func (b *batch) last() uint64 { return b.first + uint64(b.count) - 1 }
func (b *batch) end() int64   { return int64(b.at) + b.space() }

func (b *batch) space() int64 { return int64(space(int(b.size))) }

// space is what a batch takes in its segment. It is never 0: a segment without live bytes is removed.
func space(size int) uint32 { return sumBytes + uint32(size) }

// places are the places of the batches of a stream in one segment, in the order of their events. They may have gaps:
// what lies between is in other segments. A place takes 5 to 7 bytes.
//
//	chunk    number of batches (a byte), first, at, batch, ...
//	batch    count, at less that of the chunk, size
type places struct {
	newest []byte    // the chunk with the highest events, to which most places are added; nil if there is none
	next   uint64    // the event after those of newest
	older  *[][]byte // the chunks before
}

// placesOf returns the places of a stream, to be added to.
func placesOf(streams map[uint64]*places, id uint64) *places {
	p := streams[id]
	if p == nil {
		p = &places{}
		streams[id] = p
	}
	return p
}

// chunkBatches is the number of batches of a full chunk.
const chunkBatches = 64

// chunks yields all chunks, in the order of their events.
func (p *places) chunks() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, chunk := range p.full() {
			if !yield(chunk) {
				return
			}
		}
		if p.newest != nil {
			yield(p.newest)
		}
	}
}

// full returns the chunks before the newest one.
func (p *places) full() [][]byte {
	if p.older == nil {
		return nil
	}
	return *p.older
}

// add adds a batch, which is not there. Its place is behind those that were added before.
func (p *places) add(b *batch) {
	switch {
	case p.newest == nil:
		p.newest = newChunk(b)
	case b.first < p.next: // it was moved
		p.insert(b)
		return
	case b.first > p.next || p.newest[0] == chunkBatches || b.at < atOf(p.newest):
		older := append(p.full(), bytes.Clone(p.newest))
		p.older, p.newest = &older, newChunk(b)
	default:
		p.newest = appendPlace(p.newest, b)
	}
	p.next = b.last() + 1
}

// insert adds a batch before those of the newest chunk.
func (p *places) insert(b *batch) {
	older := p.full()
	i := sort.Search(len(older), func(i int) bool { return firstOf(older[i]) > b.first })
	if i > 0 && follows(older[i-1], b) {
		older[i-1] = appendPlace(older[i-1], b)
		return
	}
	older = slices.Insert(older, i, newChunk(b))
	p.older = &older
}

// follows reports whether b can be added to a chunk.
func follows(chunk []byte, b *batch) bool {
	next := uint64(0)
	for other := range in(chunk) {
		next = other.last() + 1
	}
	return next == b.first && chunk[0] < chunkBatches && b.at >= atOf(chunk)
}

// newChunk returns a chunk with one batch.
func newChunk(b *batch) []byte {
	return appendPlace(appendUints(make([]byte, 1, 16), b.first, uint64(b.at)), b)
}

// appendPlace adds a place to a chunk.
func appendPlace(chunk []byte, b *batch) []byte {
	chunk[0]++
	return appendUints(chunk, uint64(b.count), uint64(b.at-atOf(chunk)), uint64(b.size))
}

// firstOf returns the first event of a chunk.
func firstOf(chunk []byte) uint64 {
	c := cutter{b: chunk[1:]}
	return c.uint()
}

// atOf returns the place of the first batch of a chunk.
func atOf(chunk []byte) uint32 {
	c := cutter{b: chunk[1:]}
	c.uint()
	return uint32(c.uint())
}

// in yields the batches of a chunk.
func in(chunk []byte) iter.Seq[batch] {
	return func(yield func(batch) bool) {
		c := cutter{b: chunk[1:]}
		first, at := c.uint(), uint32(c.uint())
		for range chunk[0] {
			b := batch{first: first, count: uint32(c.uint()), at: at + uint32(c.uint()), size: uint32(c.uint())}
			if c.bad || !yield(b) {
				return
			}
			first += uint64(b.count)
		}
	}
}

// from yields the batch that holds the event seq, if there is one, and those after it.
func (p *places) from(seq uint64) iter.Seq[batch] {
	return func(yield func(batch) bool) {
		if p == nil { // the segment has none of the stream
			return
		}
		full := p.full()
		i := max(0, sort.Search(len(full), func(i int) bool { return firstOf(full[i]) > seq })-1)
		if p.newest != nil && firstOf(p.newest) <= seq {
			i = len(full)
		}
		for ; i <= len(full); i++ {
			chunk := p.newest
			if i < len(full) {
				chunk = full[i]
			} else if chunk == nil {
				return
			}
			for b := range in(chunk) {
				if b.last() >= seq && !yield(b) {
					return
				}
			}
		}
	}
}
