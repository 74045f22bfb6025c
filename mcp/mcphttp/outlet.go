package mcphttp

import (
	"context"
	"fmt"
	"sync"

	"reprise"
)

// outlet queues the messages of several senders for a stream.
type outlet struct {
	appender *reprise.Appender
	// sending keeps a message that comes as a message and an end together.
	sending sync.Mutex
	// ended is true for a stream that was made with its end.
	ended bool
}

// maxQueue is the number of bytes that may be queued while a stream is being created. Above it, senders wait.
const maxQueue = 4 << 20

// newOutlet returns an outlet that stops when life ends. failed is called once, when the stream can no longer be
// appended to.
func newOutlet(life context.Context, stream *reprise.Stream, owner reprise.Owner, failed func(error)) *outlet {
	return &outlet{appender: stream.Appender(life, &reprise.AppenderOptions{Owner: owner, Failed: failed})}
}

// send queues a message, which the outlet keeps. With end it is the last one.
func (o *outlet) send(message []byte, end bool) error {
	if len(message) > MaxMessage {
		return fmt.Errorf("%w: a message of %d bytes, at most %d are taken",
			reprise.ErrInvalid, len(message), MaxMessage)
	}
	if o.ended {
		return reprise.ErrEnded
	}
	o.sending.Lock()
	defer o.sending.Unlock()
	events := sentEvents(message, end)
	if !end {
		return o.appender.Queue(events...)
	}
	last := len(events) - 1
	if last > 0 {
		if err := o.appender.Queue(events[:last]...); err != nil {
			return err
		}
	}
	return o.appender.QueueEnd(outcomeCompleted, events[last])
}

// outcomeCompleted is the outcome of the stream of a call that was answered.
const outcomeCompleted = "completed"

// sentEvents are the events that keep a message. With end the last of them ends the stream.
func sentEvents(message []byte, end bool) []reprise.Event {
	if end && len(message) > 0 && len(message) <= maxEndData {
		return []reprise.Event{{Data: message, Format: reprise.FormatJSON}}
	}
	events := messageEvents(message)
	if end {
		events = append(events, reprise.Event{})
	}
	return events
}

// flush waits until all sent messages have been appended, or the outlet has failed.
func (o *outlet) flush() { _ = o.appender.Flush() }
