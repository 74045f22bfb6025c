package reprise

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"reprise/internal/backoff"
)

// Appender appends events to a stream, in order and each of them once, over failures of the Store. It is one idempotent
// producer (see ProducerID). An append that fails with ErrUnavailable or ErrQuota may have been kept. The Appender
// repeats it with the same number and the same events until the stream accepts or refuses it.
//
// Append and End wait until the Store has acknowledged. Queue and QueueEnd return before; an Appender that is used
// with them fails permanently at the first error. Queued events are appended first: Append and End wait until
// nothing is queued.
//
// An Appender is safe for concurrent use and needs no Close. It has a goroutine only while events are queued.
type Appender struct {
	stream *Stream
	life   context.Context // the life of the Appender
	opts   AppenderOptions

	mu      sync.Mutex
	changed sync.Cond // broadcast when busy, size, ended or err changes
	// busy is true while a goroutine appends. Only that goroutine uses producer, which numbers the next append.
	busy     bool
	producer ProducerID
	queue    appendQueue
	err      error // the reason for which nothing more can be queued
	ended    bool  // whether the end is queued
}

// AppenderOptions are the settings of an Appender. The zero value of each field means its default.
type AppenderOptions struct {
	// ID is the id of the producer, 1 to 64 bytes. Two Appenders of one stream must not share an ID. Default: random.
	ID string
	// Owner is the writer; see AppendOptions.Owner.
	Owner Owner
	// Failed is called when queued events cannot be appended, once and before Flush returns. It must not
	// wait for the Appender.
	Failed func(error)
}

const (
	// appendFirst and appendMost bound the pauses between two tries to append.
	appendFirst, appendMost = 10 * time.Millisecond, time.Second
	// maxQueuedBytes is the size of the queue at which Queue begins to wait.
	maxQueuedBytes = 4 << 20
	// maxQueuedAppend and maxQueuedEvents bound one append from the queue. Events of one Queue stay together, however
	// large.
	maxQueuedAppend, maxQueuedEvents = 7 << 20, 10_000
)

// Appender returns a new Appender to the stream. Nothing is appended or retried after ctx is done: waiting calls then
// return the cause, and queued events are dropped. opts may be nil.
func (s *Stream) Appender(ctx context.Context, opts *AppenderOptions) *Appender {
	a := &Appender{stream: s, life: ctx}
	if opts != nil {
		a.opts = *opts
	}
	a.producer.ID = a.opts.ID
	if a.producer.ID == "" {
		a.producer.ID = rand.Text()
	}
	a.changed.L = &a.mu
	return a
}

// Append appends events like Stream.Append, and repeats the append until the stream accepts or refuses it.
//
// The errors are those that Stream.AppendWith returns, without ErrUnavailable and ErrQuota. ErrConflict says that the
// Store has lost acknowledged appends of this Appender, and that these events are not kept; or that the stream no
// longer remembers the producer, because MaxProducers others have appended since. The Appender has then begun a new
// producer epoch, and the next append continues after the events that the stream has kept. After other errors the
// Appender can still be used, unless its context is done.
func (a *Appender) Append(events ...Event) (Appended, error) {
	if err := a.acquire(); err != nil {
		return Appended{}, err
	}
	defer a.release()
	return a.repeat("", events)
}

// End appends events and, like Stream.End, ends the stream with the last one. The events are one append, which is
// repeated as Append does. The error is also ErrInvalid if there are no events.
func (a *Appender) End(outcome string, events ...Event) (Appended, error) {
	return a.endBy(a.repeat, outcome, events)
}

// endBy ends the stream by repeat or try.
func (a *Appender) endBy(by func(string, []Event) (Appended, error), outcome string, events []Event) (Appended, error) {
	err := checkOutcome(outcome)
	if err == nil && len(events) == 0 {
		err = fmt.Errorf("%w: no events", ErrInvalid)
	}
	if err != nil {
		return Appended{}, a.stream.op("end", err)
	}
	if err := a.acquire(); err != nil {
		return Appended{}, err
	}
	defer a.release()
	if last := len(events) - 1; events[last].Time.IsZero() {
		events = slices.Clone(events)
		events[last].Time = now() // the same for each try
	}
	return by(outcome, events)
}

// Try is Append with a single attempt, for a caller that decides itself when to retry. After an error that wraps
// ErrUnavailable or ErrQuota the events may have been kept, and the next call must have the same events. A *QuotaError
// says that they were not kept: the next call may have others.
func (a *Appender) Try(events ...Event) (Appended, error) {
	if err := a.acquire(); err != nil {
		return Appended{}, err
	}
	defer a.release()
	return a.try("", events)
}

// TryEnd is End with a single attempt. It returns the same errors as Try.
func (a *Appender) TryEnd(outcome string, events ...Event) (Appended, error) {
	return a.endBy(a.try, outcome, events)
}

