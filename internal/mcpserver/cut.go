package mcpserver

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"

	"reprise"
)

// clip keeps the beginning and the end of a channel, as much of each as may be shown of the whole.
type clip struct {
	limit int
	total int64
	head  []byte
	// tail is a ring of the newest bytes, once there were more than limit.
	tail []byte
	at   int
	// marks are where events begin: all of those in head, and then some, which are 1/512 of the output before them
	// apart, so that there are a few thousand.
	marks []mark
}

// mark records that the bytes from an offset on come after a seq.
type mark struct {
	offset int64
	after  uint64
}

func newClip(limit int) *clip { return &clip{limit: limit} }

// mark records where the event seq begins.
func (c *clip) mark(seq uint64) {
	if n := len(c.marks); n > 0 {
		last := c.marks[n-1]
		if last.after == seq-1 || len(c.head) == c.limit && c.total-last.offset <= c.total/512 {
			return
		}
	}
	c.marks = append(c.marks, mark{c.total, seq - 1})
}

// add takes the data of the event seq.
func (c *clip) add(seq uint64, data []byte) {
	c.mark(seq)
	c.total += int64(len(data))
	if len(c.head) < c.limit {
		n := min(c.limit-len(c.head), len(data))
		c.head = append(c.head, data[:n]...)
		data = data[n:]
	}
	if len(data) > c.limit {
		data = data[len(data)-c.limit:]
	}
	room := min(len(data), c.limit-len(c.tail))
	c.tail = append(c.tail, data[:room]...)
	data = data[room:]
	for len(data) > 0 {
		n := copy(c.tail[c.at:], data)
		data = data[n:]
		if c.at += n; c.at == len(c.tail) {
			c.at = 0
		}
	}
}

// last returns the newest n bytes of more than limit in all.
func (c *clip) last(n int) []byte {
	ordered := append(append([]byte{}, c.tail[c.at:]...), c.tail[:c.at]...)
	if missing := n - len(ordered); missing > 0 { // the tail is not full: the rest is in the head
		ordered = append(append([]byte{}, c.head[len(c.head)-missing:]...), ordered...)
	}
	return ordered[len(ordered)-n:]
}

// shown is the visible part of a channel.
type shown struct {
	// text is the output, or its beginning and end with a note between them.
	text string
	omission
}

// omission is output that is not shown.
type omission struct {
	// omitted is its number of bytes, and gone how many of them, from the first on, are no longer kept: up to 1/512 of
	// the output too many.
	omitted, gone int64
	// after is the seq from which the rest can be read.
	after uint64
}

// show cuts the output to n bytes. earliest is the seq of the first event that is kept. note returns the text that
// replaces the omitted bytes.
func (c *clip) show(n int, earliest uint64, note func(omission) string) (s shown) {
	if c.total <= int64(n) {
		s.text = string(c.head)
		return s
	}
	head := c.head[:n/2]
	head = head[:len(head)-cutRune(head)]
	tail := c.last(n - n/2)
	tail = tail[splitRune(tail):]
	s.omitted = c.total - int64(len(head)) - int64(len(tail))
	s.after = c.afterOf(int64(len(head)))
	if s.after+1 < earliest {
		s.after = earliest - 1
		s.gone = min(s.omitted, c.offsetOf(earliest)-int64(len(head)))
	}
	s.text = string(head) + note(s.omission) + string(tail)
	return s
}

// offsetOf returns the offset at which the event seq begins, or a higher one that has a mark.
func (c *clip) offsetOf(seq uint64) int64 {
	i := slices.IndexFunc(c.marks, func(m mark) bool { return m.after+1 >= seq })
	if i < 0 {
		return c.total
	}
	return c.marks[i].offset
}

// afterOf is the seq after which the event comes that holds the byte at an offset.
func (c *clip) afterOf(offset int64) uint64 {
	var after uint64
	for _, m := range c.marks {
		if m.offset > offset {
			break
		}
		after = m.after
	}
	return after
}

// cutRune returns the number of bytes at the end of b that begin an incomplete rune.
func cutRune(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// splitRune returns the number of bytes at the start of b that end a rune.
func splitRune(b []byte) int {
	for n := range min(utf8.UTFMax-1, len(b)) {
		if utf8.RuneStart(b[n]) {
			return n
		}
	}
	return min(utf8.UTFMax-1, len(b))
}

// isText reports whether data is UTF-8 without NUL.
func isText(data []byte) bool {
	return bytes.IndexByte(data, 0) < 0 && utf8.Valid(data)
}

// share divides limit between two channels of the given sizes. Each gets half, and the unused part of the other half.
func share(limit int, first, second int64) (int, int) {
	half := int64(limit / 2)
	switch {
	case first+second <= int64(limit):
		return int(first), int(second)
	case first <= half:
		return int(first), limit - int(first)
	case second <= half:
		return limit - int(second), int(second)
	}
	return limit - int(half), int(half)
}

// noteOfEvent is noteOf for an event that is longer than max_bytes, and has size bytes.
func noteOfEvent(stream *reprise.Stream, size int) func(omission) string {
	return func(o omission) string {
		return o.note(stream, fmt.Sprintf(" and max_bytes %d", max(size, minBytes)))
	}
}

// noteOf returns the function that makes the note for omitted output of an execution.
func noteOf(stream *reprise.Stream) func(omission) string {
	return func(o omission) string { return o.note(stream, "") }
}

// note is the text in place of the output. with is what get_execution_output needs besides the cursor to read it.
func (o *omission) note(stream *reprise.Stream, with string) string {
	switch o.gone {
	case 0:
		return fmt.Sprintf("\n[... %d bytes are left out here; get_execution_output with cursor %q%s reads them ...]\n",
			o.omitted, stream.Cursor(o.after), with)
	case o.omitted:
		return fmt.Sprintf("\n[... %d bytes are left out here, and are no longer kept ...]\n", o.omitted)
	}
	return fmt.Sprintf("\n[... %d bytes are left out here, of which the first %d are no longer kept; "+
		"get_execution_output with cursor %q%s reads the rest ...]\n",
		o.omitted, o.gone, stream.Cursor(o.after), with)
}
