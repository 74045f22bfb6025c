package park

import (
	"runtime"
	"sync"
)

// crew is the few goroutines that write to parked responses. They end when there is nothing to do.
type crew struct {
	mu sync.Mutex
	// events holds the Seats whose reader may have events, beats those with a due heartbeat, which come after them: the
	// heartbeats of many readers must not delay an event.
	events, beats queue
	working       int
}

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
	if c.working < runtime.GOMAXPROCS(0) {
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
	s := c.events.take()
	if s == nil {
		s = c.beats.take()
	}
	if s == nil {
		c.working--
	}
	return s
}
