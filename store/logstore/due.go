package logstore

import (
	"container/heap"
	"time"
)

// queue holds ended streams, or marks, ordered by the time at which Sweep removes them.
type queue []*stream

// first returns the first ones whose time is not after now, up to limit of them. They stay in the queue.
func (q *queue) first(now time.Time, limit int) (due []*stream) {
	for len(*q) > 0 && !(*q)[0].due().After(now) && len(due) < limit {
		due = append(due, heap.Pop(q).(*stream))
	}
	for _, st := range due {
		q.add(st)
	}
	return due
}

func (q *queue) add(st *stream) { heap.Push(q, st) }

func (q *queue) remove(st *stream) {
	if st.place >= 0 {
		heap.Remove(q, int(st.place))
	}
}

// Len, Less, Swap, Push and Pop implement heap.Interface.

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due().Before(q[j].due()) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = int32(i), int32(j)
}

func (q *queue) Push(x any) {
	st := x.(*stream)
	st.place = int32(len(*q))
	*q = append(*q, st)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	st := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	st.place = -1
	return st
}
