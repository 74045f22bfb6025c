package park

import (
	"container/heap"
	"math/rand/v2"
	"sync"
	"time"
)

// A clock tells Seats when their heartbeats are due, with one timer for all.
//
// Times are since the start of the clock. Heartbeats that are due within one grain, a hundredth of the silence, form an
// appointment. An event that goes to thousands of readers would make all of their heartbeats due at once, and again
// after each further silence. Therefore, if an appointment is crowded, further Seats get an earlier one at random,
// within a quarter of the silence.
type clock struct {
	start time.Time
	ring  func(*Seat) // called for each Seat of an appointment

	mu    sync.Mutex
	seats int
	next  appointments
	at    map[time.Duration]*appointment
	timer *time.Timer // nil before the first appointment
}

// appointment holds the Seats whose heartbeats are due at the same time.
type appointment struct {
	at    time.Duration
	seats []*Seat
}

const (
	// grains is the number of grains in a silence, advance the part of it by which a heartbeat may be early.
	grains  = 128
	advance = 4
	// minCrowd is the least number of Seats that crowd an appointment. With many Seats it is twice their even share.
	minCrowd = 64
)

func newClock(ring func(*Seat)) *clock {
	return &clock{start: time.Now(), ring: ring, at: map[time.Duration]*appointment{}}
}

// set makes the clock ring for s after the duration beat, or somewhat earlier, in which case early is true. An earlier
// appointment of s stays. silence is the time between two heartbeats.
func (c *clock) set(s *Seat, beat, silence time.Duration) {
	now := time.Since(c.start)
	grain := max(silence/grains, time.Millisecond)
	due := (now + beat + grain - 1).Truncate(grain)
	c.mu.Lock()
	defer c.mu.Unlock()
	s.due = due
	if s.appointed != nil && s.appointed.at <= due {
		return
	}
	c.leave(s)
	at := due
	if a := c.at[due]; a != nil && len(a.seats) >= max(minCrowd, 2*c.seats/grains) {
		at = max(due-rand.N(silence/advance).Truncate(grain), (now + grain).Truncate(grain))
	}
	c.join(s, at)
	s.target = due
}

// join adds s to the appointment of a time. The caller holds mu.
func (c *clock) join(s *Seat, at time.Duration) {
	a := c.at[at]
	if a == nil {
		a = &appointment{at: at}
		c.at[at] = a
		heap.Push(&c.next, a)
		c.wind()
	}
	s.appointed, s.place = a, len(a.seats)
	a.seats = append(a.seats, s)
	c.seats++
}

// leave takes s from its appointment, if it has one. The caller holds mu.
func (c *clock) leave(s *Seat) {
	a := s.appointed
	if a == nil {
		return
	}
	last := len(a.seats) - 1
	moved := a.seats[last]
	a.seats[s.place], moved.place = moved, s.place
	a.seats[last] = nil
	a.seats = a.seats[:last]
	s.appointed = nil
	c.seats--
}

// cancel takes s from its appointment, if it has one.
func (c *clock) cancel(s *Seat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave(s)
}

// wind sets the timer to the first appointment. The caller holds mu.
func (c *clock) wind() {
	if len(c.next) == 0 {
		return
	}
	left := c.next[0].at - time.Since(c.start)
	if c.timer == nil {
		c.timer = time.AfterFunc(left, c.strike)
	} else {
		c.timer.Reset(left)
	}
}

// strike rings for the appointments that are due.
func (c *clock) strike() {
	for {
		seats := c.due()
		if seats == nil {
			return
		}
		for _, s := range seats {
			c.ring(s)
		}
	}
}

// due returns the Seats of the first appointment, if it is due, and sets the timer otherwise.
func (c *clock) due() []*Seat {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.next) > 0 && c.next[0].at <= time.Since(c.start) {
		a := heap.Pop(&c.next).(*appointment)
		delete(c.at, a.at)
		for _, s := range a.seats {
			s.appointed = nil
		}
		if c.seats -= len(a.seats); len(a.seats) > 0 {
			return a.seats
		}
	}
	c.wind()
	return nil
}

// missed returns how long s, whose appointment has come, has until its heartbeat, and whether the clock has chosen an
// earlier time for it, so that it has to beat now. It has not if s was given a new appointment meanwhile.
func (c *clock) missed(s *Seat) (left time.Duration, early bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.due - time.Since(c.start), s.appointed == nil && s.due == s.target
}

// stop stops the timer.
func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next, c.at = nil, map[time.Duration]*appointment{}
	if c.timer != nil {
		c.timer.Stop()
	}
}

// appointments implement heap.Interface: the first is the next one.
type appointments []*appointment

func (a appointments) Len() int           { return len(a) }
func (a appointments) Less(i, j int) bool { return a[i].at < a[j].at }
func (a appointments) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *appointments) Push(x any)        { *a = append(*a, x.(*appointment)) }

func (a *appointments) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	*a = (*a)[:last]
	return x
}
