package ssehttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"reprise"
	"reprise/internal/sseloop"
)

// conn is one response. It is the sseloop.Handler of its loop.
type conn struct {
	sseloop.Conn
	w    http.ResponseWriter
	form Form
	sent func(seq uint64) // nil for none
	// shutdownRetry is how long the client waits if the server closes.
	shutdownRetry time.Duration

	wanted     map[string]bool // nil for all types
	moveEvent  bool            // tell of moved by an event
	closeEvent bool            // see Options.CloseEvent
	moved      uint64          // seq up to which events were left out since the last id that was sent
}

func newConn(w http.ResponseWriter, reader *reprise.Reader, req Request, opts *Options) *conn {
	c := &conn{
		w: w, form: opts.Form, sent: opts.Sent, shutdownRetry: opts.ShutdownRetry,
		closeEvent: opts.CloseEvent,
	}
	c.Init(w)
	c.Reader, c.Silence, c.WriteTimeout = reader, opts.Heartbeat, opts.WriteTimeout
	if len(req.Types) > 0 {
		c.moveEvent = req.CursorEvent
		c.wanted = map[string]bool{}
		for _, t := range req.Types {
			c.wanted[t] = true
		}
	}
	return c
}

// begin sends the head of the response.
func (c *conn) begin() {
	h := c.w.Header()
	h.Set("Content-Type", c.form.ContentType())
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
	info := c.Reader.Info()
	SetHead(h, c.Reader.Stream(), &info)
	c.Begin()
}

// follow sends events until the response ends, and closes the reader then. It returns true if the response was parked.
func (c *conn) follow(ctx context.Context) (parked bool) {
	reader := c.Reader
	defer func() {
		if !parked {
			reader.Close()
		}
	}()
	return c.Follow(ctx, c)
}

// Resume implements sseloop.Parked.
func (c *conn) Resume(ctx context.Context) (parked bool) { return c.follow(ctx) }

// Glance implements sseloop.Parked.
func (c *conn) Glance(early bool) (beat time.Duration, ok bool) { return c.Conn.Glance(c, early) }

// Send implements sseloop.Handler.
func (c *conn) Send(events reprise.Events) {
	if c.wanted == nil {
		_ = events.WriteEncoded(&c.Conn, c.form) // the loop has the error
	} else {
		c.write(c.filtered(events))
	}
	if c.sent != nil && c.Err() == nil {
		c.sent(events.Last())
	}
}

// filtered is the wire form of the events that are wanted. It is in the buffer for history, which is flushed before the
// reader asks the store again.
func (c *conn) filtered(events reprise.Events) []byte {
	var frames []byte
	for e := range events.All() {
		c.moved = e.Seq
		if c.wanted[e.Type] {
			if frames == nil {
				frames = c.AvailableBuffer()
			}
			frames = c.form.AppendEvent(frames, &e, events.CursorSuffix())
			c.moved = 0
		}
	}
	return frames
}

// Gap implements sseloop.Handler.
func (c *conn) Gap(refused *reprise.WindowError, at reprise.Cursor) {
	c.moved = 0 // what was left out lies before the gap
	c.write(c.form.AppendGap(nil, NewGap(c.Reader, refused, at)))
}

// Beat implements sseloop.Handler.
func (c *conn) Beat() {
	if !c.move() {
		c.write(c.form.AppendHeartbeat(nil))
	}
}

// move moves the reader's cursor past the events that were left out since the last id, if there are any.
func (c *conn) move() bool {
	if c.moved == 0 {
		return false
	}
	c.write(c.form.AppendMove(nil, c.Reader.Cursor(), c.moveEvent))
	c.moved = 0
	return true
}

// MayGoOn implements sseloop.Handler: whoever calls Serve ends the context of a request that may not.
func (c *conn) MayGoOn() bool { return true }

// The last blocks of an EventStream. They are not events of the stream and have no id, so that clients ignore them and
// resume from the last event.
const (
	removedBlock = "event: removed\ndata: {\"code\":\"not_found\",\"detail\":\"the stream was removed\"}\n\n"
	expiredBlock = "event: removed\ndata: {\"code\":\"stream_expired\",\"detail\":\"the stream has expired\"}\n\n"
	closeBlock   = "event: close\ndata: {\"status\":\"closed\"}\nretry: 3000\n\n"
)

// Finish implements sseloop.Handler. The reader of a stream that was removed is to come back at once as well: the
// status says then what has become of it.
func (c *conn) Finish(why error) {
	c.move()
	last := ""
	switch {
	case errors.Is(why, reprise.ErrNotFound):
		last = removedBlock
	case errors.Is(why, reprise.ErrExpired):
		last = expiredBlock
	}
	if last != "" || errors.Is(why, reprise.ErrClosed) {
		c.write(c.form.AppendRetry(nil, c.shutdownRetry))
	}
	if c.closeEvent && (last != "" || errors.Is(why, reprise.ErrEnded)) {
		last += closeBlock
	}
	if c.form == Form(EventStream{}) && last != "" {
		c.write([]byte(last))
	}
}

func (c *conn) write(b []byte) { _, _ = c.Write(b) } // the loop has the error
