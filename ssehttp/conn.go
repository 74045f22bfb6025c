package ssehttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"reprise"
)

// conn is one response.
type conn struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	reader *reprise.Reader
	opts   Options

	run    reprise.Run // what was polled and not sent yet
	polled error       // the error that came with it

	wanted map[string]bool // nil for all types
	suffix string          // of the cursors; for a filtered reader alone
	moved  uint64          // seq up to which events were left out since the last frame

	flushed  time.Time // when all that there was had been sent
	deadline time.Time // that is set for writes
	err      error     // the first failed write
}

func newConn(w http.ResponseWriter, reader *reprise.Reader, types []string, opts Options) *conn {
	c := &conn{w: w, rc: http.NewResponseController(w), reader: reader, opts: opts, flushed: time.Now()}
	if len(types) > 0 {
		c.wanted = map[string]bool{}
		for _, t := range types {
			c.wanted[t] = true
		}
		c.suffix = reader.Stream().Cursor(0).String()[1:]
	}
	return c
}

// begin sends the head of the response.
func (c *conn) begin() {
	h := c.w.Header()
	h.Set("Content-Type", c.opts.Form.ContentType())
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
	c.w.WriteHeader(http.StatusOK)
}

// follow sends what was polled, and then all that comes.
func (c *conn) follow(ctx context.Context) {
	heartbeat := time.NewTimer(c.opts.Heartbeat)
	defer heartbeat.Stop()
	for c.step() {
		if c.polled == nil && !c.wait(ctx, heartbeat) {
			return
		}
		c.run, c.polled = c.reader.Poll(ctx)
	}
}

// step deals with what was polled and reports whether there may be more.
//
//go:noinline
func (c *conn) step() bool {
	if c.run.Len() > 0 {
		c.send(c.run)
	}
	return (c.polled == nil || c.goOn(c.polled)) && c.err == nil
}

// goOn deals with an error of the reader and reports whether there may be more.
func (c *conn) goOn(err error) bool {
	window, ok := errors.AsType[*reprise.WindowError](err)
	switch {
	case ok && window.Reason == reprise.CursorExpired:
		if c.reader.Seek(reprise.Earliest()) == nil {
			c.gap(err, c.reader.Cursor())
		}
		return true // where Seek was refused, the next Poll says why
	case errors.Is(err, reprise.ErrClosed):
		c.write(c.opts.Form.AppendRetry(nil, c.opts.ShutdownRetry))
	}
	c.flush()
	return false
}

// wait sends what has been written and waits until there is more. It sends the heartbeats.
func (c *conn) wait(ctx context.Context, heartbeat *time.Timer) bool {
	changed := c.reader.Changed()
	select {
	case <-changed: // more has come meanwhile: send it together
		if ctx.Err() != nil {
			return c.goOn(context.Cause(ctx))
		}
		if c.moved > 0 && time.Since(c.flushed) >= c.opts.Heartbeat {
			c.flush() // nothing that comes is wanted, which is silence too
		}
		return true
	default:
	}
	c.flush()
	for c.err == nil {
		select {
		case <-changed:
			return true
		case <-ctx.Done():
			// Whoever ends the request for a shutdown says so by its cause.
			return c.goOn(context.Cause(ctx))
		case <-heartbeat.C:
			// The timer runs on while events are sent: setting it for each of them costs
			// more than to let it go off for nothing now and then.
			silence := time.Since(c.flushed)
			if silence >= c.opts.Heartbeat {
				c.write(c.opts.Form.AppendHeartbeat(nil))
				c.flush()
				silence = 0
			}
			heartbeat.Reset(c.opts.Heartbeat - silence)
		}
	}
	return false
}

// send writes the events of a run, or those of them that are wanted.
func (c *conn) send(run reprise.Run) {
	if c.wanted == nil {
		_ = run.WriteEncoded(paced{c}, c.opts.Form) // c.err has the error
		return
	}
	c.write(c.filtered(run))
}

// filtered is the wire form of the events that are wanted.
func (c *conn) filtered(run reprise.Run) []byte {
	var frames []byte
	for e := range run.All() {
		c.moved = e.Seq
		if c.wanted[e.Type] {
			frames = c.opts.Form.AppendEvent(frames, &e, c.suffix)
			c.moved = 0
		}
	}
	return frames
}

// gap tells what cannot be had any more; the stream goes on after at.
func (c *conn) gap(refusal error, at reprise.Cursor) {
	c.moved = 0 // what was left out lies before the gap
	c.write(c.opts.Form.AppendGap(nil, NewGap(c.reader, refusal, at)))
}

// write hands bytes to the response, within the time that the reader has for them.
func (c *conn) write(b []byte) {
	if c.err != nil || len(b) == 0 {
		return
	}
	c.allow()
	_, c.err = c.w.Write(b)
}

// paced is conn.write as an io.Writer.
type paced struct{ c *conn }

func (p paced) Write(b []byte) (int, error) {
	p.c.write(b)
	return len(b), p.c.err
}

// flush sends all that was written. Where events were left out since the last
// frame, the reader's cursor is moved past them first.
func (c *conn) flush() {
	if c.moved > 0 {
		c.write(c.opts.Form.AppendMove(nil, c.reader.Stream().Cursor(c.moved)))
		c.moved = 0
	}
	if c.err == nil {
		c.allow()
		c.err = c.rc.Flush()
		c.flushed = time.Now()
	}
}

// allow moves the deadline for writes. Setting one takes longer than a small
// write, so it is set at most once a second, or a few times within a shorter timeout.
func (c *conn) allow() {
	now := time.Now()
	if deadline := now.Add(c.opts.WriteTimeout); deadline.Sub(c.deadline) >= min(time.Second, c.opts.WriteTimeout/4) {
		c.deadline = deadline
		// A ResponseWriter without deadlines is one without a network behind it.
		_ = c.rc.SetWriteDeadline(deadline)
	}
}
