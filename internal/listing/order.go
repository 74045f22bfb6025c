package listing

import (
	"iter"
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
	parts [][]uint64
}

func (o *order) empty() bool { return len(o.parts) == 0 }

// add puts the newest stream of all at the end.
func (o *order) add(number uint64) {
	last := len(o.parts) - 1
	if last < 0 || len(o.parts[last]) == maxPart {
		o.parts = append(o.parts, nil)
		last++
	}
	o.parts[last] = append(o.parts[last], number)
}

// find returns the place of the first stream whose number is at least number.
func (o *order) find(number uint64) (part, i int) {
	part = sort.Search(len(o.parts), func(k int) bool { return o.parts[k][len(o.parts[k])-1] >= number })
	if part < len(o.parts) {
		i, _ = slices.BinarySearch(o.parts[part], number)
	}
	return part, i
}

// remove takes out a stream, which is there. Parts that have become small
// are put together, so that no more than half of the room is wasted.
func (o *order) remove(number uint64) {
	k, i := o.find(number)
	o.parts[k] = slices.Delete(o.parts[k], i, i+1)
	switch {
	case len(o.parts[k]) == 0:
		o.parts = slices.Delete(o.parts, k, k+1)
	case k+1 < len(o.parts) && len(o.parts[k])+len(o.parts[k+1]) <= maxPart/2:
		o.parts[k] = append(o.parts[k], o.parts[k+1]...)
		o.parts = slices.Delete(o.parts, k+1, k+2)
	}
}

// before yields the streams whose number is below number, the newest first.
func (o *order) before(number uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		part, i := o.find(number)
		for {
			for i--; i >= 0; i-- {
				if !yield(o.parts[part][i]) {
					return
				}
			}
			if part--; part < 0 {
				return
			}
			i = len(o.parts[part])
		}
	}
}
