// Package sseloop is the single loop that serves a reader of a stream over HTTP: it polls, writes, flushes, waits, ends
// silences, and sets the deadline of writes. Its Handler defines the meaning of the bytes.
package sseloop

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"reprise"
)

// Handler is what differs between the protocols. Its methods are called by the goroutine of Follow, and write with
// Conn.Write.
type Handler interface {
	// Send writes the events of a non-empty run, or a selection of them.
	Send(events reprise.Events)
	// Gap reports that the position of the reader is outside the window; the stream continues after at.
	Gap(refused *reprise.WindowError, at reprise.Cursor)
	// Beat writes something that ends a silence.
	Beat()
	// MayGoOn reports whether the client may continue to read. It is called after each poll and each heartbeat.
	MayGoOn() bool
	// Finish writes the last bytes. why is the error of the reader, or the cause of the end of the request.
	Finish(why error)
}

// Conn is one response that follows a stream. The exported fields are set before Poll.
type Conn struct {
	Reader *reprise.Reader
	// Silence is the time without data after which Handler.Beat is called.
	Silence time.Duration
	// WriteTimeout is how long the client may accept no bytes.
	WriteTimeout time.Duration
	// Parking may be nil. It takes over responses whose Handler is a Parked.
	Parking Parking
	// Last is true if the response ends as soon as Follow returns. Then the last events of a stream that has ended are
	// sent together with the end of the response, in one packet. Parking is nil.
	Last bool

	w  http.ResponseWriter
	rc http.ResponseController

	events *reprise.Events // polled and not sent yet; nil while the response is parked
	polled error           // the error that came with it

	// history collects the events of a page from the store, so that they are written in few pieces. It is nil while
	// it is empty.
	history *bufio.Writer

	wrote    bool      // something was written since the last poll
	unsent   bool      // something was written and not flushed
	glancing bool      // writes must not wait, and have no deadline
	spoke    time.Time // when the client was last sent something: its silence begins there
	active   time.Time // when there were events, at last
	deadline time.Time // that is set for writes
	err      error     // the first failed write
}

// Init sets the response to write to. The silence begins now.
func (c *Conn) Init(w http.ResponseWriter) {
	c.w, c.rc, c.spoke = w, *http.NewResponseController(w), time.Now()
	c.active = c.spoke
}

// Begin sends the header of the response. It is flushed with the next write, or when Follow first waits.
func (c *Conn) Begin() {
	c.w.WriteHeader(http.StatusOK)
	c.unsent = true
}

// Poll polls the reader and returns its error. Follow begins with the polled events and that error.
func (c *Conn) Poll(ctx context.Context) error {
	c.poll(ctx)
	return c.polled
}

func (c *Conn) poll(ctx context.Context) {
	if c.events == nil {
		c.events = new(reprise.Events)
	}
	*c.events, c.polled = c.Reader.Poll(ctx)
}

// Follow sends the polled events and then all further ones, until the stream has ended, ctx is done, a write fails, or
// h ends the loop. It returns true if the response was parked: c then belongs to Parking, which calls Parked.
func (c *Conn) Follow(ctx context.Context, h Handler) (parked bool) {
	clocks := c.newClocks()
	defer func() {
		clocks.stop()
		if !parked {
			c.spill()
			if c.Parking != nil {
				c.allow() // Parking writes the end, maybe long after the last Write of Follow
			}
		}
	}()
	for c.step(h) {
		if c.polled == nil {
			if next := c.wait(ctx, h, clocks); next != pollAgain {
				return next == parkedNow
			}
		}
		if c.history != nil && !c.Reader.Buffered() {
			c.Flush() // the next page may take long
		}
		c.poll(ctx)
	}
	return false
}

// next is what Follow does after a wait.
type next int

const (
	end       next = iota
	pollAgain      // there may be more
	parkedNow      // another goroutine continues
)

// step handles the polled events and reports whether there may be more. It is separate from Follow, to keep the stack
// small that Follow uses for every waiting reader.
//
//go:noinline
func (c *Conn) step(h Handler) bool {
	c.wrote = false
	if c.events != nil && c.events.Len() > 0 {
		h.Send(*c.events)
		*c.events = reprise.Events{} // a resumed Follow must not send it again
		c.stayActive()
	}
	return h.MayGoOn() && (c.polled == nil || c.goOn(h, c.polled)) && c.err == nil
}

