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

// Connect sends the request for the next events.
func (f *follower) Connect(ctx context.Context) (*http.Response, error) {
	f.started = f.started || ctx.Err() == nil
	state := stateConnecting
	if f.held.polls() {
		state = statePolling
	}
	f.state(state)
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

// accept returns nil if the answer is an event stream of the server. It yields the gap that the header reports.
func (f *follower) accept(ctx context.Context, res *http.Response) error {
	switch err := f.c.refusal(res); {
	case err != nil:
		return err
	case res.StatusCode == http.StatusNoContent && res.Header.Get("Stream-Outcome") != "":
		f.ended = true // all was read before, the end with it
		return errEnded
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
	f.live, f.begun = f.live && f.held.polls(), time.Now()
	f.track.answered(res.Header.Get("Stream-Tail"))
	tail, _ := reprise.ParseCursor(res.Header.Get("Stream-Tail")) // without one the reader is not told
	f.tail = tail.Seq
	if gap := f.filteredStart(res.Header); gap != nil {
		return f.gap(ctx, *gap)
	}
	return nil
}

// LastEventID is the cursor to resume from.
func (f *follower) LastEventID() string { return f.track.cursor }

// Comment records a heartbeat as soon as its line is read. The connection then counts as useful, so a proxy that cuts
// idle connections does not cause ever longer waits.
func (f *follower) Comment([]byte) {
	f.held.beat = time.Now()
	if time.Since(f.begun) >= ssefollow.MinProductive {
		f.wait.Succeeded()
	}
	f.alive()
}

// Wait lets the cursor be saved while the loop waits for bytes.
func (f *follower) Wait(ctx context.Context, fail context.CancelCauseFunc) {
	if f.tail > 0 && f.track.seq >= f.tail {
		f.tail = 0
		f.state(stateCaughtUp)
	}
	f.saver.beginWait(ctx, fail)
}

// Woken ends what Wait has begun.
func (f *follower) Woken() { f.saver.endWait() }

// alive notifies the program once that the current connection works.
func (f *follower) alive() {
	if f.live {
		return
	}
	f.live = true
	f.state(stateLive)
	if f.opts.OnConnected != nil {
		f.opts.OnConnected()
	}
}

// Block processes one frame.
func (f *follower) Block(ctx context.Context, frame sse.Event) error {
	if frame.Data == nil || isMove(&frame) {
		moved, err := f.track.pass(frame.ID)
		if moved {
			f.progress()
			return f.saver.handled(ctx, f.track.cursor)
		}
		return err
	}
	event, err := decodeFrame(frame)
	if f.track.disowns(&frame, &event, err) {
		return f.track.doubt(frame.ID, event.Seq)
	}
	if err != nil {
		return err
	}
	if event.Gap != nil {
		if f.track.isBehind(&event) {
			return nil
		}
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
	f.ended = event.End != nil
	if err := f.give(ctx, event); err != nil {
		return err
	}
	if f.ended {
		return errEnded
	}
	return nil
}

// isMove reports whether frame only moves the cursor of a filtered reader. A published event of the same type has a
// seq.
func isMove(frame *sse.Event) bool {
	if frame.Type != reprise.TypeCursor {
		return false
	}
	var w wireEvent
	return json.Unmarshal(frame.Data, &w) == nil && w.Seq == 0
}

// progress records that the connection has delivered something.
func (f *follower) progress() {
	f.wait.Succeeded()
	f.faults = 0
	f.alive()
}

// give yields an event to the loop. Once the body of the loop has returned, the cursor may be saved.
func (f *follower) give(ctx context.Context, event Event) error {
	if f.wanted(event.Type) && !f.yield(event, nil) {
		return errStopped
	}
	f.receipts.handled(event.Seq, len(event.Data))
	return f.saver.handled(ctx, event.Cursor)
}
