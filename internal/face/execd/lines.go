package execd

import (
	"bytes"
	"unicode/utf8"
)

// maxLine is the length of a line from which on it is sent in pieces. A client in Go takes frames of 4 MiB, and a byte
// may become six in JSON.
const maxLine = 512 << 10

// lines cuts the bytes of one channel into lines, which end with LF, CR or CRLF. How the bytes come does not matter.
type lines struct {
	pending []byte
	// afterCR: the last byte was a CR, and an LF belongs to it. inLine: a piece of the pending line was sent before.
	afterCR, inLine bool
}

// feed calls line with each line that is complete, without its end.
func (l *lines) feed(data []byte, line func(text []byte)) {
	for len(data) > 0 {
		if l.afterCR && data[0] == '\n' {
			data = data[1:]
		}
		l.afterCR = false
		end := bytes.IndexAny(data, "\r\n")
		if room := maxLine - len(l.pending); end < 0 && len(data) < room {
			l.pending = append(l.pending, data...)
			return
		} else if end < 0 || end >= room {
			l.pending = append(l.pending, data[:room]...)
			data = data[room:]
			n := whole(l.pending)
			line(l.pending[:n])
			l.pending = append(l.pending[:0], l.pending[n:]...)
			l.inLine = true
			continue
		}
		l.pending = append(l.pending, data[:end]...)
		l.afterCR = data[end] == '\r'
		data = data[end+1:]
		if len(l.pending) > 0 || !l.inLine {
			line(l.pending)
		}
		l.pending, l.inLine = l.pending[:0], false
	}
}

// end calls line with what comes after the last end of a line.
func (l *lines) end(line func(text []byte)) {
	if len(l.pending) > 0 {
		line(l.pending)
	}
	l.pending = nil
}

// whole returns the length of text without the first bytes of a character at its end. Text that is not UTF-8 may be cut
// anywhere.
func whole(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if b := text[len(text)-n]; utf8.RuneStart(b) {
			if !utf8.FullRune(text[len(text)-n:]) {
				return len(text) - n
			}
			break
		}
	}
	return len(text)
}