// Queue appends events later. The events of one call are appended together, up to 8 MiB. The Data must not be changed
// until Flush returns or the Appender has failed; the slice of events is copied.
//
// While more than 4 MiB are queued, Queue waits until they are being appended. The error is ErrInvalid for events that
// are not allowed, ErrEnded after QueueEnd, or the reason why the Appender has failed.
func (a *Appender) Queue(events ...Event) error {
	return a.enqueue("", events)
}

// QueueEnd ends the stream, like Stream.End, after all queued events have been appended.
func (a *Appender) QueueEnd(outcome string, event Event) error {
	if err := checkOutcome(outcome); err != nil {
		return a.stream.op("end", err)
	}
	event.Type = TypeEnd
	if event.Time.IsZero() {
		event.Time = now()
	}
	return a.enqueue(outcome, []Event{event})
}

// Flush waits until nothing is queued. The error is the reason why the Appender has failed.
func (a *Appender) Flush() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.busy {
		a.changed.Wait()
	}
	return a.err
}

// acquire waits until no other goroutine appends.
func (a *Appender) acquire() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.busy {
		a.changed.Wait()
	}
	if a.err != nil {
		return a.err
	}
	if a.life.Err() != nil {
		return context.Cause(a.life)
	}
	a.busy = true
	return nil
}

// release lets the next goroutine append, which is the queue's goroutine if events were queued meanwhile.
func (a *Appender) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.queue.isEmpty() {
		go a.pump()
		return
	}
	a.busy = false
	a.changed.Broadcast()
}

// repeat appends until that succeeds or a retry is useless. The caller has acquired a.
func (a *Appender) repeat(outcome string, events []Event) (Appended, error) {
	pause := backoff.Backoff{First: appendFirst, Most: appendMost}
	for {
		appended, err := a.try(outcome, events)
		if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrQuota) {
			return appended, err
		}
		if err := pause.Wait(a.life); err != nil {
			return appended, err
		}
	}
}

// try appends once, and ends the stream with the last event if there is an outcome. The caller has acquired a.
func (a *Appender) try(outcome string, events []Event) (appended Appended, err error) {
	producer := a.producer // a copy, since the lane may hold it longer than this call
	opts := AppendOptions{Producer: &producer, Owner: a.opts.Owner}
	if outcome == "" {
		appended, err = a.stream.AppendWith(a.life, opts, events...)
	} else {
		appended, err = a.stream.EndWith(a.life, opts, outcome, events...)
	}
	switch {
	case err == nil:
		a.producer.Seq++
	case errors.Is(err, ErrConflict):
		a.producer.Epoch++
		a.producer.Seq = 0
	}
	return appended, err
}

