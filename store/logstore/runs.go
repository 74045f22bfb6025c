package logstore

import (
	"iter"
	"math"
	"slices"
)

// run are batches of a stream, one behind the other, that lie in one segment.
type run struct {
	first   uint64 // event
	segment uint32 // from 1
	space   uint32 // of its batches in the segment; see runs
}

// runs say in which segments the batches of a stream lie, oldest first and without gaps. Where in the segment a batch
// lies is in the index of the segment. A run takes 4 to 6 bytes, the newest one 16.
//
// Where a run is divided since a batch in its middle was moved, its space counts at the later part. So the runs of a
// segment, from any one on, never have less space than their batches take.
type runs struct {
	first  uint64 // event of the oldest run, unless there is only the newest
	older  []byte // number of events, segment and space of each
	newest run    // segment 0 if there is none
}

// all yields all runs with the first event after each. That of the newest one is math.MaxUint64.
func (p *runs) all() iter.Seq2[run, uint64] {
	return func(yield func(run, uint64) bool) {
		next := p.first
		for c := (cutter{b: p.older}); len(c.b) > 0; {
			first := next
			next += c.uint()
			if !yield(run{first, uint32(c.uint()), uint32(c.uint())}, next) {
				return
			}
		}
		if p.newest.segment != 0 {
			yield(p.newest, math.MaxUint64)
		}
	}
}

// each yields all runs.
func (p *runs) each(yield func(run) bool) {
	for r := range p.all() {
		if !yield(r) {
			return
		}
	}
}

// from yields the run that holds the event seq and those after it, as all does.
func (p *runs) from(seq uint64) iter.Seq2[run, uint64] {
	return func(yield func(run, uint64) bool) {
		if p.newest.segment != 0 && p.newest.first <= seq {
			yield(p.newest, math.MaxUint64)
			return
		}
		for r, next := range p.all() {
			if next > seq && !yield(r, next) {
				return
			}
		}
	}
}

// holder returns the run that holds the event seq.
func (p *runs) holder(seq uint64) (r run, ok bool) {
	for r := range p.from(seq) {
		return r, r.first <= seq
	}
	return run{}, false
}

// oldest returns the oldest run.
func (p *runs) oldest() (r run, ok bool) {
	for r := range p.all() {
		return r, true
	}
	return run{}, false
}

// number returns the number of runs.
func (p *runs) number() (n int) {
	for range p.all() {
		n++
	}
	return n
}

// add adds a batch behind all others, or a run. It returns the number of new runs.
func (p *runs) add(r run) int {
	if p.newest.segment == r.segment {
		p.newest.space += r.space
		return 0
	}
	if old := p.newest; old.segment != 0 {
		if len(p.older) == 0 {
			p.first = old.first
		}
		p.older = appendUints(p.older, r.first-old.first, uint64(old.segment), uint64(old.space))
	}
	p.newest = r
	return 1
}

// drop drops the runs whose events are all before seq, and calls dropped for each. next is the first event after all.
func (p *runs) drop(seq, next uint64, dropped func(run)) {
	for len(p.older) > 0 {
		c := cutter{b: p.older}
		n := c.uint()
		if p.first+n > seq {
			return
		}
		dropped(run{p.first, uint32(c.uint()), uint32(c.uint())})
		p.first, p.older = p.first+n, c.b
	}
	p.older = nil
	if p.newest.segment != 0 && next <= seq {
		dropped(p.newest)
		p.newest = run{}
	}
}

// settle takes the batches before the event first, which take so much space, out of the oldest run. It returns how
// much that run has less.
func (p *runs) settle(first uint64, space uint32) (less uint32) {
	if len(p.older) == 0 {
		less = min(space, p.newest.space)
		p.newest.first, p.newest.space = first, p.newest.space-less
		return less
	}
	c := cutter{b: p.older}
	n, segment, old := c.uint(), c.uint(), uint32(c.uint())
	less = min(space, old)
	head := appendUints(make([]byte, 0, 20), n-(first-p.first), segment, uint64(old-less))
	p.older = p.older[len(p.older)-len(c.b)-len(head):] // its numbers are smaller, so that it is not longer
	copy(p.older, head)
	p.first = first
	return less
}

// move changes the segment of a batch, of the events from first to last. next is the first event after all. It returns
// the segment where the batch was, and the space of batches there that were dropped before. ok is false if the batch is
// not there.
func (p *runs) move(first, last, next uint64, space, to uint32) (from, dropped uint32, ok bool) {
	var list []run
	i, end := -1, uint64(0)
	for r, after := range p.all() {
		after = min(after, next)
		if r.first <= first && last < after {
			i, end = len(list), after
		}
		list = append(list, r)
	}
	if i < 0 || list[i].segment == to || !take(list[i:], space) {
		return 0, 0, false
	}
	r, moved := list[i], run{first, to, space}
	before, behind := run{r.first, r.segment, 0}, run{last + 1, r.segment, r.space}
	var parts []run
	switch hasBefore, hasBehind := r.first < first, last+1 < end; {
	case hasBefore && hasBehind:
		parts = []run{before, moved, behind}
	case hasBehind:
		parts = []run{moved, behind}
	case hasBefore:
		before.space = r.space
		parts = []run{before, moved}
	default:
		parts = []run{moved}
		dropped = give(list, i)
	}
	*p = runs{}
	for _, r := range slices.Replace(list, i, i+1, parts...) {
		p.add(r)
	}
	return r.segment, dropped, true
}

// take takes space out of the first run, and of others of its segment what that does not have.
func take(list []run, space uint32) bool {
	for i := range list {
		if list[i].segment == list[0].segment {
			less := min(space, list[i].space)
			list[i].space -= less
			space -= less
		}
	}
	return space == 0
}

// give counts the space of run i at the next one of its segment, or else at the last one before. It returns the space
// if there is no other.
func give(list []run, i int) uint32 {
	other := -1
	for j := range list {
		if j != i && list[j].segment == list[i].segment && (j < i || other < i) {
			other = j
		}
	}
	if other < 0 {
		return list[i].space
	}
	list[other].space += list[i].space
	return 0
}
