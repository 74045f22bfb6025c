package logstore

import (
	"container/heap"
	"time"
)

// queue holds when ended streams, or marks, are removed by Sweep, in that order. What is removed otherwise, or gets
// another time, stays in it until then, or until there is too much of it.
type queue struct {
	heap    byDue
	ordered bool // heap is one; it is not before Sweep needs it
	gone    int  // of what does not count any more, at least so much is in it
}

// due is the time at which a stream or mark is removed.
type due struct {
	seconds int64 // since 1970
	id      uint64
	nanos   uint32
}

func dueOf(st *stream) due {
	at := st.due()
	return due{at.Unix(), st.id, uint32(at.Nanosecond())}
}

func (d *due) after(t time.Time) bool {
	return d.seconds > t.Unix() || d.seconds == t.Unix() && int(d.nanos) > t.Nanosecond()
}

// first returns the first ones whose time is not after now, up to limit of them. They stay in the queue. take returns
// the stream or mark, and nil for what does not count any more.
func (q *queue) first(now time.Time, limit int, take func(due) *stream) (list []*stream) {
	if !q.ordered {
		heap.Init(&q.heap)
		q.ordered = true
	}
	var before due
	for len(q.heap) > 0 && !q.heap[0].after(now) && len(list) < limit {
		d := q.heap[0]
		q.heap.Swap(0, len(q.heap)-1)
		q.heap = q.heap[:len(q.heap)-1]
		if len(q.heap) > 0 {
			heap.Fix(&q.heap, 0)
		}
		if st := take(d); st != nil && d != before { // it may have had another time in between
			list = append(list, st)
			before = d
		} else {
			q.gone = max(0, q.gone-1)
		}
	}
	for _, st := range list {
		q.add(dueOf(st))
	}
	return list
}

func (q *queue) add(d due) {
	q.heap = append(q.heap, d)
	if q.ordered {
		heap.Fix(&q.heap, len(q.heap)-1)
	}
}

// remove says that one does not count any more. When that is more than half of the queue, only what counts stays.
func (q *queue) remove(counts func(due) bool) {
	if q.gone++; 2*q.gone <= len(q.heap)+64 {
		return
	}
	kept := q.heap[:0]
	for _, d := range q.heap {
		if counts(d) {
			kept = append(kept, d)
		}
	}
	q.heap, q.ordered, q.gone = append(byDue(nil), kept...), false, 0
}

// byDue implements heap.Interface, but for Push and Pop, which nothing calls.
type byDue []due

func (q byDue) Len() int { return len(q) }

func (q byDue) Less(i, j int) bool {
	a, b := &q[i], &q[j]
	switch {
	case a.seconds != b.seconds:
		return a.seconds < b.seconds
	case a.nanos != b.nanos:
		return a.nanos < b.nanos
	}
	return a.id < b.id
}

func (q byDue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (byDue) Push(any)        {}
func (byDue) Pop() any        { return nil }
