package park

import "sync"

// crew is the few goroutines that write to parked responses. They end when there is nothing to do.
type crew struct {
	most int // goroutines at a time

	mu sync.Mutex
	// events holds the Seats whose reader may have events, beats those with a due heartbeat. A beat has one turn in
	// beatTurn while there are both, so that the heartbeats of many readers delay no event, and events no heartbeat
	// for ever.
	events, beats queue
	turn          int
	working       int
}

const beatTurn = 16

// queue is a list of Seats, the oldest first.
type queue struct{ first, last *Seat }

func (q *queue) add(s *Seat) {
	if q.first == nil {
		q.first, q.last = s, s
		return
	}
	q.last.behind, q.last = s, s
}

func (q *queue) take() *Seat {
	s := q.first
	if s != nil {
		q.first, s.behind = s.behind, nil
	}
	return s
}

// call has a goroutine glance at s soon. beat is true for a heartbeat.
func (c *crew) call(s *Seat, beat bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if beat {
		c.beats.add(s)
	} else {
		c.events.add(s)
	}
	if c.working < c.most {
		c.working++
		go c.work()
	}
}

// work glances at Seats until there is none.
func (c *crew) work() {
	for s := c.next(); s != nil; s = c.next() {
		s.glance()
	}
}

// next returns the next Seat to glance at, or nil for a goroutine that has to end.
func (c *crew) next() *Seat {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, second := &c.events, &c.beats
	if c.turn++; c.turn%beatTurn == 0 {
		first, second = second, first
	}
	s := first.take()
	if s == nil {
		s = second.take()
	}
	if s == nil {
		c.working--
	}
	return s
}
