package ssehttp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"reprise"
	"reprise/problem"
)

// Options are the settings of Serve. The zero value of each field means its default.
type Options struct {
	// Heartbeat is the silence after which a comment is sent. Default: 15 s.
	Heartbeat time.Duration
	// WriteTimeout is how long a reader may accept no bytes before it is closed;
	// it is kept to within a second. Default: 30 s.
	WriteTimeout time.Duration
	// Retry is how long readers are told to wait before they come back after
	// a drop, ShutdownRetry when the Log is closed. Defaults: 1 s, 250 ms.
	Retry, ShutdownRetry time.Duration
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	for _, field := range []struct {
		value *time.Duration
		def   time.Duration
	}{
		{&d.Heartbeat, 15 * time.Second},
		{&d.WriteTimeout, 30 * time.Second},
		{&d.Retry, time.Second},
		{&d.ShutdownRetry, 250 * time.Millisecond},
	} {
		if *field.value == 0 {
			*field.value = field.def
		}
	}
	return d
}

// Handler serves the streams that Stream finds. Its zero value is not ready for use.
type Handler struct {
	// Stream finds the stream that a request is about, and refuses those that may not
	// read it; its error is answered as problem.From says.
	Stream func(*http.Request) (*reprise.Stream, error)
	// Options may be nil.
	Options *Options
}

// ServeHTTP answers GET and HEAD.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refusal := problem.New(problem.CodeInvalid, "streams are read with GET")
		refusal.Status = http.StatusMethodNotAllowed
		_ = problem.Write(w, refusal)
		return
	}
	s, err := h.Stream(r)
	var req Request
	if err == nil {
		req, err = ParseRequest(r)
	}
	if err != nil {
		_ = problem.Write(w, problem.From(err))
		return
	}
	Serve(w, r, s, req, h.Options)
}

// Serve answers r with the events of s as Server-Sent Events and returns when the
// stream has ended and all was sent, when the client has gone, or when the Log
// is closed. What is wrong with the position is answered as a problem. opts may be nil.
func Serve(w http.ResponseWriter, r *http.Request, s *reprise.Stream, req Request, opts *Options) {
	c := open(w, r, s, req, opts)
	if c == nil {
		return
	}
	defer c.reader.Close()
	c.follow(r.Context())
}

// open begins the response. It returns nil if that is all there is to it: a refusal, the
// very end of the stream, or an answer to HEAD. It is apart from Serve, which stays on
// the stack of every reader that waits, to keep that small.
//
//go:noinline
func open(w http.ResponseWriter, r *http.Request, s *reprise.Stream, req Request, opts *Options) *conn {
	reader, gap, err := req.Open(r, s)
	if err != nil {
		_ = problem.Write(w, problem.From(err))
		return nil
	}
	c := newConn(w, reader, req.Types, opts.withDefaults())
	c.run, c.polled = reader.Poll(r.Context())
	switch {
	case errors.Is(c.polled, io.EOF) && gap == nil:
		w.WriteHeader(http.StatusNoContent)
		reader.Close()
		return nil
	case c.polled != nil && !goesOn(c.polled):
		_ = problem.Write(w, problem.From(c.polled))
		reader.Close()
		return nil
	}
	c.begin()
	if r.Method == http.MethodHead {
		reader.Close()
		return nil
	}
	if gap != nil {
		c.gap(gap)
	}
	return c
}

// goesOn reports whether a response can go on after err from Reader.Poll.
func goesOn(err error) bool {
	window, ok := errors.AsType[*reprise.WindowError](err)
	return errors.Is(err, io.EOF) || ok && window.Reason == reprise.CursorExpired
}

// isRefusal reports whether err refuses a position, as gap=event lets a reader be told.
func isRefusal(err error) bool {
	_, ok := errors.AsType[*reprise.WindowError](err)
	return ok || errors.Is(err, reprise.ErrCursorMalformed) || errors.Is(err, reprise.ErrCursorForeign)
}

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

	deadline time.Time // that is set for writes
	err      error     // the first failed write
}

