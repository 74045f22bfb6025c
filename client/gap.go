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

// Gap reports that the stream cannot continue at the cursor.
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

// gap handles the notice that the events after the cursor are gone.
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
	f.track.begin(event.Cursor)
	return f.give(ctx, event)
}

// afterGap returns the position from which the stream continues: the cursor of the gap, or the fork if that is later.
// The events up to the fork were received in the previous epoch.
func afterGap(event Event) string {
	next, err := reprise.ParseCursor(event.Cursor)
	fork, forkErr := reprise.ParseCursor(event.Gap.Fork)
	if err == nil && forkErr == nil && fork.Epoch == next.Epoch && fork.Seq > next.Seq {
		return event.Gap.Fork
	}
	return event.Cursor
}

// missingStart returns the gap before the first event of a reader that wants all events, or nil if there is none. The
// server reports this gap only with gap=event, and older servers never do.
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

// filteredStart is missingStart for a reader of some types. The first seq of such a reader proves nothing, so
// filteredStart uses the begin of the stream from the header of the answer. A server that sends Stream-Missed reports
// the gap by an event to a reader that asks for it.
func (f *follower) filteredStart(head http.Header) *Event {
	earliest := head.Get("Stream-Earliest")
	c, err := reprise.ParseCursor(earliest)
	if f.opts.OnGap == GapYield && head.Get("Stream-Missed") != "" && f.start == nil {
		return nil
	}
	if !f.fromFirst || f.track.cursor != "" || !f.track.filtered || err != nil || c.Seq == 0 {
		return nil
	}
	return startGap(earliest, c.Seq, time.Time{})
}

// startGap returns an event in the form that the server uses.
func startGap(earliest string, missed uint64, at time.Time) *Event {
	gap := &Gap{Code: string(problem.CodeCursorExpired), Earliest: earliest, Missed: missed}
	data, _ := json.Marshal(gap) // strings and numbers
	return &Event{Type: reprise.TypeGap, Cursor: earliest, Time: at, Data: data, IsJSON: true, Gap: gap}
}

// asGap converts a refused cursor into a *GapError: with GapFail, the server reports a gap as a status.
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

// isGap reports whether code refuses a position outside the window, whose end may have been lost. Other refusals, such
// as a cursor of another stream, are errors of the caller and must not be skipped.
func isGap(code string) bool {
	switch problem.Code(code) {
	case problem.CodeCursorExpired, problem.CodeEpochChanged, problem.CodeCursorAhead:
		return true
	}
	return false
}
