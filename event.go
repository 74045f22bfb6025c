package reprise

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"sync/atomic"
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
	// TypeGap is the type of the notice that names for a reader the events are
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

// endEvents returns a copy of events whose last one is the end of a stream.
func endEvents(outcome string, events []Event) ([]Event, *End) {
	events = slices.Clone(events)
	last := len(events) - 1
	event, end := endEvent(outcome, events[last])
	events[last] = event
	return events, end
}

// endEvent returns event as the end of a stream.
func endEvent(outcome string, event Event) (Event, *End) {
	event.Type = TypeEnd
	if event.Time.IsZero() {
		event.Time = now()
	}
	event.Time = time.UnixMilli(event.Time.UnixMilli()).UTC() // in the precision that is stored
	return event, &End{Outcome: outcome, Time: event.Time, Data: append([]byte(nil), event.Data...)}
}

func checkOutcome(outcome string) error {
	if outcome == "" || len(outcome) > maxTypeBytes {
		return fmt.Errorf("%w: an outcome is 1 to %d bytes long", ErrInvalid, maxTypeBytes)
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

// AppendJSON appends the JSON form of e to dst, without a line break:
//
//	{"seq":7,"time":"2026-11-20T09:30:00.000Z","text":"hello\n"}
//
// with "base64" in place of "text" for bytes that are not valid UTF-8, "data"
// for FormatJSON, and the members of the object for FormatMembers. The
// type is not part of it; it stands beside it in every wire format. The characters that some readers
// take for line breaks are escaped, see AppendJSONLine.
func (e *Event) AppendJSON(dst []byte) []byte {
	return append(e.AppendMembers(append(dst, '{')), '}')
}

// AppendMembers appends the text between the braces of AppendJSON.
func (e *Event) AppendMembers(dst []byte) []byte {
	dst = append(dst, `"seq":`...)
	dst = strconv.AppendUint(dst, e.Seq, 10)
	dst = append(dst, `,"time":"`...)
	dst = appendTime(dst, e.Time)
	switch e.Format {
	case FormatJSON:
		dst = append(dst, `","data":`...)
		return AppendJSONLine(dst, e.Data)
	case FormatMembers:
		dst = append(dst, '"')
		if members := bytes.Trim(e.Data[1:len(e.Data)-1], " \t"); len(members) > 0 {
			dst = append(dst, ',')
			dst = AppendJSONLine(dst, members)
		}
		return dst
	}
	ascii := isASCII(e.Data)
	if !ascii && !utf8.Valid(e.Data) {
		dst = append(dst, `","base64":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, e.Data)
		return append(dst, '"')
	}
	dst = append(dst, `","text":"`...)
	if ascii || !hasSeparator(e.Data) {
		dst = appendEscaped(dst, e.Data)
	} else {
		dst = appendSeparated(dst, e.Data, appendEscaped)
	}
	return append(dst, '"')
}

// AppendJSONLine appends text, which must be valid JSON, and escapes U+0085, U+2028 and U+2029. JSON allows them
// unescaped in strings, but readers that split lines like Python's str.splitlines fail on them.
func AppendJSONLine(dst, text []byte) []byte {
	if isASCII(text) || !hasSeparator(text) {
		return append(dst, text...)
	}
	return appendSeparated(dst, text, func(dst, part []byte) []byte { return append(dst, part...) })
}

// The UTF-8 prefixes of U+2028 and U+2029, and of U+0085. Much punctuation has the same prefix as the former.
var general, nextLine = []byte("\u2028")[:2], []byte("\u0085")

// isASCII reports whether all bytes of b are ASCII.
func isASCII(b []byte) bool {
	const highs = 0x8080808080808080
	for ; len(b) >= 32; b = b[32:] {
		w := b[:32]
		if (binary.LittleEndian.Uint64(w)|binary.LittleEndian.Uint64(w[8:])|
			binary.LittleEndian.Uint64(w[16:])|binary.LittleEndian.Uint64(w[24:]))&highs != 0 {
			return false
		}
	}
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b)&highs != 0 {
			return false
		}
	}
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// hasSeparator reports whether text may contain U+0085, U+2028 or U+2029. It is fast for text without them.
func hasSeparator(text []byte) bool {
	return bytes.Contains(text, general) || bytes.Contains(text, nextLine)
}

// appendSeparated appends text with plain, except U+0085, U+2028 and U+2029, which it appends as JSON escapes.
func appendSeparated(dst, text []byte, plain func(dst, part []byte) []byte) []byte {
	for {
		n, escape, size := separator(text)
		dst = plain(dst, text[:n])
		if size == 0 {
			return dst
		}
		dst = append(dst, escape...)
		text = text[n+size:]
	}
}

// separator returns the index of the first U+0085, U+2028 or U+2029 in text, its escape and its size in text. If there
// is none, the size is 0 and the index the length of text.
func separator(text []byte) (n int, escape string, size int) {
	for i := 0; i < len(text)-1; i++ {
		switch {
		case text[i] == 0xE2 && text[i+1] == 0x80 && i+2 < len(text) && text[i+2]&^1 == 0xA8:
			return i, [...]string{`\u2028`, `\u2029`}[text[i+2]&1], 3
		case text[i] == 0xC2 && text[i+1] == 0x85:
			return i, `\u0085`, 2
		}
	}
	return len(text), "", 0
}

// appendTime appends t as RFC 3339 in UTC with milliseconds.
func appendTime(dst []byte, t time.Time) []byte {
	unix := t.Unix()
	s := lastSecond.Load()
	if s == nil || s.unix != unix {
		s = &second{unix: unix, text: t.UTC().AppendFormat(nil, "2006-01-02T15:04:05.")}
		lastSecond.Store(s)
	}
	ms := t.Nanosecond() / 1e6
	dst = append(dst, s.text...)
	return append(dst, byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

// lastSecond is the second of the last appended time. Consecutive events mostly share it, and computing it takes ten
// times as long as the rest.
var lastSecond atomic.Pointer[second]

type second struct {
	unix int64
	text []byte // including the dot before the milliseconds
}

// appendEscaped appends text as the inside of a JSON string (RFC 8259, section 7). text must be valid UTF-8. It copies
// eight bytes at a time, since in text with many quotes, such as JSON, the next escape is a few bytes away.
func appendEscaped(dst, text []byte) []byte {
	plain := 4 // consecutive words without an escape; plain text mostly stays plain
	for len(text) >= 8 {
		if plain >= 4 && len(text) >= 32 {
			plain = 0
			n := plainBlocks(text)
			dst, text = append(dst, text[:n]...), text[n:]
			continue
		}
		if cap(dst)-len(dst) < 8+maxEscape {
			dst = slices.Grow(dst, len(text)+8+maxEscape)
		}
		found := special(text)
		copied := dst[len(dst) : len(dst)+8]
		binary.LittleEndian.PutUint64(copied, binary.LittleEndian.Uint64(text))
		if found == 0 {
			dst, text = dst[:len(dst)+8], text[8:]
			plain++
			continue
		}
		plain = 0
		n := bits.TrailingZeros64(found) / 8
		dst = appendEscape(dst[:len(dst)+n], text[n])
		text = text[n+1:]
	}
	for _, c := range text {
		if c < 0x20 || c == '"' || c == '\\' {
			dst = appendEscape(dst, c)
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

// maxEscape is the length of the longest escape.
const maxEscape = len(`\u001f`)

// appendEscape appends c, which JSON does not allow unescaped in a string.
func appendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// plainBlocks returns the length of the longest prefix of whole blocks of 32 bytes that needs no escape.
func plainBlocks(b []byte) int {
	n := 0
	for ; len(b)-n >= 32; n += 32 {
		w := b[n : n+32]
		if special(w)|special(w[8:])|special(w[16:])|special(w[24:]) != 0 {
			break
		}
	}
	return n
}

// special tests eight bytes at once and returns 0 if none of them needs an escape. Otherwise its lowest set bit is the
// highest bit of the first such byte; higher bits may belong to others.
func special(b []byte) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	w := binary.LittleEndian.Uint64(b)
	quote := w ^ ones*'"'
	slash := w ^ ones*'\\'
	// A byte of x is below v where (x - v*ones) &^ x has its high bit set, for v <= 128.
	return ((w-ones*0x20)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & highs
}
