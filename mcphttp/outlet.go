package mcphttp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"reprise"
)

// outlet appends messages to a stream, in order, for many who send. What comes while a commit is
// under way goes into the next one together.
type outlet struct {
	stream   *reprise.Stream
	owner    reprise.Owner // zero for a stream that anybody may append to
	producer string
	seq      uint64 // of the next append; the pump's alone
	life     context.Context
	// failed is called once, without the lock, when the stream cannot be appended to any more.
	failed func(error)

	mu    sync.Mutex
	room  sync.Cond
	queue []reprise.Event
	bytes int
	// pumping is true while a goroutine appends what is queued.
	pumping bool
	ending  bool // the last event is queued or appended
	err     error
	idle    chan struct{} // closed when nothing is queued or under way; nil while nobody waits
}

const (
	// maxQueue is how many bytes wait at most before those who send have to.
	maxQueue = 4 << 20
	// maxAppend bounds what is appended at once, maxAppendEvents how many events.
	maxAppend, maxAppendEvents = 7 << 20, 10_000
	// storePause is the time to the next try after the store has failed, storePauseMax the longest.
	storePause, storePauseMax = 20 * time.Millisecond, time.Second
)

// newOutlet makes an outlet that gives up when life ends.
func newOutlet(life context.Context, stream *reprise.Stream, owner reprise.Owner, failed func(error)) *outlet {
	o := &outlet{stream: stream, owner: owner, producer: randomText(exchangeName), life: life, failed: failed}
	o.room.L = &o.mu
	return o
}

// send queues a message, which the outlet keeps. With end it is the last one.
func (o *outlet) send(message []byte, end bool) error {
	if len(message) > MaxMessage {
		return fmt.Errorf("%w: a message of %d bytes, at most %d are taken", reprise.ErrInvalid, len(message), MaxMessage)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.bytes > maxQueue && o.err == nil && !o.ending {
		o.room.Wait()
	}
	switch {
	case o.err != nil:
		return o.err
	case o.ending:
		return reprise.ErrEnded
	}
	o.enqueue(message, end)
	if !o.pumping {
		o.pumping = true
		go o.pump()
	}
	return nil
}

func (o *outlet) enqueue(message []byte, end bool) {
	o.bytes += len(message)
	o.ending = end
	if end && len(message) > 0 && len(message) <= maxEndData {
		o.queue = append(o.queue, reprise.Event{Type: reprise.TypeEnd, Data: message, Format: reprise.FormatJSON})
		return
	}
	if len(message) <= maxEvent {
		o.queue = append(o.queue, reprise.Event{Data: message, Format: reprise.FormatJSON})
	} else {
		o.queue = append(o.queue, messageEvents(message)...)
	}
	if end {
		o.queue = append(o.queue, reprise.Event{Type: reprise.TypeEnd})
	}
}

// pump appends until nothing is queued.
func (o *outlet) pump() {
	var spare []reprise.Event
	for {
		o.mu.Lock()
		if len(o.queue) == 0 || o.err != nil {
			o.pumping = false
			o.room.Broadcast()
			if o.idle != nil {
				close(o.idle)
				o.idle = nil
			}
			o.mu.Unlock()
			return
		}
		batch := o.queue
		o.queue, o.bytes = spare[:0], 0
		o.room.Broadcast()
		o.mu.Unlock()
		err := o.appendAll(batch)
		if err != nil {
			o.fail(err)
		}
		clear(batch)
		if spare = batch; cap(spare) > maxAppendEvents {
			spare = nil
		}
	}
}

// appendAll appends events in as few appends as there may be. The parts of a message stay together.
func (o *outlet) appendAll(events []reprise.Event) error {
	for len(events) > 0 {
		if events[0].Type == reprise.TypeEnd {
			return o.try(func() error {
				_, err := o.stream.EndWith(o.life, o.options(), "completed", events[0])
				return err
			})
		}
		n := appendable(events)
		if err := o.try(func() error {
			_, err := o.stream.AppendWith(o.life, o.options(), events[:n]...)
			return err
		}); err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// appendable is how many of the events go into one append.
func appendable(events []reprise.Event) int {
	n, size := 0, 0
	for i := range events {
		if events[i].Type == reprise.TypeEnd || i == maxAppendEvents {
			break
		}
		if size += len(events[i].Data) + 32; size > maxAppend && n > 0 {
			break
		}
		if t := events[i].Type; t != typeFirst && t != typeMiddle {
			n = i + 1
		}
	}
	return n
}

func (o *outlet) options() reprise.AppendOptions {
	return reprise.AppendOptions{Owner: o.owner, Producer: &reprise.ProducerID{ID: o.producer, Seq: o.seq}}
}

// try does an append until the store takes it, the stream refuses it, or the outlet's life ends.
func (o *outlet) try(do func() error) error {
	for pause := storePause; ; pause = min(2*pause, storePauseMax) {
		err := do()
		if err == nil {
			o.seq++
			return nil
		}
		if !errors.Is(err, reprise.ErrUnavailable) && !errors.Is(err, reprise.ErrQuota) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-o.life.Done():
			return context.Cause(o.life)
		}
	}
}

func (o *outlet) fail(err error) {
	o.mu.Lock()
	o.err = err
	o.queue, o.bytes = nil, 0
	o.room.Broadcast()
	o.mu.Unlock()
	o.failed(err)
}

// flushed is closed when what was sent so far has been appended, or the outlet has failed.
func (o *outlet) flushed() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.pumping {
		done := make(chan struct{})
		close(done)
		return done
	}
	if o.idle == nil {
		o.idle = make(chan struct{})
	}
	return o.idle
}
