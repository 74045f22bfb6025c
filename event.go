package reprise

import (
	"bytes"
	"fmt"
	"time"
	"unicode/utf8"
)

// Event is one thing that happened in a stream.
//
// An Event that a Reader yields shares its Data with other readers. The caller may keep it for any time and must not
// change it.
type Event struct {
	// Seq numbers the events of one epoch of a stream: 1, 2, 3, ... without
	// holes. Append assigns it and ignores the value of the caller.
	Seq uint64
	// Time is when the event was generated, in milliseconds. Append replaces
	// the zero Time by the current time.
	Time time.Time
	// Type is 1 to 64 bytes of letters, digits, '.', '_' and '-', for example
	// "stdout". An empty Type is appended as "message", as in the HTML standard.
	// "end", "gap", "error" and "open" are reserved.
	Type string
	// Data is the payload. Append copies it.
	Data []byte
	// Format says how Data is shown as JSON.
	Format Format
}

// Event types with a special meaning.
const (
	// TypeMessage is the type of an event that is appended without a type.
	TypeMessage = "message"
	// TypeEnd is the type of the last event of a stream; Stream.End appends it.
	TypeEnd = "end"
	// TypeGap is the type of the notice that tells a reader which events are
	// no longer available. It is never stored.
	TypeGap = "gap"
	// TypeCursor is the type of the notice that moves the cursor of a filtered reader, if the reader asks for such
	// events. It is never stored and has no seq. Users may append events of the same type, which have a seq.
	TypeCursor = "cursor"
	// TypeError and TypeOpen cannot be appended. An EventSource fires its own events under these names, so a page
	// could not distinguish an appended event from a lost connection.
	TypeError = "error"
	TypeOpen  = "open"
)

// Format says how the data of an event appears in its JSON form,
// {"seq":7,"time":"...", ...}; see Event.AppendJSON.
type Format uint8

const (
	// FormatBytes is arbitrary bytes. They appear as the member "text" if
	// they are valid UTF-8, and as "base64" otherwise.
	FormatBytes Format = iota
	// FormatJSON is one JSON value without line breaks. It appears as the member "data". It
	// is not parsed: the caller of Append guarantees that it is valid.
	FormatJSON
	// FormatMembers is a JSON object without line breaks. Its members
	// appear beside "seq" and "time".
	FormatMembers
)

// maxTypeBytes is the maximum length of Event.Type.
const maxTypeBytes = 64

// checkEvent returns an error if e must not be appended. end is true for the end event.
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
	if r, ok := foreignRune(t); ok {
		return fmt.Errorf("%w: event type %q holds %q", ErrInvalid, t, r)
	}
	if t == TypeGap || t == TypeError || t == TypeOpen || t == TypeEnd && !end {
		return fmt.Errorf("%w: event type %q is taken", ErrInvalid, t)
	}
	return nil
}

// foreignRune returns the first character that a name may not have, if there is one. Bytes that are not UTF-8 count as
// U+FFFD.
func foreignRune[T ~string](name T) (rune, bool) {
	for _, r := range name {
		if r >= utf8.RuneSelf || !isNameByte(byte(r)) {
			return r, true
		}
	}
	return 0, false
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '.' || c == '_' || c == '-'
}
