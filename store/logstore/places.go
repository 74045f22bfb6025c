package logstore

import (
	"bytes"
	"iter"
	"sort"
)

// batch is the place of a batch: its checksum, followed by its bytes.
type batch struct {
	first   uint64
	count   uint32
	segment uint32
	at      uint32
	size    uint32 // of the bytes
}

func (b *batch) last() uint64 { return b.first + uint64(b.count) - 1 }
func (b *batch) end() int64   { return int64(b.at) + b.space() }

// space is what b takes in its segment. It is never 0: a segment without live bytes is removed.
func (b *batch) space() int64 { return sumBytes + int64(b.size) }

// places are the places of the batches of a stream, without gaps, oldest first. A place takes 5 to 7 bytes, and 9 if
// its batch lies in another segment than the first one of its chunk.
//
//	chunk    number of batches, number of those that are dropped (a byte each), first, segment, at, batch, ...
//	batch    2*count, at less that of the chunk, size
//	         2*count+1, segment, at, size
type places struct {
	newest []byte    // the chunk to which places are added; nil if there is none
	older  *[][]byte // full chunks
}

// chunkBatches is the number of batches of a full chunk.
const chunkBatches = 64

// full returns the chunks before the newest one.
func (p *places) full() [][]byte {
	if p.older == nil {
		return nil
	}
	return *p.older
}

// holder returns the index of the chunk that may hold the event seq, of which the newest one comes last.
func (p *places) holder(seq uint64) int {
	full := p.full()
	if p.newest != nil && firstOf(p.newest) <= seq {
		return len(full)
	}
	return max(0, sort.Search(len(full), func(i int) bool { return firstOf(full[i]) > seq })-1)
}

// number returns the number of batches.
func (p *places) number() int {
	n := 0
	if p.newest != nil {
		n = int(p.newest[0]) - int(p.newest[1])
	}
	if full := p.full(); len(full) > 0 {
		n += len(full)*chunkBatches - int(full[0][1])
	}
	return n
}

// add adds the place of the next batch.
func (p *places) add(b batch) {
	if p.newest != nil && p.newest[0] == chunkBatches {
		if p.older == nil {
			p.older = new([][]byte)
		}
		*p.older = append(*p.older, bytes.Clone(p.newest))
		p.newest = nil
	}
	if p.newest == nil {
		p.newest = newChunk(&b)
	}
	p.newest = appendPlace(p.newest, &b)
}

// newChunk returns a chunk without batches that begins with first.
func newChunk(first *batch) []byte {
	return appendUints(make([]byte, 2, 16), first.first, uint64(first.segment), uint64(first.at))
}

// appendPlace adds a place to a chunk.
func appendPlace(chunk []byte, b *batch) []byte {
	c := cutter{b: chunk[2:]}
	_, segment, at := c.uint(), uint32(c.uint()), uint32(c.uint())
	chunk[0]++
	if b.segment == segment && b.at >= at {
		return appendUints(chunk, 2*uint64(b.count), uint64(b.at-at), uint64(b.size))
	}
	return appendUints(chunk, 2*uint64(b.count)+1, uint64(b.segment), uint64(b.at), uint64(b.size))
}

// firstOf returns the first event of a chunk.
func firstOf(chunk []byte) uint64 {
	c := cutter{b: chunk[2:]}
	return c.uint()
}

// in yields the batches of a chunk but the first skip of them.
func in(chunk []byte, skip byte) iter.Seq[batch] {
	return func(yield func(batch) bool) {
		c := cutter{b: chunk[2:]}
		first, segment, at := c.uint(), uint32(c.uint()), uint32(c.uint())
		for i := range chunk[0] {
			kind := c.uint()
			b := batch{first: first, count: uint32(kind / 2), segment: segment, at: at}
			if kind%2 == 0 {
				b.at += uint32(c.uint())
			} else {
				b.segment, b.at = uint32(c.uint()), uint32(c.uint())
			}
			b.size = uint32(c.uint())
			first += uint64(b.count)
			if i >= skip && !yield(b) {
				return
			}
		}
	}
}

// from yields the batch that holds the event seq, or the next one, and those after it.
func (p *places) from(seq uint64) iter.Seq[batch] {
	return func(yield func(batch) bool) {
		full := p.full()
		for i := p.holder(seq); i <= len(full); i++ {
			chunk := p.newest
			if i < len(full) {
				chunk = full[i]
			} else if chunk == nil {
				return
			}
			for b := range in(chunk, chunk[1]) {
				if b.last() >= seq && !yield(b) {
					return
				}
			}
		}
	}
}

// all yields all batches.
func (p *places) all() iter.Seq[batch] { return p.from(0) }

// find returns the batch that begins with first.
func (p *places) find(first uint64) (b batch, ok bool) {
	for b := range p.from(first) {
		return b, b.first == first
	}
	return batch{}, false
}

// replace changes the place of a batch that is there.
func (p *places) replace(moved batch) {
	full, i := p.full(), p.holder(moved.first)
	old := p.newest
	if i < len(full) {
		old = full[i]
	}
	var changed []byte
	for b := range in(old, 0) {
		if b.first == moved.first {
			b = moved
		}
		if changed == nil {
			changed = newChunk(&b)
		}
		changed = appendPlace(changed, &b)
	}
	changed[1] = old[1]
	if i < len(full) {
		full[i] = bytes.Clone(changed)
	} else {
		p.newest = changed
	}
}

// drop drops the batches whose events are all before seq, and calls dropped for each.
func (p *places) drop(seq uint64, dropped func(batch)) {
	for {
		full, chunk := p.full(), p.newest
		if len(full) > 0 {
			chunk = full[0]
		} else if chunk == nil {
			return
		}
		for b := range in(chunk, chunk[1]) {
			if b.last() >= seq {
				return
			}
			dropped(b)
			chunk[1]++
		}
		if len(full) == 0 {
			p.newest = nil
			return
		}
		full[0] = nil
		if *p.older = full[1:]; len(full) == 1 {
			p.older = nil
		}
	}
}
