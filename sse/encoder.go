package sse

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// AppendEvent appends e as one block. With nil Data it is a bare id, which moves the
// reader's cursor and dispatches nothing.
//
// The id is the last field: some readers resume after an id as soon as its line has come, and would lose the event of a
// block that is cut after it.
//
// Data may contain line breaks: each line becomes a field. The standard has no
// way to write CR, so CR and CRLF are read as LF. An ID that contains CR, LF
// or NUL, and a Type that contains CR or LF, are omitted, because they
// would end the field early and let their author forge other fields.
func AppendEvent(dst []byte, e Event) []byte {
	if e.Type != "" && e.Type != TypeMessage && isLine(e.Type) {
		dst = append(dst, "event: "...)
		dst = append(dst, e.Type...)
		dst = append(dst, '\n')
	}
	if e.Data != nil {
		dst = appendLines(dst, "data: ", e.Data)
	}
	if e.ID != "" && isLine(e.ID) && strings.IndexByte(e.ID, 0) < 0 {
		dst = append(dst, "id: "...)
		dst = append(dst, e.ID...)
		dst = append(dst, '\n')
	}
	return append(dst, '\n')
}

// AppendComment appends text as a comment, one comment line per line of text. Comments keep a
// connection alive; they dispatch nothing and move no cursor. No empty line follows, because
// some readers dispatch an empty event for a block of comments.
func AppendComment(dst []byte, text string) []byte {
	return appendLines(dst, ": ", []byte(text))
}

// AppendRetry appends the time that a client should wait before it reconnects, truncated
// to milliseconds. A negative time is written as 0. The line takes effect at once. Like a comment,
// it is not followed by an empty line.
func AppendRetry(dst []byte, wait time.Duration) []byte {
	dst = append(dst, "retry: "...)
	dst = strconv.AppendInt(dst, max(wait.Milliseconds(), 0), 10)
	return append(dst, '\n')
}

// isLine is true for a text without a line break.
func isLine(s string) bool {
	return strings.IndexByte(s, '\n') < 0 && strings.IndexByte(s, '\r') < 0
}

// appendLines appends each line of text behind prefix.
func appendLines(dst []byte, prefix string, text []byte) []byte {
	for {
		dst = append(dst, prefix...)
		n := lineEnd(text)
		if n < 0 {
			dst = append(dst, text...)
			return append(dst, '\n')
		}
		dst = append(dst, text[:n]...)
		dst = append(dst, '\n')
		if text[n] == '\r' && n+1 < len(text) && text[n+1] == '\n' {
			n++
		}
		text = text[n+1:]
	}
}

// lineEnd is the index of the first CR or LF, -1 where there is none. Two
// vectorised searches beat one byte at a time; they go step by step, so that a text
// full of CR does not make each of them search all the rest for LF.
func lineEnd(b []byte) int {
	const step = 4 << 10
	for from := 0; from < len(b); from += step {
		part := b[from:min(from+step, len(b))]
		lf := bytes.IndexByte(part, '\n')
		if lf >= 0 {
			part = part[:lf]
		}
		if cr := bytes.IndexByte(part, '\r'); cr >= 0 {
			return from + cr
		}
		if lf >= 0 {
			return from + lf
		}
	}
	return -1
}
