package ssehttp

import (
	"bytes"
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
	// AppendGap appends the notice about events that are no longer available.
	AppendGap(dst []byte, gap Gap) []byte
	// AppendMove appends a block that moves the reader's cursor to c: an event of reprise.TypeCursor if asEvent is
	// true, and otherwise a block without an event.
	AppendMove(dst []byte, c reprise.Cursor, asEvent bool) []byte
	// AppendHeartbeat appends bytes without a meaning.
	AppendHeartbeat(dst []byte) []byte
	// AppendRetry appends how long to wait before reconnecting after a drop, if
	// the form can express it.
	AppendRetry(dst []byte, after time.Duration) []byte
}

// Gap is the data of the event that describes the events that a reader misses. The stream continues after Cursor.
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

// NewGap makes the notice of a refused position, for a reader of that stream which continues
// after at. The window may have moved since the refusal, so at decides which events are missing.
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

// EventStream is text/event-stream, as the HTML standard (section 9.2) defines it. The id of an event
// is the cursor, and the data is its JSON form. The id is the last field of a block: some readers resume after an id as
// soon as its line has come, and would lose the event of a block that is cut after it.
type EventStream struct{}

// ContentType implements Form.
func (EventStream) ContentType() string { return "text/event-stream" }

// AppendEvent implements reprise.Encoder.
func (EventStream) AppendEvent(dst []byte, e *reprise.Event, cursorSuffix string) []byte {
	dst = append(dst, "event: "...)
	dst = append(dst, e.Type...)
	dst = append(dst, "\ndata: "...)
	seq := len(dst) + len(`{"seq":`)
	dst = e.AppendJSON(dst)
	digits := dst[seq : seq+bytes.IndexByte(dst[seq:], ',')] // the seq is not formatted twice
	dst = append(dst, "\nid: "...)
	dst = append(dst, digits...)
	dst = append(dst, cursorSuffix...)
	return append(dst, "\n\n"...)
}

// AppendGap implements Form.
func (EventStream) AppendGap(dst []byte, gap Gap) []byte {
	data, err := json.Marshal(gap)
	if err != nil {
		panic(err) // strings and a number
	}
	dst = append(dst, "event: "+reprise.TypeGap+"\ndata: "...)
	return append(append(dst, data...), "\nid: "+gap.Cursor+"\n\n"...)
}

// AppendMove implements Form. By the standard a block with nothing but an id dispatches no event. Some readers dispatch
// an empty event for it; they can ask for an event with type and data instead.
func (EventStream) AppendMove(dst []byte, c reprise.Cursor, asEvent bool) []byte {
	if asEvent {
		dst = append(dst, "event: "+reprise.TypeCursor+"\ndata: {\"cursor\":\""...)
		dst = append(c.Append(dst), "\"}\n"...)
	}
	return append(c.Append(append(dst, "id: "...)), "\n\n"...)
}

// AppendHeartbeat implements Form: it appends a comment as a line of the next block. An empty line would make some
// readers dispatch an empty event.
func (EventStream) AppendHeartbeat(dst []byte) []byte { return append(dst, ":\n"...) }

// AppendRetry implements Form: it appends a line that takes effect at once and is part of the next block.
func (EventStream) AppendRetry(dst []byte, after time.Duration) []byte {
	return append(strconv.AppendInt(append(dst, "retry: "...), after.Milliseconds(), 10), '\n')
}
