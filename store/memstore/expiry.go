package memstore

import (
	"container/heap"
	"context"
	"time"

	"reprise"
)

// due is something that is to happen to a name at a time.
type due struct {
	at    time.Time
	key   reprise.StreamKey
	place int // in its queue
}

// queue is a heap of what is due, the soonest first.
type queue []*due

func (q *queue) add(d *due)    { heap.Push(q, d) }
func (q *queue) remove(d *due) { heap.Remove(q, d.place) }

// ready reports whether the first of q is due at now.
func (q queue) ready(now time.Time) bool { return len(q) > 0 && !q[0].at.After(now) }

// Len, Less, Swap, Push and Pop are for package heap alone.

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

func (q *queue) Push(x any) {
	d := x.(*due)
	d.place = len(*q)
	*q = append(*q, d)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	d := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return d
}

// marks are left in place of expired streams. Store.mu guards them.
type marks struct {
	byKey map[reprise.StreamKey]*due
	queue queue // by the time until which they are remembered
}

func (m *marks) add(key reprise.StreamKey, until time.Time) {
	m.forget(key)
	d := &due{at: until, key: key}
	m.byKey[key] = d
	m.queue.add(d)
}

func (m *marks) has(key reprise.StreamKey, now time.Time) bool {
	d := m.byKey[key]
	return d != nil && d.at.After(now)
}

func (m *marks) forget(key reprise.StreamKey) {
	if d := m.byKey[key]; d != nil {
		m.queue.remove(d)
		delete(m.byKey, key)
	}
}

// forgetOne deletes the mark that expires first. It returns false if there is no mark.
func (m *marks) forgetOne() bool {
	if len(m.queue) == 0 {
		return false
	}
	m.forget(m.queue[0].key)
	return true
}

// Sweep removes expired streams; see reprise.Sweeper. The cost is O(log n) for
// each removed stream. It removes at most limit marks, so that other calls do not wait
// long; remaining marks have no effect.
func (s *Store) Sweep(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
	if err := s.change(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	for n := 0; n < limit && s.marks.queue.ready(now); n++ {
		s.marks.forgetOne()
	}
	var swept []reprise.StreamInfo
	for len(swept) < limit && s.ending.queue.ready(now) {
		st := s.streams[s.ending.queue[0].key]
		s.drop(st)
		s.marks.add(st.info.Key, remember)
		st.info.Producers = nil
		swept = append(swept, st.info)
	}
	return swept, nil
}
