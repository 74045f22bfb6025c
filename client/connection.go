package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"reprise"
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
	switch err := f.c.refusal(res); {
	case err != nil:
		return err
	case res.StatusCode == http.StatusNoContent:
		return errEnded // all was read before, the end with it
	case res.StatusCode != http.StatusOK || !hasType(res, eventStreamType):
		return notOurs(res)
	}
	f.c.met.Store(true)
	f.live, f.begun = false, time.Now()
	body := &watchedBody{ctx: ctx, body: res.Body, idle: idle, timeout: f.opts.IdleTimeout, saver: &f.saver, fail: cancel}
	if gap := f.filteredStart(res.Header); gap != nil {
		if err := f.gap(ctx, *gap); err != nil {
			return err
		}
	}
	return f.frames(ctx, sse.NewDecoder(body, &sse.DecoderOptions{Comment: f.heartbeat}))
}

// minProductive is how old a connection must be for a heartbeat to make it a success. A
// comment at the very beginning does not: a server that ends each connection after it would be
// asked again without a wait.
const minProductive = time.Second

// heartbeat takes note of a comment, as soon as its line has come. A connection that is cut
// after it was of use: a proxy that cuts quiet connections is no reason to wait longer and longer.
func (f *follower) heartbeat([]byte) {
	if time.Since(f.begun) >= minProductive {
		f.wait.succeeded()
	}
	f.alive()
}

// alive tells the program once that the present connection works.
func (f *follower) alive() {
	if !f.live && f.opts.OnConnected != nil {
		f.opts.OnConnected()
	}
	f.live = true
}

// frames yields events until the connection ends.
func (f *follower) frames(ctx context.Context, d *sse.Decoder) error {
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
			return err
		}
	}
}

// frame deals with one frame.
func (f *follower) frame(ctx context.Context, frame sse.Event) error {
	if frame.Data == nil || isMove(&frame) {
		moved, err := f.track.pass(frame.ID)
		if moved {
			f.progress()
			return f.saver.handled(ctx, f.track.cursor)
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
	if gap := f.missingStart(event); gap != nil {
		if err := f.gap(ctx, *gap); err != nil {
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

// isMove reports whether frame moves the cursor of a filtered reader as an event does. Events of that type that
// somebody has published have a seq.
func isMove(frame *sse.Event) bool {
	if frame.Type != reprise.TypeCursor {
		return false
	}
	var w wireEvent
	return json.Unmarshal(frame.Data, &w) == nil && w.Seq == 0
}

// progress notes that the connection is of use.
func (f *follower) progress() {
	f.wait.succeeded()
	f.faults = 0
	f.alive()
}

// give hands an event to the loop. When its body is done with it, the cursor may be saved.
func (f *follower) give(ctx context.Context, event Event) error {
	if f.wanted(event.Type) && !f.yield(event, nil) {
		return errStopped
	}
	return f.saver.handled(ctx, event.Cursor)
}

// watchedBody is the body of a response. It ends the connection if a read gets nothing
// for too long; time that the loop takes for itself does not count.
type watchedBody struct {
	ctx     context.Context // whose cause tells a timeout from a lost connection
	body    io.Reader
	idle    *time.Timer
	timeout time.Duration
	saver   *saver
	fail    context.CancelCauseFunc // of ctx
}

func (w *watchedBody) Read(p []byte) (int, error) {
	w.saver.beginWait(w.ctx, w.fail)
	w.idle.Reset(w.timeout)
	n, err := w.body.Read(p)
	w.idle.Stop()
	w.saver.endWait()
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, broken(w.ctx, err)
}
