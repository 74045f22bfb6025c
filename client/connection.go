package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"reprise"
	"reprise/problem"
	"reprise/sse"
)

const eventStreamType = sse.ContentType

// connection makes one request and yields what its answer holds. The error says why
// there was no more: errEnded, errStopped, or what is to be decided about.
func (f *follower) connection(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(f.opts.IdleTimeout, func() { cancel(errIdle) })
	defer idle.Stop()
	res, err := f.c.send(ctx, f.request())
	if err != nil {
		return err
	}
	defer res.Body.Close()
	switch err := refusal(res); {
	case err != nil:
		return err
	case res.StatusCode == http.StatusNoContent:
		return errEnded // all was read before, the end with it
	case res.StatusCode != http.StatusOK || !hasType(res, eventStreamType):
		return fmt.Errorf("%w: status %d with content type %q", ErrProtocol, res.StatusCode, res.Header.Get("Content-Type"))
	}
	body := &watchedBody{ctx: ctx, body: res.Body, idle: idle, timeout: f.opts.IdleTimeout, flush: f.saver.flush}
	return f.frames(ctx, sse.NewDecoder(body, nil))
}

// steady is how long a connection must have lasted to count as a success, even if it has
// brought nothing: a proxy that cuts quiet connections is no reason to wait longer and longer.
const steady = time.Minute

// frames yields events until the connection ends.
func (f *follower) frames(ctx context.Context, d *sse.Decoder) error {
	begun := time.Now()
	for {
		frame, err := d.Next()
		if retry, ok := d.Retry(); ok {
			f.retry = min(retry, maxAsked)
		}
		switch {
		case ctx.Err() != nil: // what was read ahead is not for one who has cancelled
			err = context.Cause(ctx)
		case err == nil:
			err = f.frame(ctx, frame)
		case errors.Is(err, io.EOF):
			err = errDropped
		case errors.Is(err, sse.ErrTooLong):
			err = fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		if err != nil {
			if time.Since(begun) >= steady {
				f.wait.succeeded()
			}
			return err
		}
	}
}

// frame deals with one frame.
func (f *follower) frame(ctx context.Context, frame sse.Event) error {
	if frame.Data == nil {
		moved, err := f.track.pass(frame.ID)
		if moved {
			f.progress()
			f.saver.handled(f.track.cursor)
			return f.saver.saveIfDue(ctx)
		}
		return err
	}
	event, err := decodeFrame(frame)
	if err != nil {
		return err
	}
	if event.Gap != nil {
		return f.gap(ctx, event)
	}
	if f.fromFirst && f.track.cursor == "" && event.Seq > 1 && !f.track.filtered {
		if err := f.gap(ctx, lostBefore(event)); err != nil {
			return err
		}
	}
	fresh, err := f.track.advance(event.Seq, event.Cursor)
	if err != nil || !fresh {
		return err
	}
	f.progress()
	if err := f.give(ctx, event); err != nil {
		return err
	}
	if event.End != nil {
		return errEnded
	}
	return nil
}

// progress notes that the connection is of use.
func (f *follower) progress() {
	f.wait.succeeded()
	f.faults = 0
}

// give hands an event to the loop. When its body is done with it, the cursor is saved.
func (f *follower) give(ctx context.Context, event Event) error {
	if f.wanted(event.Type) && !f.yield(event, nil) {
		return errStopped
	}
	f.saver.handled(event.Cursor)
	return f.saver.saveIfDue(ctx)
}

// gap deals with the notice that the events after the cursor are gone.
func (f *follower) gap(ctx context.Context, event Event) error {
	gap := *event.Gap
	switch {
	case !isGap(gap.Code):
		p := problem.New(problem.Code(gap.Code), "the server refuses the cursor "+f.track.cursor)
		p.Earliest, p.Tail = gap.Earliest, gap.Tail
		return p
	case f.opts.OnGap == GapFail:
		return &GapError{gap}
	}
	f.track = startTrack(event.Cursor, f.track.filtered)
	f.progress()
	return f.give(ctx, event)
}

// lostBefore is the gap in front of the first event that a reader gets who wants all. The
// server does not tell of it: the reader has shown no cursor.
func lostBefore(first Event) Event {
	gap := Gap{Code: string(problem.CodeCursorExpired), Missed: first.Seq - 1}
	if c, err := reprise.ParseCursor(first.Cursor); err == nil {
		c.Seq = first.Seq - 1
		gap.Earliest = c.String()
	}
	return Event{Type: reprise.TypeGap, Cursor: gap.Earliest, Time: first.Time, Gap: &gap}
}

// watchedBody is the body of a response. It ends the connection if a read gets nothing
// for too long; time that the loop takes for itself does not count.
type watchedBody struct {
	ctx     context.Context // whose cause tells a timeout from a lost connection
	body    io.Reader
	idle    *time.Timer
	timeout time.Duration
	flush   func(context.Context) error // called before there is a wait
}

func (w *watchedBody) Read(p []byte) (int, error) {
	if err := w.flush(w.ctx); err != nil {
		return 0, err
	}
	w.idle.Reset(w.timeout)
	n, err := w.body.Read(p)
	w.idle.Stop()
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, broken(w.ctx, err)
}
