package reprise

import (
	"bytes"
	"fmt"
	"time"
)

// Event is one thing that happened in a stream.
//
// An Event that a Reader yields shares its Data with other readers: it may be
// kept for as long as wanted and must not be changed.
type Event struct {
	// Seq numbers the events of one epoch of a stream: 1, 2, 3, ... with no
	// number left out. Append gives it; what a caller puts there is ignored.
	Seq uint64
	// Time is when the event was generated, kept with milliseconds. Append
	// fills in the present time where it is zero.
	Time time.Time
	// Type is 1 to 64 bytes of letters, digits, '.', '_' and '-', for example
	// "stdout". An empty Type is appended as "message", as in the HTML standard.
	// "end" and "gap" are taken.
	Type string
	// Data is the payload. Append copies it.
	Data []byte
	// Format says how Data is shown as JSON.
	Format Format
}

// The types with a meaning of their own.
const (
	// TypeMessage is the type of an event that names none.
	TypeMessage = "message"
	// TypeEnd is the type of the last event of a stream; Stream.End appends it.
	TypeEnd = "end"
	// TypeGap is the type of the notice that tells a reader what it cannot
	// get any more. It is never stored.
	TypeGap = "gap"
	// TypeCursor is the type of the notice that moves a filtered reader's cursor, for readers that
	// ask for events of it. It is never stored and has no seq; users may append events of the same type, which have
	// one.
	TypeCursor = "cursor"
	// TypeError and TypeOpen cannot be appended: an EventSource fires handlers of its own under these names, and a
	// page could not tell an event from a lost connection.
	TypeError = "error"
	TypeOpen  = "open"
)

// Format says how the data of an event is shown in its JSON form, which is
// {"seq":7,"time":"...", ...} (see Event.AppendJSON).
type Format uint8

const (
	// FormatBytes is any bytes. They are shown as the member "text" if they
	// are valid UTF-8 and as "base64" if not.
	FormatBytes Format = iota
	// FormatJSON is one JSON value without line breaks, shown as the member "data". It
	// is not parsed: the caller of Append guarantees that it is valid.
	FormatJSON
	// FormatMembers is a JSON object without line breaks, whose members are
	// shown beside "seq" and "time".
	FormatMembers
)

// maxTypeBytes bounds Event.Type, inclusive.
const maxTypeBytes = 64

// checkEvent says whether e may be appended. end is true for the end event.
func checkEvent(e *Event, maxBytes int, end bool) error {
	if err := checkType(e.Type, end); err != nil {
		return err
	}
	if len(e.Data) > maxBytes {
		return fmt.Errorf("%w: an event of %d bytes, at most %d are taken", ErrInvalid, len(e.Data), maxBytes)
	}
	switch e.Format {
	case FormatBytes:
		return nil
	case FormatJSON, FormatMembers:
		if bytes.IndexByte(e.Data, '\n') >= 0 || bytes.IndexByte(e.Data, '\r') >= 0 {
			return fmt.Errorf("%w: JSON data with a line break", ErrInvalid)
		}
		if len(e.Data) == 0 || e.Format == FormatMembers && !isBraced(e.Data) {
			return fmt.Errorf("%w: data is not of the stated JSON format", ErrInvalid)
		}
		return nil
	}
	return fmt.Errorf("%w: unknown format %d", ErrInvalid, e.Format)
}

func isBraced(b []byte) bool { return len(b) >= 2 && b[0] == '{' && b[len(b)-1] == '}' }

func checkType(t string, end bool) error {
	if len(t) > maxTypeBytes {
		return fmt.Errorf("%w: an event type of %d bytes, at most %d are taken", ErrInvalid, len(t), maxTypeBytes)
	}
	for i := range len(t) {
		if !isNameByte(t[i]) {
			return fmt.Errorf("%w: event type %q holds %q", ErrInvalid, t, t[i])
		}
	}
	if t == TypeGap || t == TypeError || t == TypeOpen || t == TypeEnd && !end {
		return fmt.Errorf("%w: event type %q is taken", ErrInvalid, t)
	}
	return nil
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '.' || c == '_' || c == '-'
}
