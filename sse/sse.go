// Package sse reads and writes text/event-stream, as defined in the HTML standard,
// section 9.2, "Server-sent events". It handles only bytes: no HTTP, no
// reconnecting, no meaning of an id.
//
// Writing appends to a slice and does not allocate:
//
//	buf = sse.AppendRetry(buf[:0], time.Second)
//	buf = sse.AppendEvent(buf, sse.Event{ID: "7", Type: "note", Data: []byte("hello")})
//	w.Write(buf)
//
// which is
//
//	retry: 1000
//	event: note
//	data: hello
//	id: 7
//
// Reading is a loop:
//
//	d := sse.NewDecoder(r, nil)
//	for {
//		event, err := d.Next()
//		if err != nil {
//			return err // io.EOF at the end of r, which is not the end of the stream
//		}
//		...
//	}
package sse

// ContentType is the media type of an event stream.
const ContentType = "text/event-stream"

// TypeMessage is the type of an event without an event field.
const TypeMessage = "message"

// Event is one block of an event stream.
type Event struct {
	// ID is the id field of the block, or "" if it has none. It cannot contain
	// CR, LF or NUL.
	ID string
	// Type is the event field. An empty Type is written as no field and read
	// as "message". It cannot contain CR or LF.
	Type string
	// Data is the contents of the data fields, joined by LF. It is nil for a block
	// without data fields: such a block dispatches nothing, but its ID counts.
	//
	// The Data that a Decoder returns is valid until its next call.
	Data []byte
	// LastEventID is the newest ID up to and including this block, which a client sends as
	// Last-Event-ID when it reconnects. Only a Decoder sets it.
	LastEventID string
}
