package listing

import (
	"iter"
	"math"
	"slices"
	"sort"
)

// maxPart bounds the streams in one part of an order.
const maxPart = 256

// order keeps the numbers of streams, which is the order of their creation. It is a row of
// parts, none of which is empty. Adding is O(1); finding a place, also that of a stream which has
// gone, is O(log n); removing moves at most one part and the row of parts. Numbers
// rather than pointers spare the search a cache miss at each step, and the garbage
// collector most of the work.
type order struct {
	parts []part
}

// part has the numbers of up to maxPart streams, less base, in half the memory.
type part struct {
	base  uint64
	above []uint32
}

func (p *part) last() uint64 { return p.base + uint64(p.above[len(p.above)-1]) }

// takes reports whether number can be in p.
func (p *part) takes(number uint64) bool { return number-p.base <= math.MaxUint32 }

func (o *order) empty() bool { return len(o.parts) == 0 }

// add puts the newest stream of all at the end.
func (o *order) add(number uint64) {
	last := len(o.parts) - 1
	if last < 0 || len(o.parts[last].above) == maxPart || !o.parts[last].takes(number) {
		o.parts = append(o.parts, part{base: number})
		last++
	}
	p := &o.parts[last]
	p.above = append(p.above, uint32(number-p.base))
}

// find returns the place of the first stream whose number is at least number.
func (o *order) find(number uint64) (k, i int) {
	k = sort.Search(len(o.parts), func(k int) bool { return o.parts[k].last() >= number })
	if k < len(o.parts) && number > o.parts[k].base {
		i, _ = slices.BinarySearch(o.parts[k].above, uint32(number-o.parts[k].base))
	}
	return k, i
}

// remove takes out a stream, which is there. Parts that have become small
// are put together, so that no more than half of the room is wasted.
func (o *order) remove(number uint64) {
	k, i := o.find(number)
	p := &o.parts[k]
	p.above = slices.Delete(p.above, i, i+1)
	if len(p.above) == 0 {
		o.parts = slices.Delete(o.parts, k, k+1)
		return
	}
	if k+1 == len(o.parts) {
		return
	}
	next := &o.parts[k+1]
	if len(p.above)+len(next.above) <= maxPart/2 && p.takes(next.last()) {
		for _, above := range next.above {
			p.above = append(p.above, uint32(next.base+uint64(above)-p.base))
		}
		o.parts = slices.Delete(o.parts, k+1, k+2)
	}
}

// before yields the streams whose number is below number, the newest first.
func (o *order) before(number uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		k, i := o.find(number)
		for {
			for i--; i >= 0; i-- {
				if !yield(o.parts[k].base + uint64(o.parts[k].above[i])) {
					return
				}
			}
			if k--; k < 0 {
				return
			}
			i = len(o.parts[k].above)
		}
	}
}
