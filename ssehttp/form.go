package ssehttp

import (
	"encoding/json"
	"strconv"
	"time"

	"reprise"
)

// Form is what a response that follows a stream looks like on the wire. Its values are compared
// with ==, see reprise.Encoder, whose AppendEvent makes the frame of an event. Each method appends to dst.
type Form interface {
	reprise.Encoder
	ContentType() string
	// AppendGap appends the notice of what cannot be had any more.
	AppendGap(dst []byte, gap Gap) []byte
	// AppendMove appends what moves the reader's cursor to c: an event of reprise.TypeCursor if asEvent is true, else
	// something that is no event.
	AppendMove(dst []byte, c reprise.Cursor, asEvent bool) []byte
	// AppendHeartbeat appends something without a meaning.
	AppendHeartbeat(dst []byte) []byte
	// AppendRetry appends for how long to wait before coming back after a drop, if
	// the form has a way to say so.
	AppendRetry(dst []byte, after time.Duration) []byte
}

// Gap is the data of the event that tells which events a reader does not get. The stream goes on after Cursor.
type Gap struct {
	// Cursor is Fork for an epoch that has changed, if the events after it are still kept, and otherwise Earliest. It
	// is the id of the event.
	Cursor string `json:"-"`
	// Code is cursor_expired, cursor_ahead or epoch_changed.
	Code     string `json:"code"`
	Earliest string `json:"earliest"`
	Tail     string `json:"tail"`
	// Fork is the cursor up to which the stream shares the history of the refused cursor. It is set with epoch_changed.
	Fork string `json:"fork,omitempty"`
	// Missed is the number of events after the refused cursor, or after Fork, that are no longer kept.
	Missed uint64 `json:"missed"`
	// TakenBack is the number of events up to the refused cursor that no longer exist.
	TakenBack uint64 `json:"taken_back,omitempty"`
}

// NewGap makes the notice of a refused position, for a reader of that stream which goes on
// after at. The window may have moved since the refusal, so at decides what is missing.
func NewGap(reader *reprise.Reader, refused *reprise.WindowError, at reprise.Cursor) Gap {
	info, stream := reader.Info(), reader.Stream()
	gap := Gap{
		Cursor: at.String(), Code: refused.Reason.String(),
		Earliest: at.String(), Tail: stream.Cursor(info.Tail).String(),
	}
	switch refused.Reason {
	case reprise.CursorExpired:
		gap.Missed = at.Seq - refused.Asked.Seq
	case reprise.EpochChanged:
		gap.Earliest, gap.Fork = stream.Cursor(info.Earliest-1).String(), refused.Fork.String()
		gap.Missed, gap.TakenBack = at.Seq-min(at.Seq, refused.Fork.Seq), refused.TakenBack()
	}
	return gap
}

// EventStream is text/event-stream, as the HTML standard (section 9.2) has it: an id
// that is the cursor, the type of the event, and its JSON form as data.
type EventStream struct{}

// ContentType implements Form.
func (EventStream) ContentType() string { return "text/event-stream" }

// AppendEvent implements reprise.Encoder.
func (EventStream) AppendEvent(dst []byte, e *reprise.Event, cursorSuffix string) []byte {
	dst = append(dst, "id: "...)
	dst = strconv.AppendUint(dst, e.Seq, 10)
	dst = append(dst, cursorSuffix...)
	dst = append(dst, "\nevent: "...)
	dst = append(dst, e.Type...)
	dst = append(dst, "\ndata: "...)
	dst = e.AppendJSON(dst)
	return append(dst, "\n\n"...)
}

// AppendGap implements Form.
func (EventStream) AppendGap(dst []byte, gap Gap) []byte {
	data, err := json.Marshal(gap)
	if err != nil {
		panic(err) // strings and a number
	}
	dst = append(dst, "id: "+gap.Cursor+"\nevent: "+reprise.TypeGap+"\ndata: "...)
	return append(append(dst, data...), "\n\n"...)
}

// AppendMove implements Form. By the standard a block with nothing but an id dispatches no event; there are readers
// that dispatch an empty one, and can ask for an event that has a type and data.
func (EventStream) AppendMove(dst []byte, c reprise.Cursor, asEvent bool) []byte {
	dst = c.Append(append(dst, "id: "...))
	if asEvent {
		dst = append(dst, "\nevent: "+reprise.TypeCursor+"\ndata: {\"cursor\":\""...)
		dst = append(c.Append(dst), `"}`...)
	}
	return append(dst, "\n\n"...)
}

// AppendHeartbeat implements Form: a comment. It is a line of the block that comes next: there are readers that
// dispatch an empty event for each empty line.
func (EventStream) AppendHeartbeat(dst []byte) []byte { return append(dst, ":\n"...) }

// AppendRetry implements Form: a line that counts at once and belongs to the block that comes next, like a heartbeat.
func (EventStream) AppendRetry(dst []byte, after time.Duration) []byte {
	return append(strconv.AppendInt(append(dst, "retry: "...), after.Milliseconds(), 10), '\n')
}