func newConn(w http.ResponseWriter, reader *reprise.Reader, types []string, opts Options) *conn {
	c := &conn{w: w, rc: http.NewResponseController(w), reader: reader, opts: opts}
	if len(types) > 0 {
		c.wanted = map[string]bool{reprise.TypeGap: true}
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
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
	c.w.WriteHeader(http.StatusOK)
	c.retry(c.opts.Retry)
}

func (c *conn) retry(after time.Duration) {
	c.write([]byte("retry: " + strconv.FormatInt(after.Milliseconds(), 10) + "\n\n"))
}

// follow sends what was polled, and then all that comes.
func (c *conn) follow(ctx context.Context) {
	heartbeat := time.NewTimer(c.opts.Heartbeat)
	defer heartbeat.Stop()
	for c.step() {
		if c.run.Len() == 0 && c.polled == nil && !c.wait(ctx, heartbeat) {
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
		c.gap(err)
		return c.reader.Seek(reprise.Earliest()) == nil
	case errors.Is(err, reprise.ErrClosed):
		c.retry(c.opts.ShutdownRetry)
	}
	c.flush()
	return false
}

// wait sends what has been written and waits until there is more. It sends the heartbeats.
func (c *conn) wait(ctx context.Context, heartbeat *time.Timer) bool {
	changed := c.reader.Changed()
	select {
	case <-changed: // more has come meanwhile: send it together
		return true
	default:
	}
	c.flush()
	heartbeat.Reset(c.opts.Heartbeat)
	for c.err == nil {
		select {
		case <-changed:
			return true
		case <-ctx.Done():
			// Whoever ends the request for a shutdown says so by its cause.
			return c.goOn(context.Cause(ctx))
		case <-heartbeat.C:
			c.write([]byte(":\n\n"))
			c.flush()
			heartbeat.Reset(c.opts.Heartbeat)
		}
	}
	return false
}

func (c *conn) send(run reprise.Run) {
	if c.wanted == nil {
		c.write(run.Encoded(encoder{}))
		return
	}
	frames, moved := appendFiltered(nil, run, c.wanted, c.suffix)
	if len(frames) > 0 {
		c.write(frames)
	}
	c.moved = moved
}

// gap sends the event that tells what cannot be had any more.
func (c *conn) gap(err error) {
	p := problem.From(err)
	notice := gapNotice{Code: string(p.Code), Earliest: p.Earliest, Tail: p.Tail}
	if window, ok := errors.AsType[*reprise.WindowError](err); ok {
		notice.Missed = window.Missed()
	} else {
		info := c.reader.Info()
		notice.Earliest = c.reader.Stream().Cursor(info.Earliest - 1).String()
		notice.Tail = c.reader.Stream().Cursor(info.Tail).String()
	}
	data, err := json.Marshal(notice)
	if err != nil {
		c.err = err
		return
	}
	c.write([]byte("id: " + notice.Earliest + "\nevent: " + reprise.TypeGap + "\ndata: " + string(data) + "\n\n"))
}

// gapNotice is the data of a gap event.
type gapNotice struct {
	Code     string `json:"code"`
	Earliest string `json:"earliest"`
	Tail     string `json:"tail"`
	Missed   uint64 `json:"missed"`
}

// write hands bytes to the response, within the time that the reader has for them.
func (c *conn) write(b []byte) {
	if c.err != nil {
		return
	}
	c.allow()
	_, c.err = c.w.Write(b)
}

// flush sends all that was written. Where events were left out since the last
// frame, a frame with nothing but an id first moves the reader's cursor past them.
func (c *conn) flush() {
	if c.moved > 0 {
		c.write([]byte("id: " + strconv.FormatUint(c.moved, 10) + c.suffix + "\n\n"))
		c.moved = 0
	}
	if c.err == nil {
		c.allow()
		c.err = c.rc.Flush()
	}
}

// allow moves the deadline for writes. Setting one takes longer than a small
// write, so it is set at most once a second.
func (c *conn) allow() {
	now := time.Now()
	if deadline := now.Add(c.opts.WriteTimeout); deadline.Sub(c.deadline) >= time.Second {
		c.deadline = deadline
		// A ResponseWriter without deadlines is one without a network behind it.
		_ = c.rc.SetWriteDeadline(deadline)
	}
}
