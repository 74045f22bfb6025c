package gateway

import (
	"slices"
	"sync"
)

const (
	// maxWaiting is the number of waiting bytes above which push blocks in an inbox that keeps messages.
	maxWaiting = 4 << 20
	// maxUnread is the number of waiting bytes above which any other inbox drops notifications.
	maxUnread = 16 << 20
)

// inbox is the queue between the connections to an upstream and one delivery. Its methods are safe for concurrent use.
type inbox struct {
	// keeps is true for a client with a session, whose messages are all kept.
	keeps bool
	// more has an element after each push.
	more chan struct{}

	mu     sync.Mutex
	room   sync.Cond
	queue  []arrival
	bytes  int
	closed bool
	parked bool           // messages wait for the next request; see parking
	next   *clientRequest // receives the messages instead of this inbox
}

func newInbox(keeps bool) *inbox {
	b := &inbox{keeps: keeps, more: make(chan struct{}, 1)}
	b.room.L = &b.mu
	return b
}

// push adds an arrival. If the inbox keeps messages, push blocks while it is full. It returns false if the inbox is
// closed.
func (b *inbox) push(a arrival) bool {
	b.mu.Lock()
	if next := b.next; next != nil {
		b.mu.Unlock()
		return next.take(a)
	}
	defer b.mu.Unlock()
	for b.keeps && b.bytes > maxWaiting && !b.closed && !a.isResponse() {
		b.room.Wait()
	}
	if b.closed {
		return false
	}
	if b.bytes > maxUnread && !a.isResponse() {
		return true // a client that reads no notifications gets the response alone
	}
	b.queue = append(b.queue, a)
	b.bytes += a.bytes()
	select {
	case b.more <- struct{}{}:
	default:
	}
	return true
}

// take passes an arrival for a parked request to r, which continues it.
func (r *clientRequest) take(a arrival) bool {
	if a.request != nil {
		a.request = r
	}
	return r.in.push(a)
}

// pop removes and returns the oldest arrival. It returns false if there is none.
func (b *inbox) pop() (arrival, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		return arrival{}, false
	}
	a := b.queue[0]
	b.queue[0] = arrival{} // what was handed over is not kept
	b.queue = b.queue[1:]
	b.bytes -= a.bytes()
	b.room.Broadcast()
	return a, true
}

// close has push report false, unless the inbox is parked.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.parked {
		return
	}
	b.closed, b.queue = true, nil
	b.room.Broadcast()
}

// park holds further messages for forward. It returns the waiting questions.
func (b *inbox) park() (questions []arrival) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.parked = true
	b.queue = slices.DeleteFunc(b.queue, func(a arrival) bool {
		if a.isQuestion() {
			questions = append(questions, a)
		}
		return a.isQuestion()
	})
	return questions
}

// forward passes the messages in a parked inbox, and all later ones, to r.
func (b *inbox) forward(r *clientRequest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.queue {
		r.take(a)
	}
	b.queue, b.next = nil, r
}
