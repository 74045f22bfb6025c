package ssehttp

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"reprise"
	"reprise/problem"
)

// Form is what a response that follows a stream looks like on the wire. Its values are compared
// with ==, see reprise.Encoder, whose AppendEvent makes the frame of an event. Each method appends to dst.
type Form interface {
	reprise.Encoder
	ContentType() string
	// AppendGap appends the notice of what cannot be had any more.
	AppendGap(dst []byte, gap Gap) []byte
	// AppendMove appends what moves the reader's cursor to c without an event.
	AppendMove(dst []byte, c reprise.Cursor) []byte
	// AppendHeartbeat appends something without a meaning.
	AppendHeartbeat(dst []byte) []byte
	// AppendRetry appends for how long to wait before coming back after a drop, if
	// the form has a way to say so.
	AppendRetry(dst []byte, after time.Duration) []byte
}

// Gap tells, as an event, what cannot be had any more. The stream goes on after Earliest.
type Gap struct {
	Code     string `json:"code"`
	Earliest string `json:"earliest"`
	Tail     string `json:"tail"`
	// Missed is the number of events that are missing, where it is known.
	Missed uint64 `json:"missed"`
}

// NewGap makes the notice of a refused position, for a reader of that stream which goes on
// after at. The window may have moved since the refusal, so at decides what is missing.
func NewGap(reader *reprise.Reader, refusal error, at reprise.Cursor) Gap {
	gap := Gap{
		Code:     string(problem.From(refusal).Code),
		Earliest: at.String(),
		Tail:     reader.Stream().Cursor(reader.Info().Tail).String(),
	}
	if window, ok := errors.AsType[*reprise.WindowError](refusal); ok && window.Reason == reprise.CursorExpired {
		gap.Missed = at.Seq - window.Asked.Seq
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
	dst = append(dst, "id: "+gap.Earliest+"\nevent: "+reprise.TypeGap+"\ndata: "...)
	return append(append(dst, data...), "\n\n"...)
}

// AppendMove implements Form: a frame with nothing but an id dispatches no event.
func (EventStream) AppendMove(dst []byte, c reprise.Cursor) []byte {
	return append(c.Append(append(dst, "id: "...)), "\n\n"...)
}

// AppendHeartbeat implements Form: a comment.
func (EventStream) AppendHeartbeat(dst []byte) []byte { return append(dst, ":\n\n"...) }

// AppendRetry implements Form.
func (EventStream) AppendRetry(dst []byte, after time.Duration) []byte {
	dst = strconv.AppendInt(append(dst, "retry: "...), after.Milliseconds(), 10)
	return append(dst, "\n\n"...)
}
