package mcphttp

import (
	"crypto/rand"
	"strconv"
	"strings"
	"unicode/utf8"

	"reprise"
)

// The types of the events of a stream. A message that is too long for one event is several of
// them, which are appended together: a first, any number of middles and a last. The end event holds
// the last message where that is short, and nothing otherwise.
const (
	typeMessage = reprise.TypeMessage
	typeFirst   = "first"
	typeMiddle  = "middle"
	typeLast    = "last"
)

const (
	// maxEvent bounds the data of an event. A Log takes 1 MiB where nothing else is said.
	maxEvent = 512 << 10
	// maxEndData bounds the message in an end event, which is kept in memory with the stream.
	maxEndData = 4 << 10
)

// messageEvents are the events that a message becomes.
func messageEvents(message []byte) []reprise.Event {
	if len(message) <= maxEvent {
		return []reprise.Event{{Data: message, Format: reprise.FormatJSON}}
	}
	part, rest := cutPart(message)
	events := []reprise.Event{{Type: typeFirst, Data: part}}
	for len(rest) > maxEvent {
		part, rest = cutPart(rest)
		events = append(events, reprise.Event{Type: typeMiddle, Data: part})
	}
	return append(events, reprise.Event{Type: typeLast, Data: rest})
}

// cutPart cuts the first part off a message that is too long for one event. It cuts between characters, so that each
// part can be escaped alone.
func cutPart(message []byte) (part, rest []byte) {
	n := maxEvent
	for n > maxEvent-utf8.UTFMax && !utf8.RuneStart(message[n]) {
		n--
	}
	return message[:n], message[n:]
}

// form is the encoding of the events of a stream on the wire. All responses with the stream share it, so that the Log
// keeps the encoded events.
type form struct {
	exchange string // the name of the stream in its session
}

// AppendEvent implements reprise.Encoder. The id is the last field of a message, also of one of several events: only
// then may a client come back after it, and some do so as soon as its line has come.
func (f form) AppendEvent(dst []byte, e *reprise.Event, cursorSuffix string) []byte {
	switch e.Type {
	case typeMessage, reprise.TypeEnd:
		if len(e.Data) == 0 {
			return dst
		}
		return f.appendLast(append(dst, messageStart...), e, cursorSuffix)
	case typeFirst:
		return reprise.AppendJSONLine(append(dst, messageStart...), e.Data)
	case typeMiddle:
		return reprise.AppendJSONLine(dst, e.Data)
	case typeLast:
		return f.appendLast(dst, e, cursorSuffix)
	}
	return dst
}

// messageStart is the beginning of the block of a message.
const messageStart = "event: message\ndata: "

// appendLast appends the data of e and the end of the block.
func (f form) appendLast(dst []byte, e *reprise.Event, cursorSuffix string) []byte {
	dst = append(reprise.AppendJSONLine(dst, e.Data), "\nid: "...)
	return append(f.appendID(dst, e.Seq, cursorSuffix), "\n\n"...)
}

// appendID appends the id of the event seq: the name of the stream and the cursor after it.
func (f form) appendID(dst []byte, seq uint64, cursorSuffix string) []byte {
	dst = append(dst, f.exchange...)
	dst = append(dst, '~')
	dst = strconv.AppendUint(dst, seq, 10)
	return append(dst, cursorSuffix...)
}

// eventID is the id of the position c.
func (f form) eventID(c reprise.Cursor) string { return f.exchange + "~" + c.String() }

// maxEventID bounds a Last-Event-ID: the name of a stream and a cursor.
const maxEventID = 128

// parseEventID is the inverse of form.eventID. It checks the form alone. The error is reprise.ErrCursorMalformed.
func parseEventID(id string) (exchange string, c reprise.Cursor, err error) {
	exchange, text, ok := strings.Cut(id, "~")
	if !ok || len(id) > maxEventID || !isExchange(exchange) {
		return "", reprise.Cursor{}, reprise.ErrCursorMalformed
	}
	c, err = reprise.ParseCursor(text)
	return exchange, c, err
}

// isExchange reports whether s may name the stream of an exchange, as randomName makes them, or is standalone.
func isExchange(s string) bool {
	if s == standalone {
		return true
	}
	return len(s) == exchangeName && isRandomText(s)
}

const (
	// standalone is the name of the stream of the session as a whole.
	standalone = "0"
	// exchangeName and sessionName are the lengths of random names, of five bits a letter.
	exchangeName, sessionName = 13, 26
)

// randomText is a random name of n letters and digits, at most 26.
func randomText(n int) string { return rand.Text()[:n] }

// isRandomText reports whether s may come from randomText.
func isRandomText(s string) bool {
	for i := range len(s) {
		if (s[i] < 'A' || s[i] > 'Z') && (s[i] < '2' || s[i] > '7') {
			return false
		}
	}
	return true
}
