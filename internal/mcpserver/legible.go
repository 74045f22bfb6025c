package mcpserver

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// legible makes text of the output of a channel, which comes in pieces without escape sequences. Each byte that is not
// text becomes \xNN. A carriage return begins another state of its line, as in a progress bar: earlier states are shown
// if they are short, and counted otherwise. The zero value is ready.
type legible struct {
	total int64 // bytes
	odd   int64 // bytes that are not text

	at     uint64 // the seq of the event in which the line began
	line   []byte // the newest state of the line
	before []byte // its earlier states, each with a line feed, until they are long
	states int    // the number of earlier states
	cut    bool   // the beginning of the line was passed on
	cr     bool   // a carriage return may begin another state
	rest   []byte // the beginning of a rune
	restAt uint64 // the seq of the event that it is from
}

const (
	// pendingBytes is how much of a line is kept until it ends.
	pendingBytes = 4 << 10
	// beforeBytes is the length up to which earlier states of a line are shown.
	beforeBytes = 80
)

// emit takes text, which begins with output of the event seq. It must not retain it.
type emit func(seq uint64, text []byte)

// take adds the data of the event seq, and passes on the lines that have ended.
func (l *legible) take(seq uint64, data []byte, out emit) {
	l.total += int64(len(data))
	if len(l.rest) > 0 {
		seq, data = l.restAt, append(l.rest, data...)
		l.rest = nil
	}
	if n := cutRune(data); n > 0 {
		l.rest, l.restAt = bytes.Clone(data[len(data)-n:]), seq
		data = data[:len(data)-n]
	}
	if n := bytes.LastIndexByte(data, '\n') + 1; n > 0 && !l.pending() && !l.cr &&
		bytes.IndexByte(data[:n], '\r') < 0 && isText(data[:n]) {
		out(seq, data[:n])
		l.cut = false
		data = data[n:]
	}
	for len(data) > 0 {
		n := bytes.IndexAny(data, "\r\n")
		if n < 0 {
			l.text(seq, data, out)
			return
		}
		l.text(seq, data[:n], out)
		if data[n] == '\r' {
			l.cr = true
		} else {
			l.newline(seq, out)
		}
		data = data[n+1:]
	}
}

func (l *legible) pending() bool { return len(l.line) > 0 || l.states > 0 }

func (l *legible) text(seq uint64, data []byte, out emit) {
	switch {
	case len(data) == 0:
		return
	case l.cr && l.cut:
		l.newline(seq, out)
	case l.cr && len(l.line) > 0:
		l.states++
		if len(l.before) <= beforeBytes {
			l.before = append(append(l.before, l.line...), '\n')
		}
		l.line = l.line[:0]
	}
	l.cr = false
	if !l.pending() {
		l.at = seq
	}
	l.line = l.appendText(l.line, data)
	if len(l.line) > pendingBytes {
		l.pass(out)
	}
}

func (l *legible) newline(seq uint64, out emit) {
	if !l.pending() {
		l.at = seq
	}
	l.line = append(l.line, '\n')
	l.pass(out)
	l.cut, l.cr = false, false
}

// pass passes on the line as far as it is known.
func (l *legible) pass(out emit) {
	shown := l.before
	if len(shown) > beforeBytes {
		shown = fmt.Appendf(nil, "[%d overwritten states of this line are left out]\n", l.states)
	}
	if shown = append(shown, l.line...); len(shown) > 0 {
		out(l.at, shown)
		l.cut = true
	}
	l.line, l.before, l.states = l.line[:0], nil, 0
}

// flush passes on the line that has not ended. What comes next is another line.
func (l *legible) flush(out emit) {
	if rest := l.rest; len(rest) > 0 {
		l.rest = nil
		l.text(l.restAt, rest, out)
	}
	l.pass(out)
	l.cut, l.cr = false, false
}

// appendText appends data to line as text.
func (l *legible) appendText(line, data []byte) []byte {
	if isText(data) {
		return append(line, data...)
	}
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		if isOdd(r, n) {
			l.odd++
			line = fmt.Appendf(line, `\x%02x`, data[0])
		} else {
			line = append(line, data[:n]...)
		}
		data = data[n:]
	}
	return line
}

// isOdd reports whether a decoded rune is not text: NUL, or a byte that is not UTF-8.
func isOdd(r rune, size int) bool { return r == 0 || r == utf8.RuneError && size == 1 }

// binary reports whether the output is shown as its size alone.
func (l *legible) binary() bool { return mostlyOdd(l.odd, l.total) }

// mostlyOdd reports whether so many bytes are not text that it is not legible.
func mostlyOdd(odd, total int64) bool { return 4*odd > total }

// isBinary is binary for data alone, whose last rune may be incomplete.
func isBinary(data []byte) bool {
	data = data[:len(data)-cutRune(data)]
	if isText(data) {
		return false
	}
	var l legible
	l.appendText(nil, data)
	return mostlyOdd(l.odd, int64(len(data)))
}
