package mcphttp

import (
	"context"
	"fmt"
	"sync"

	"reprise"
)

// outlet queues messages for a stream, for many who send.
type outlet struct {
	appender *reprise.Appender
	// sending keeps a message that comes as a message and an end together.
	sending sync.Mutex
}

// maxQueue is how many bytes wait for a stream to be made before those who send have to.
const maxQueue = 4 << 20

// newOutlet makes an outlet that gives up when life ends. failed is called once, when the stream cannot be appended to
// any more.
func newOutlet(life context.Context, stream *reprise.Stream, owner reprise.Owner, failed func(error)) *outlet {
	return &outlet{appender: stream.Appender(life, &reprise.AppenderOptions{Owner: owner, Failed: failed})}
}

// send queues a message, which the outlet keeps. With end it is the last one.
func (o *outlet) send(message []byte, end bool) error {
	if len(message) > MaxMessage {
		return fmt.Errorf("%w: a message of %d bytes, at most %d are taken",
			reprise.ErrInvalid, len(message), MaxMessage)
	}
	o.sending.Lock()
	defer o.sending.Unlock()
	last := reprise.Event{}
	switch {
	case end && len(message) > 0 && len(message) <= maxEndData:
		last.Data, last.Format = message, reprise.FormatJSON
	case len(message) <= maxEvent:
		if err := o.appender.Queue(reprise.Event{Data: message, Format: reprise.FormatJSON}); err != nil {
			return err
		}
	default:
		if err := o.appender.Queue(messageEvents(message)...); err != nil {
			return err
		}
	}
	if !end {
		return nil
	}
	return o.appender.QueueEnd("completed", last)
}

// flush waits until what was sent has been appended, or the outlet has failed.
func (o *outlet) flush() { _ = o.appender.Flush() }
