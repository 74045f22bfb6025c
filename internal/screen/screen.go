// Package screen keeps the screen of a terminal and renders it on another one.
//
// It supports the sequences of terminfo's xterm-256color and of programs that do not use terminfo: VT100 and VT220
// sequences, colours, the alternate screen, scroll regions, character sets, and the modes of keyboard and mouse. It
// does not answer queries, show images or keep scrollback. Lines that are too long for a new size are truncated and not
// wrapped again.
package screen

import "unicode/utf8"

// The bounds of the size of a Screen. A terminal that is larger is kept as far as that.
const (
	MaxCols = 1000
	MaxRows = 500
)

// Screen is the state of a terminal. It is not safe for concurrent use.
type Screen struct {
	cols, rows int
	main, alt  *buffer
	buffer     *buffer // one of the two
	cursor
	saved [2]cursor // by DECSC, of the main and the alternate screen

	top, bottom int // the scroll region, inclusive
	tabs        []bool
	insert      bool // IRM
	newline     bool // LNM
	noWrap      bool // DECAWM is off
	hidden      bool // the cursor
	keypad      bool // DECKPAM
	style       int  // of the cursor, DECSCUSR
	title       string
	modes       map[int]bool // private modes that are on, of those in passedModes
	keyFlags    []int        // of the keyboard protocol of kitty, the newest last
	otherKeys   int          // modifyOtherKeys of xterm
	last        rune         // for REP
	work        int64        // see Work

	parser parser
}

// cursor is what DECSC saves.
type cursor struct {
	x, y     int
	pen      pen
	wrapping bool // the next character goes to the next line
	origin   bool // DECOM
	graphics [4]bool
	shift    int // which of them is in use
}

// New returns an empty Screen.
func New(cols, rows int) *Screen {
	s := &Screen{cols: within(cols, 1, MaxCols), rows: within(rows, 1, MaxRows)}
	s.reset()
	return s
}

func within(n, least, most int) int { return max(least, min(n, most)) }

// reset is RIS.
func (s *Screen) reset() {
	before := *s
	*s = Screen{
		cols: s.cols, rows: s.rows, bottom: s.rows - 1, parser: s.parser, modes: map[int]bool{}, work: s.work,
		main: before.main, alt: before.alt,
	}
	for _, b := range []**buffer{&s.main, &s.alt} {
		if *b == nil {
			*b = newBuffer(s.cols, s.rows)
		} else { // a program that resets again and again takes no memory
			s.clear((*b).lines, pen{})
		}
	}
	s.buffer = s.main
	s.resetTabs(0)
}

// resetTabs sets a tab stop at every eighth column from a column on.
func (s *Screen) resetTabs(from int) {
	s.tabs = append(s.tabs[:min(from, len(s.tabs))], make([]bool, max(0, s.cols-from))...)
	for x := from; x < s.cols; x++ {
		s.tabs[x] = x%8 == 0 && x > 0
	}
}

// Size returns the columns and rows.
func (s *Screen) Size() (cols, rows int) { return s.cols, s.rows }

// Alternate reports whether the program draws on the alternate screen, as editors and pagers do.
func (s *Screen) Alternate() bool { return s.buffer == s.alt }

// Column returns the column of the cursor on the main screen, from 0 on.
func (s *Screen) Column() int {
	if s.Alternate() {
		return s.saved[0].x
	}
	return s.x
}

// Resize changes the size. If there is not enough room, it drops lines above the cursor.
func (s *Screen) Resize(cols, rows int) {
	cols, rows = within(cols, 1, MaxCols), within(rows, 1, MaxRows)
	if cols == s.cols && rows == s.rows {
		return
	}
	for i, b := range []*buffer{s.main, s.alt} {
		at := &s.saved[i]
		if b == s.buffer {
			at = &s.cursor
		}
		gone := max(0, min(at.y, s.rows-1)-(rows-1))
		b.resize(cols, rows, gone)
		at.y -= gone
	}
	before := s.cols
	s.cols, s.rows, s.top, s.bottom = cols, rows, 0, rows-1
	s.resetTabs(min(before, cols))
	for _, c := range []*cursor{&s.cursor, &s.saved[0], &s.saved[1]} {
		c.x, c.y, c.wrapping = min(c.x, cols-1), within(c.y, 0, rows-1), false
	}
}

// Work returns about how many bytes and cells Write has written so far. A sequence of a few bytes may clear the whole
// screen.
func (s *Screen) Work() int64 { return s.work }

// clear erases lines.
func (s *Screen) clear(lines []line, p pen) {
	s.work += int64(len(lines) * s.cols)
	for _, l := range lines {
		l.erase(0, len(l), p)
	}
}