// enqueue queues events and starts a goroutine to append them if none runs.
func (a *Appender) enqueue(outcome string, events []Event) error {
	opts := AppendOptions{Owner: a.opts.Owner, Producer: &ProducerID{ID: a.producer.ID}}
	size, err := a.stream.log.check(&opts, events, outcome != "")
	if err != nil {
		return a.stream.op("append to", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.queue.size > maxQueuedBytes && a.err == nil && !a.ended {
		a.changed.Wait()
	}
	switch {
	case a.err != nil:
		return a.err
	case a.ended:
		return a.stream.op("append to", ErrEnded)
	}
	a.queue.add(events, size)
	if outcome != "" {
		a.queue.outcome, a.ended = outcome, true
		a.changed.Broadcast()
	}
	if !a.busy {
		a.busy = true
		go a.pump()
	}
	return nil
}

// pump appends until nothing is queued. It has acquired a.
func (a *Appender) pump() {
	var taken appendQueue
	for {
		a.mu.Lock()
		if a.queue.isEmpty() {
			a.busy = false
			a.changed.Broadcast()
			a.mu.Unlock()
			return
		}
		taken.empty()
		a.queue, taken = taken, a.queue
		a.changed.Broadcast()
		a.mu.Unlock()
		if err := a.appendAll(&taken); err != nil {
			a.fail(err)
		}
	}
}

// appendAll appends what was queued in as few appends as possible.
func (a *Appender) appendAll(q *appendQueue) error {
	events, units := q.events, q.units
	for len(units) > 0 {
		outcome := ""
		if len(units) == 1 {
			outcome = q.outcome
		}
		u, e := appendable(units, q.outcome != "")
		if _, err := a.repeat(outcome, events[:e]); err != nil {
			return err
		}
		events, units = events[e:], units[u:]
	}
	return nil
}

func (a *Appender) fail(err error) {
	a.mu.Lock()
	a.err, a.queue = err, appendQueue{}
	a.changed.Broadcast()
	a.mu.Unlock()
	if a.opts.Failed != nil {
		a.opts.Failed(err)
	}
}

// appendQueue holds events that wait to be appended.
type appendQueue struct {
	events  []Event
	units   []appendUnit // the events of one Queue each
	size    int          // upper bound of their encoded size
	outcome string       // of the last unit, if it is the end
}

type appendUnit struct{ events, size int }

func (q *appendQueue) isEmpty() bool { return len(q.units) == 0 }

func (q *appendQueue) add(events []Event, size int) {
	q.events = append(q.events, events...)
	q.units = append(q.units, appendUnit{len(events), size})
	q.size += size
}

// empty removes the events and keeps the memory unless it is large.
func (q *appendQueue) empty() {
	clear(q.events)
	*q = appendQueue{events: q.events[:0], units: q.units[:0]}
	if cap(q.events) > maxQueuedEvents || cap(q.units) > maxQueuedEvents {
		*q = appendQueue{}
	}
}

// appendable returns the number of units, and of their events, for one append: at least one unit, and the end alone.
func appendable(units []appendUnit, ends bool) (n, events int) {
	size := 0
	for i, u := range units {
		size += u.size
		full := size > maxQueuedAppend || events+u.events > maxQueuedEvents || ends && i == len(units)-1
		if i > 0 && full {
			break
		}
		n, events = i+1, events+u.events
	}
	return n, events
}

// ProducerID numbers the appends of an idempotent producer. An append is a duplicate if its
// Seq is not above the producer's newest one. It is refused with ErrConflict if it skips a Seq,
// and with ErrFenced if its Epoch is older.
type ProducerID struct {
	// ID is 1 to 64 bytes, chosen by the producer.
	ID string
	// Epoch is raised by a producer that starts over; Seq then begins at 0.
	Epoch, Seq uint64
	// PerEvent numbers events instead of appends: Seq is the number of the first event, and each event takes one.
	// Events that the stream already has are skipped, so a producer may send them again in different appends.
	// Appended then describes the events that were added. If there were none, Duplicate is true, and First and Last
	// are the seq of the last event, or 0 if the producer has sent others since.
	PerEvent bool
}

// repeats checks the producer of c. done is true if all events are already stored; otherwise c.skip is the number of
// those that are.
func (c *call) repeats(known []Producer) (done bool, err error) {
	c.skip = 0
	p := c.opts.Producer
	if p == nil {
		return false, nil
	}
	newest, next := p.next(known)
	if p.Epoch < newest.Epoch {
		return false, fmt.Errorf("%w: producer %q is at epoch %d", ErrFenced, p.ID, newest.Epoch)
	}
	switch {
	case p.Seq == next:
		return false, nil
	case p.Seq > next:
		return false, fmt.Errorf("%w: producer %q is to go on with %d, not %d", ErrConflict, p.ID, next, p.Seq)
	}
	if p.PerEvent && next-p.Seq < uint64(len(c.events)) {
		c.skip = int(next - p.Seq)
		return false, nil
	}
	c.found = Appended{Duplicate: true, Epoch: c.live.info.Epoch}
	switch {
	case p.last(len(c.events)) != newest.Seq:
	case p.PerEvent:
		c.found.First, c.found.Last = newest.Last, newest.Last
	default:
		c.found.First, c.found.Last = newest.First, newest.Last
	}
	return true, nil
}

// next returns the newest append of the producer, zero for an unknown one, and the number of the next one.
func (p *ProducerID) next(known []Producer) (newest Producer, next uint64) {
	for _, k := range known {
		if k.ID == p.ID {
			newest = k
		}
	}
	if newest.ID != "" && p.Epoch == newest.Epoch {
		return newest, newest.Seq + 1
	}
	return newest, 0 // of an unknown producer, or at a new epoch
}

// isGuarded checks AppendOptions.Guard.
func (c *call) isGuarded(known []Producer, l *Log) error {
	g := c.opts.Guard
	if g == nil {
		return nil
	}
	newest, next := g.next(known)
	if g.Seq == next && g.Epoch >= newest.Epoch {
		return nil
	}
	if !c.asked && l.Shared() { // others may have appended at another replica
		c.asked = true
		return errStale
	}
	return fmt.Errorf("%w: guard %q is at %d of epoch %d", ErrConflict, g.ID, newest.Seq, newest.Epoch)
}

// last returns the number of the last of so many events.
func (p *ProducerID) last(events int) uint64 {
	if p.PerEvent {
		return p.Seq + uint64(events) - 1
	}
	return p.Seq
}

// remember adds the newest append of a producer.
func (st *staged) remember(p *Producer, a *Appended) {
	p.First, p.Last = a.First, a.Last
	st.producers = withProducer(st.producers, *p)
	st.fresh = withProducer(st.fresh, *p)
}

// withProducer returns a copy of list in which p replaces the producer of the same ID, at the end, and without the
// oldest if there are too many.
func withProducer(list []Producer, p Producer) []Producer {
	out := make([]Producer, 0, len(list)+1)
	for _, k := range list {
		if k.ID != p.ID {
			out = append(out, k)
		}
	}
	out = append(out, p)
	return out[max(0, len(out)-MaxProducers):]
}
