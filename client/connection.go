package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"reprise"
	"reprise/internal/ssefollow"
	"reprise/sse"
)

const eventStreamType = sse.ContentType

// Connect sends the request for what comes next.
func (f *follower) Connect(ctx context.Context) (*http.Response, error) {
	res, err := f.c.send(ctx, f.request())
	if err != nil {
		return nil, err
	}
	if err := f.accept(ctx, res); err != nil {
		res.Body.Close()
		return nil, err
	}
	return res, nil
}

// accept is nil for an answer that is an event stream of the server's. It yields the gap that its head tells of.
func (f *follower) accept(ctx context.Context, res *http.Response) error {
	switch err := f.c.refusal(res); {
	case err != nil:
		return err
	case res.StatusCode == http.StatusNoContent:
		return errEnded // all was read before, the end with it
	case res.StatusCode != http.StatusOK || !hasType(res, eventStreamType):
		return notOurs(res)
	}
	f.c.met.Store(true)
	if token := res.Header.Get("Execution-Hold"); token != "" {
		f.hold = token
		if f.receipts == nil && f.start != nil {
			f.receipts = f.withReceipts(res.Header)
		}
	}
	f.live, f.begun = false, time.Now()
	if gap := f.filteredStart(res.Header); gap != nil {
		return f.gap(ctx, *gap)
	}
	return nil
}

// LastEventID is the cursor to resume from.
func (f *follower) LastEventID() string { return f.track.cursor }

// Comment takes note of a heartbeat, as soon as its line has come. A connection that is cut after it was of use: a
// proxy that cuts quiet connections is no reason to wait longer and longer.
func (f *follower) Comment([]byte) {
	if time.Since(f.begun) >= ssefollow.MinProductive {
		f.wait.Succeeded()
	}
	f.alive()
}

// Wait lets the cursor be saved while the loop waits for bytes.
func (f *follower) Wait(ctx context.Context, fail context.CancelCauseFunc) {
	f.saver.beginWait(ctx, fail)
}

// Woken ends what Wait has begun.
func (f *follower) Woken() { f.saver.endWait() }

// alive tells the program once that the present connection works.
func (f *follower) alive() {
	if !f.live && f.opts.OnConnected != nil {
		f.opts.OnConnected()
	}
	f.live = true
}

// Block deals with one frame.
func (f *follower) Block(ctx context.Context, frame sse.Event) error {
	if isForeignBlock(&frame) {
		return nil
	}
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

// isForeignBlock reports whether something in front of the server has put frame among its events: each of them has an
// id. An event that has a seq and no id is one of the server's that is damaged.
func isForeignBlock(frame *sse.Event) bool {
	if frame.ID != "" || frame.Data == nil {
		return false
	}
	var w wireEvent
	return json.Unmarshal(frame.Data, &w) != nil || w.Seq == 0
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
	f.wait.Succeeded()
	f.faults = 0
	f.alive()
}

// give hands an event to the loop. When its body is done with it, the cursor may be saved.
func (f *follower) give(ctx context.Context, event Event) error {
	if f.wanted(event.Type) && !f.yield(event, nil) {
		return errStopped
	}
	f.receipts.handled(event.Seq, len(event.Data))
	return f.saver.handled(ctx, event.Cursor)
}
