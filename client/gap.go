package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"reprise"
	"reprise/internal/problem"
)

// Gap says that the stream cannot continue at the cursor.
type Gap struct {
	// Code is "cursor_expired" if the events after the cursor are no longer kept; "epoch_changed" if the server
	// has lost the newest events of the stream, or the stream was created again; or "cursor_ahead" if the stream has
	// never had that many events, in which case it continues from the first kept event.
	Code string `json:"code"`
	// Earliest is the cursor before the first kept event, Tail the one after the last. They are ""
	// if the server has not sent them.
	Earliest string `json:"earliest,omitempty"`
	Tail     string `json:"tail,omitempty"`
	// Fork is the cursor up to which the new epoch has the events of the old one; its seq is 0 if they share none.
	// seq continues after it. It is "" for other codes.
	Fork string `json:"fork,omitempty"`
	// Missed is the number of events that are gone and were never received, or 0 if it is unknown.
	Missed uint64 `json:"missed"`
	// TakenBack is the number of events up to the cursor that the server has lost. The
	// program may have received them, and other events have their seqs now.
	TakenBack uint64 `json:"taken_back,omitempty"`
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
	event.Cursor = afterGap(event)
	if event.Cursor == f.track.cursor {
		f.alive() // a server that says so each time must not be asked again at once
	} else {
		f.progress()
	}
	f.track = startTrack(event.Cursor, f.track.filtered)
	return f.give(ctx, event)
}

// afterGap is the position from which the stream goes on: the cursor of the gap, or the fork if
// that is later. The events up to the fork were received in the epoch before.
func afterGap(event Event) string {
	next, err := reprise.ParseCursor(event.Cursor)
	fork, forkErr := reprise.ParseCursor(event.Gap.Fork)
	if err == nil && forkErr == nil && fork.Epoch == next.Epoch && fork.Seq > next.Seq {
		return event.Gap.Fork
	}
	return event.Cursor
}

// missingStart is the gap before the first event of a reader that wants all, if there is one; otherwise
// nil. The server does not tell of it: the reader has shown no cursor.
func (f *follower) missingStart(first Event) *Event {
	if !f.fromFirst || f.track.cursor != "" || f.track.filtered || first.Seq <= 1 {
		return nil
	}
	cursor := ""
	if c, err := reprise.ParseCursor(first.Cursor); err == nil {
		c.Seq = first.Seq - 1
		cursor = c.String()
	}
	return startGap(cursor, first.Seq-1, first.Time)
}

// filteredStart is missingStart for a reader of some types, whose first seq shows nothing: the head of the
// answer says where the stream begins.
func (f *follower) filteredStart(head http.Header) *Event {
	earliest := head.Get("Stream-Earliest")
	c, err := reprise.ParseCursor(earliest)
	if !f.fromFirst || f.track.cursor != "" || !f.track.filtered || err != nil || c.Seq == 0 {
		return nil
	}
	return startGap(earliest, c.Seq, time.Time{})
}

// startGap is an event in the form of the server's.
func startGap(earliest string, missed uint64, at time.Time) *Event {
	gap := &Gap{Code: string(problem.CodeCursorExpired), Earliest: earliest, Missed: missed}
	data, _ := json.Marshal(gap) // strings and numbers
	return &Event{Type: reprise.TypeGap, Cursor: earliest, Time: at, Data: data, IsJSON: true, Gap: gap}
}

// asGap makes a *GapError of a refused cursor: with GapFail it comes as a status.
func (f *follower) asGap(err error) error {
	if gap, ok := errors.AsType[*GapError](err); ok {
		return gap
	}
	p, ok := problem.As(err)
	if !ok || !isGap(string(p.Code)) {
		return nil
	}
	gap := Gap{Code: string(p.Code), Earliest: p.Earliest, Tail: p.Tail, Fork: p.Fork}
	window, ok := errors.AsType[*reprise.WindowError](p.Unwrap())
	asked, err := reprise.ParseCursor(f.track.cursor)
	if ok && err == nil && window.Resume().Epoch != "" { // cursors that cannot be read count nothing
		window.Asked = asked
		gap.Missed, gap.TakenBack = window.Missed(), window.TakenBack()
	}
	return &GapError{gap}
}

// isGap is true for the refusals of a position outside the window, the end of which may have been lost. The others,
// such as a cursor of another stream, are mistakes that must not be passed over.
func isGap(code string) bool {
	switch problem.Code(code) {
	case problem.CodeCursorExpired, problem.CodeEpochChanged, problem.CodeCursorAhead:
		return true
	}
	return false
}