// goOn handles an error of the reader and reports whether there may be more events.
func (c *Conn) goOn(h Handler, err error) bool {
	if window, ok := errors.AsType[*reprise.WindowError](err); ok {
		if c.Reader.Seek(reprise.After(window.Resume())) == nil {
			h.Gap(window, c.Reader.Cursor())
		}
		return true // where Seek was refused, the next Poll says why
	}
	h.Finish(err)
	if c.Last && errors.Is(err, reprise.ErrEnded) {
		c.spill()
		return false
	}
	c.Flush()
	return false
}

// wait flushes the written data and waits for more events. It ends silences.
func (c *Conn) wait(ctx context.Context, h Handler, clocks clocks) next {
	changed := c.Reader.Changed()
	select {
	case <-changed: // more has come meanwhile: send it together
		if ctx.Err() != nil {
			c.goOn(h, context.Cause(ctx))
			return end
		}
		if !c.wrote { // nothing that comes is wanted: there is nothing to wait for, and this is silence too
			c.Flush()
			c.beat(h)
		}
		return pollAgain
	default:
	}
	c.Flush()
	for c.err == nil {
		select {
		case <-changed:
			return pollAgain
		case <-ctx.Done():
			// The cause of the request's end tells whether the server is shutting down.
			c.goOn(h, context.Cause(ctx))
			return end
		case <-clocks.heartbeat.C:
			// The timer runs on while events are sent: setting it for each of them costs
			// more than to let it go off for nothing now and then.
			clocks.heartbeat.Reset(c.beat(h))
			if !h.MayGoOn() {
				return end
			}
		case <-clocks.idle.C:
			if c.park(ctx, h, clocks.idle) {
				return parkedNow
			}
		}
	}
	return end
}

// beat ends the silence towards the client if it has lasted for long enough, and returns the time until it will have.
// What wakes c without giving it anything to send does not end the silence.
func (c *Conn) beat(h Handler) time.Duration {
	if left := c.Left(); left > 0 {
		return left
	}
	h.Beat()
	c.Flush()
	return c.Silence
}

// Left returns the time until the next heartbeat is due. It is not positive if one is due now.
func (c *Conn) Left() time.Duration { return c.Silence - time.Since(c.spoke) }

// Err returns the error of the first write that failed.
func (c *Conn) Err() error { return c.err }

// historyBytes is the size of a buffer for history.
const historyBytes = 128 << 10

// histories are buffers that no response uses.
var histories = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, historyBytes) }}

// AvailableBuffer returns an empty slice to which the next bytes for Write can be appended, which saves a copy. Until
// the response is flushed, or the reader asks the store, such bytes are collected.
func (c *Conn) AvailableBuffer() []byte {
	if c.history == nil {
		c.history = histories.Get().(*bufio.Writer)
		c.history.Reset(c.w)
	}
	return c.history.AvailableBuffer()
}

// Write hands bytes to the response, within the time that the client has for them. Once a write has failed it does
// nothing but return that error.
func (c *Conn) Write(b []byte) (int, error) {
	if c.err == nil && len(b) > 0 {
		c.spoke, c.wrote, c.unsent = c.allow(), true, true
		if c.history != nil {
			_, c.err = c.history.Write(b)
		} else {
			_, c.err = c.w.Write(b)
		}
	}
	return len(b), c.err
}

// spill writes the collected history.
func (c *Conn) spill() {
	if c.history == nil {
		return
	}
	if c.err == nil {
		c.allow()
		c.err = c.history.Flush()
	}
	c.history.Reset(nil)
	histories.Put(c.history)
	c.history = nil
}

// Flush sends all that was written.
func (c *Conn) Flush() {
	c.spill()
	if c.err == nil && c.unsent {
		c.unsent = false
		c.allow()
		c.err = c.rc.Flush()
	}
}

// allow moves the deadline for writes and returns the time. Setting one takes longer than a small
// write, so it is set at most once a second, or a few times within a shorter timeout.
func (c *Conn) allow() (now time.Time) {
	now = time.Now()
	if c.glancing {
		return now
	}
	if deadline := now.Add(c.WriteTimeout); deadline.Sub(c.deadline) >= min(time.Second, c.WriteTimeout/4) {
		c.deadline = deadline
		// A ResponseWriter without deadlines has no network connection.
		_ = c.rc.SetWriteDeadline(deadline)
	}
	return now
}
