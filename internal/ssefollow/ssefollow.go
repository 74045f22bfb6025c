// Package ssefollow is the single loop that follows an event stream over HTTP as a client: it connects, reads blocks,
// closes silent connections, waits, and connects again. Its Handler defines the meaning of responses and blocks, and
// the waits. The loop of the server is in internal/sseloop.
package ssefollow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"reprise/internal/backoff"
	"reprise/sse"
)

// Handler is what differs between clients. Its methods are called by the goroutine of Run. An error that wraps ErrStop
// ends Run, which returns it.
type Handler interface {
	// Connect asks for what comes next. It returns an answer that is an event stream, whose body Run closes.
	Connect(ctx context.Context) (*http.Response, error)
	// LastEventID is the id that a connection resumes from: blocks without one have it.
	LastEventID() string
	// Block takes a block, which is valid during the call. An error ends the connection.
	Block(ctx context.Context, block sse.Event) error
	// Comment takes the text of a comment, as soon as its line has come. The text is valid during the call.
	Comment(text []byte)
	// Wait begins a wait for bytes, and Woken ends it. An error that happens in between goes to fail, which ends
	// the connection with it.
	Wait(ctx context.Context, fail context.CancelCauseFunc)
	Woken()
	// Failed decides about a connection that failed or ended: it returns how long to wait before the next one, or
	// the error that ends Run. asked is the newest retry field of all connections, 0 without one.
	Failed(ctx context.Context, err error, asked time.Duration) (time.Duration, error)
}

// ErrStop is wrapped by the errors with which a Handler ends Run.
var ErrStop = errors.New("the loop is left")

// Failures that pass.
var (
	// ErrIdle: the connection was silent for longer than Loop.IdleTimeout.
	ErrIdle = errors.New("the connection was silent for too long")
	// ErrHeld is an ErrIdle: the header of an answer came, and no byte of its body.
	ErrHeld = fmt.Errorf("%w: a header came and no event, so a proxy may hold the answer back", ErrIdle)
	// ErrDropped: the answer ended, which the end of a stream alone is not.
	ErrDropped = errors.New("the connection ended before the stream")
)

// errRestart ends a connection, or a wait, for Loop.Restart.
var errRestart = errors.New("the connection is restarted")

// TransportError is a failure of the network, before or within an answer.
type TransportError struct{ Err error }

func (e *TransportError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *TransportError) Unwrap() error { return e.Err }

// Broken returns the error for a request or answer that failed with err: the cause, if ctx is done, or else a
// *TransportError.
func Broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &TransportError{err}
}

// MaxAsked bounds the time between connections that a server may ask for.
const MaxAsked = time.Hour

// MinProductive is how old a connection must be for a comment to make it a success. A comment at the very beginning
// does not: a server that ends each connection after it would be asked again without a wait.
const MinProductive = time.Second

// Loop is one loop over the blocks of a stream. The zero Loop has no bound on silence.
type Loop struct {
	// IdleTimeout is the silence after which a connection is given up, 0 for no bound. Time that the Handler takes
	// does not count.
	IdleTimeout time.Duration
	// MaxBytes bounds a line and the data of an event. Default: that of sse.DecoderOptions.
	MaxBytes int

	asked time.Duration // the newest retry field

	mu     sync.Mutex
	cancel context.CancelCauseFunc // of the present turn
}

// Run connects again and again, until the Handler ends it or ctx is done, and returns the error.
func (l *Loop) Run(ctx context.Context, h Handler) error {
	for {
		if err := l.turn(ctx, h); err != nil {
			return err
		}
	}
}

// Restart ends the present connection or wait. The next connection begins at once. It is safe for concurrent use, and
// does nothing while Run does not run.
func (l *Loop) Restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		l.cancel(errRestart)
	}
}

// turn is one connection and the wait after it.
func (l *Loop) turn(ctx context.Context, h Handler) error {
	turn, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.setCancel(cancel)
	defer l.setCancel(nil)
	err := l.connection(turn, h)
	switch {
	case errors.Is(err, ErrStop):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(context.Cause(turn), errRestart):
		return nil
	}
	pause, err := h.Failed(ctx, err, l.asked)
	if err != nil {
		return err
	}
	if err := backoff.Sleep(turn, pause); err != nil && !errors.Is(err, errRestart) {
		return err
	}
	return nil
}

func (l *Loop) setCancel(cancel context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel = cancel
}

// connection makes one request and hands out what its answer holds. The error says why there was no more.
func (l *Loop) connection(ctx context.Context, h Handler) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	body := &watchedBody{ctx: ctx, handler: h, fail: cancel, size: leastRead}
	if l.IdleTimeout > 0 {
		body.timeout = l.IdleTimeout
		body.idle = time.AfterFunc(l.IdleTimeout, func() { cancel(ErrIdle) })
		defer body.idle.Stop()
	}
	res, err := h.Connect(ctx)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body.body = res.Body
	err = l.blocks(ctx, h, sse.NewDecoder(body, &sse.DecoderOptions{
		LastEventID: h.LastEventID(), MaxBytes: l.MaxBytes, Comment: h.Comment,
	}))
	if !body.came && errors.Is(err, ErrIdle) {
		err = ErrHeld
	}
	return err
}

// blocks hands out blocks until the connection ends.
func (l *Loop) blocks(ctx context.Context, h Handler, d *sse.Decoder) error {
	for {
		block, err := d.Next()
		if asked, ok := d.Retry(); ok {
			l.asked = min(asked, MaxAsked)
		}
		switch {
		case ctx.Err() != nil: // what was read ahead is not for one who has cancelled
			err = context.Cause(ctx)
		case err == nil:
			err = h.Block(ctx, block)
		case errors.Is(err, io.EOF):
			err = ErrDropped
		}
		if err != nil {
			return err
		}
	}
}

// leastRead and fastRead steer how much is read at once: net/http reads until the buffer is full or a chunk has ended,
// and what comes by and by in a long chunk would look like silence.
const (
	leastRead = 256
	fastRead  = 20 * time.Millisecond
)

// watchedBody is the body of an answer. It ends the connection if a read gets nothing for too long.
type watchedBody struct {
	ctx     context.Context // whose cause tells a timeout from a lost connection
	body    io.Reader
	idle    *time.Timer // nil for none
	timeout time.Duration
	handler Handler
	fail    context.CancelCauseFunc // of ctx
	size    int                     // of the next read
	came    bool                    // something was read
}

func (w *watchedBody) Read(p []byte) (int, error) {
	p = p[:min(len(p), w.size)]
	began := time.Now()
	w.handler.Wait(w.ctx, w.fail)
	if w.idle != nil {
		w.idle.Reset(w.timeout)
	}
	n, err := w.body.Read(p)
	if w.idle != nil {
		w.idle.Stop()
	}
	w.handler.Woken()
	w.came = w.came || n > 0
	switch {
	case n < w.size: // it says nothing: a chunk has ended, or the decoder has no more room
	case time.Since(began) < fastRead:
		w.size *= 2
	default:
		w.size = max(w.size/2, leastRead)
	}
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, Broken(w.ctx, err)
}