// Write draws the output of a program. It consumes all of p and never fails.
func (s *Screen) Write(p []byte) (int, error) {
	n := len(p)
	s.work += int64(n)
	for len(p) > 0 {
		if s.parser.state == ground && len(s.parser.partial) == 0 && p[0] >= 0x20 && p[0] < utf8.RuneSelf {
			p = p[s.printASCII(p):]
			continue
		}
		s.parse(p[0])
		p = p[1:]
	}
	return n, nil
}

// printASCII prints characters at the beginning of p, and returns their number.
func (s *Screen) printASCII(p []byte) int {
	if p[0] == 0x7f { // DEL is passed over
		return 1
	}
	room := s.cols - 1 - s.x // the last column is for print
	if s.insert || s.wrapping || s.graphics[s.shift] || room < 2 {
		s.print(rune(p[0]))
		return 1
	}
	p = p[:min(room, len(p))]
	line, n := s.buffer.lines[s.y][s.x:], 0
	for n < len(p) && p[n] >= 0x20 && p[n] < 0x7f {
		n++
	}
	s.buffer.lines[s.y].split(s.x)
	s.buffer.lines[s.y].split(s.x + n)
	for i, c := range p[:n] {
		line[i] = cell{r: rune(c), pen: s.pen}
	}
	s.x += n
	s.last = rune(p[n-1])
	return n
}

// print draws a character at the cursor.
func (s *Screen) print(r rune) {
	if s.graphics[s.shift] && r >= '`' && r <= '~' {
		r = lineDrawing[r-'`']
	}
	width := runeWidth(r)
	if width == 0 {
		s.mark(r)
		return
	}
	if width > s.cols {
		r, width = utf8.RuneError, 1
	}
	s.last = r
	if s.wrapping || s.x+width > s.cols {
		if s.noWrap {
			s.x = s.cols - width
		} else {
			s.x = 0
			s.index()
		}
		s.wrapping = false
	}
	line := s.buffer.lines[s.y]
	if s.insert {
		line.insert(s.x, width, s.pen.blank())
		s.work += int64(s.cols)
	}
	line.set(s.x, r, width, s.pen)
	if s.x += width; s.x >= s.cols {
		s.x = s.cols - 1
		s.wrapping = true
	}
}

// maxMarks bounds the combining characters of a cell, in bytes.
const maxMarks = 32

// mark adds a combining character to the character before the cursor.
func (s *Screen) mark(r rune) {
	x := s.x
	if !s.wrapping {
		x--
	}
	line := s.buffer.lines[s.y]
	if x > 0 && line[x].r == spanned {
		x--
	}
	if x >= 0 && line[x].r != 0 && len(line[x].marks) < maxMarks {
		line[x].marks += string(r)
	}
}

// index moves the cursor down, and scrolls at the bottom of the region.
func (s *Screen) index() {
	switch {
	case s.y == s.bottom:
		s.scroll(s.top, 1)
	case s.y < s.rows-1:
		s.y++
	}
}

// reverseIndex moves the cursor up, and scrolls at the top of the region.
func (s *Screen) reverseIndex() {
	switch {
	case s.y == s.top:
		s.scroll(s.top, -1)
	case s.y > 0:
		s.y--
	}
}

// scroll moves the lines from one to the bottom of the region up by n, or down.
func (s *Screen) scroll(from, n int) { s.scrollBuffer(s.buffer, from, s.bottom, n) }

// scrollBuffer moves the lines between two, inclusive, up by n, or down if n is negative.
func (s *Screen) scrollBuffer(b *buffer, top, bottom, n int) {
	region := b.lines[top : bottom+1]
	n = within(n, -len(region), len(region))
	fresh := region[:max(n, 0)]
	if n < 0 {
		fresh = region[len(region)+n:]
	}
	s.clear(fresh, s.pen.blank())
	s.work += int64(len(region))
	rotate(region, n)
}

// move puts the cursor somewhere, within the bounds.
func (s *Screen) move(x, y int) {
	s.x, s.y, s.wrapping = within(x, 0, s.cols-1), within(y, 0, s.rows-1), false
}

// moveTo is move to an address of a program, which may be within the region.
func (s *Screen) moveTo(x, y int) {
	if s.origin {
		s.move(x, within(y+s.top, s.top, s.bottom))
		return
	}
	s.move(x, y)
}

// saveCursor and restoreCursor are DECSC and DECRC.
func (s *Screen) saveCursor() { s.saved[s.screenIndex()] = s.cursor }

func (s *Screen) restoreCursor() {
	s.cursor = s.saved[s.screenIndex()]
	s.x, s.y = within(s.x, 0, s.cols-1), within(s.y, 0, s.rows-1)
}

func (s *Screen) screenIndex() int {
	if s.Alternate() {
		return 1
	}
	return 0
}
