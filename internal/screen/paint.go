package screen

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Text returns the text on the screen, without colours, one line for each row, without empty lines at the end.
func (s *Screen) Text() string {
	lines := make([]string, s.rows)
	for y, l := range s.buffer.lines {
		lines[y] = l.text()
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// Paint returns what brings a terminal of the same size, whatever it shows, into the state of s. It is valid UTF-8 and
// asks the terminal nothing.
func (s *Screen) Paint() []byte {
	b := []byte("\x1b[?1049l\x1b[0m\x1b[?6l\x1b[4l\x1b[r\x1b(B\x0f\x1b[?25l\x1b[?7l\x1b[H\x1b[2J")
	b = s.paintBuffer(b, s.main)
	if s.Alternate() {
		b = s.saved[0].place(b)
		b = append(b, "\x1b[?1049h\x1b[0m\x1b[H\x1b[2J"...)
		b = s.paintBuffer(b, s.alt)
	}
	b = s.paintTabs(b)
	b = s.saved[s.screenIndex()].place(b)
	b = append(b, "\x1b7"...)
	if s.title != "" {
		b = append(b, "\x1b]2;"...)
		b = append(b, s.title...)
		b = append(b, '\a')
	}
	b = s.paintModes(b)
	return s.PaintCursor(b)
}

// printable drops characters that would end a title.
func printable(r rune) rune {
	if unicode.IsControl(r) {
		return -1
	}
	return r
}

// paintBuffer appends the lines, on an empty screen.
func (s *Screen) paintBuffer(b []byte, from *buffer) []byte {
	for y := range from.lines {
		b = s.paintLine(b, from, y)
	}
	return b
}

// PaintRow appends to b what draws a row of the screen again, on a terminal that shows s. PaintCursor has to follow.
func (s *Screen) PaintRow(b []byte, y int) []byte {
	b = append(b, "\x1b[?6l\x1b[4l\x1b[?7l\x1b(B\x0f"...)
	b = address(b, 0, y)
	b = append(b, "\x1b[0m\x1b[2K"...)
	return s.paintLine(b, s.buffer, y)
}

func (s *Screen) paintLine(b []byte, from *buffer, y int) []byte {
	l := from.lines[y]
	used := l.used()
	if used == 0 {
		return b
	}
	b = address(b, 0, y)
	now := pen{}
	b = append(b, "\x1b[0m"...)
	for _, c := range l[:used] {
		if c.r == spanned {
			continue
		}
		if c.pen != now {
			now = c.pen
			b = now.sequence(b)
		}
		b = append(b, c.text()...)
	}
	return append(b, "\x1b[0m"...)
}

// Run is text of one row that is drawn in one style.
type Run struct {
	Column, Width int    // in places
	Text          string // wide characters take two places
	Style         string // the parameters of SGR that set it, "0" for the default
}

// Runs returns what row y shows, from left to right. Empty places at its end are left out.
func (s *Screen) Runs(y int) []Run {
	l := s.buffer.lines[y]
	var runs []Run
	var now pen
	for x, c := range l[:l.used()] {
		if c.r == spanned {
			runs[len(runs)-1].Width++
			continue
		}
		if len(runs) == 0 || c.pen != now {
			now = c.pen
			style := strings.TrimSuffix(strings.TrimPrefix(string(now.sequence(nil)), "\x1b["), "m")
			runs = append(runs, Run{Column: x, Style: style})
		}
		last := &runs[len(runs)-1]
		last.Text += c.text()
		last.Width++
	}
	return runs
}

func (c cell) text() string {
	if c.r == 0 {
		return " "
	}
	return string(c.r) + c.marks
}

// paintTabs appends what sets the tab stops, where they are not the usual ones.
func (s *Screen) paintTabs(b []byte) []byte {
	usual := true
	for x, is := range s.tabs {
		usual = usual && is == (x%8 == 0 && x > 0)
	}
	if usual {
		return b
	}
	b = append(b, "\x1b[3g"...)
	for x, is := range s.tabs {
		if is {
			b = address(b, x, 0)
			b = append(b, "\x1bH"...)
		}
	}
	return b
}

// paintModes appends sequences that set all modes, because a terminal may have the modes of another program.
func (s *Screen) paintModes(b []byte) []byte {
	b = s.setModes(b, true)
	if s.newline {
		b = append(b, "\x1b[20h"...)
	}
	if s.top != 0 || s.bottom != s.rows-1 {
		b = append(b, "\x1b["...)
		b = strconv.AppendInt(b, int64(s.top+1), 10)
		b = append(b, ';')
		b = strconv.AppendInt(b, int64(s.bottom+1), 10)
		b = append(b, 'r')
	}
	return b
}

// setModes appends what sets what differs from a fresh terminal, or sets it back.
func (s *Screen) setModes(b []byte, on bool) []byte {
	final, keypad, style, keyFlags, otherKeys := byte('l'), ">", 0, 0, 0
	if on {
		final, keypad, style, otherKeys = 'h', "=", s.style, s.otherKeys
		if len(s.keyFlags) > 0 {
			keyFlags = s.keyFlags[len(s.keyFlags)-1]
		}
	}
	for _, mode := range passedModes {
		if s.modes[mode] {
			b = append(b, "\x1b[?"...)
			b = strconv.AppendInt(b, int64(mode), 10)
			b = append(b, final)
		}
	}
	if s.keypad {
		b = append(b, '\x1b')
		b = append(b, keypad...)
	}
	if s.style != 0 {
		b = append(b, "\x1b["...)
		b = strconv.AppendInt(b, int64(style), 10)
		b = append(b, " q"...)
	}
	if slices.ContainsFunc(s.keyFlags, func(n int) bool { return n != 0 }) {
		b = append(b, "\x1b[="...)
		b = strconv.AppendInt(b, int64(keyFlags), 10)
		b = append(b, ";1u"...)
	}
	if s.otherKeys != 0 {
		b = append(b, "\x1b[>4;"...)
		b = strconv.AppendInt(b, int64(otherKeys), 10)
		b = append(b, 'm')
	}
	return b
}

// PaintCursor appends to b what puts the cursor and the pen back, after PaintRow or something else was drawn.
func (s *Screen) PaintCursor(b []byte) []byte {
	b = append(b, "\x1b[?6l"...)
	if s.wrapping { // the last character of the row has to be drawn for that
		x := s.cols - 1
		l := s.buffer.lines[s.y]
		if l[x].r == spanned {
			x--
		}
		b = append(b, "\x1b[4l\x1b[?7h\x1b(B\x0f"...)
		b = address(b, x, s.y)
		b = l[x].pen.sequence(b)
		b = append(b, l[x].text()...)
	}
	c := s.cursor
	c.y -= s.originLine()
	if s.wrapping {
		b = c.placePen(b)
	} else {
		if s.origin {
			b = append(b, "\x1b[?6h"...)
		}
		b = address(b, c.x, c.y)
		b = c.placePen(b)
	}
	if s.noWrap {
		b = append(b, "\x1b[?7l"...)
	} else {
		b = append(b, "\x1b[?7h"...)
	}
	if s.insert {
		b = append(b, "\x1b[4h"...)
	}
	if !s.hidden {
		b = append(b, "\x1b[?25h"...)
	}
	return b
}

// originLine is the line that a program calls the first.
func (s *Screen) originLine() int {
	if s.origin && !s.wrapping {
		return s.top
	}
	return 0
}

// place appends what puts a terminal's cursor where c is.
func (c cursor) place(b []byte) []byte {
	b = append(b, "\x1b[?6l"...)
	b = address(b, c.x, c.y)
	return c.placePen(b)
}

// placePen appends the pen and the character sets of c.
func (c cursor) placePen(b []byte) []byte {
	b = c.pen.sequence(b)
	for i, is := range c.graphics {
		set := byte('B')
		if is {
			set = '0'
		}
		b = append(b, '\x1b', '('+byte(i), set)
	}
	return append(b, [...]string{"\x0f", "\x0e", "\x1bn", "\x1bo"}[c.shift]...)
}

// address appends CUP.
func address(b []byte, x, y int) []byte {
	b = append(b, "\x1b["...)
	b = strconv.AppendInt(b, int64(y+1), 10)
	b = append(b, ';')
	b = strconv.AppendInt(b, int64(x+1), 10)
	return append(b, 'H')
}

// Leave returns the sequences that restore a terminal that shows s: the main screen, a visible cursor, plain text, and
// no mouse or key modes.
func (s *Screen) Leave() []byte {
	b := s.setModes(nil, false)
	at := s.cursor
	if s.top != 0 || s.bottom != s.rows-1 {
		b = append(b, "\x1b[r"...)
		b = address(b, at.x, at.y)
	}
	if s.Alternate() {
		b = append(b, "\x1b[?1049l"...)
		at = s.saved[0]
	}
	for _, undo := range []struct {
		is bool
		by string
	}{{s.insert, "\x1b[4l"}, {s.newline, "\x1b[20l"}, {s.noWrap, "\x1b[?7h"}, {s.hidden, "\x1b[?25h"}} {
		if undo.is {
			b = append(b, undo.by...)
		}
	}
	if at.origin || at.pen != (pen{}) || at.graphics != ([4]bool{}) || at.shift != 0 {
		b = cursor{x: at.x, y: at.y}.place(b)
	}
	return b
}
