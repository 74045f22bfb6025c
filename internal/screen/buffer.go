package screen

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// colour is 0 for the default, 1 and the number of one in the palette, or rgb and its 24 bits.
type colour uint32

const rgb colour = 1 << 24

// pen is how characters are drawn.
type pen struct {
	fg, bg, under colour
	attributes    uint16 // the bits of the SGR codes 1 to 9, and 53
	underline     uint8  // its shape, 0 for none
}

const overline = 1 << 10

// blank returns the pen of erased cells, which keeps only the background.
func (p pen) blank() pen { return pen{bg: p.bg} }

// cell is one place of the screen.
type cell struct {
	r     rune   // 0 for a place where nothing is, spanned for the right half of a wide character
	marks string // combining characters
	pen   pen
}

const spanned rune = -1

type line []cell

// set draws a character, and erases the other half of wide characters that it covers.
func (l line) set(x int, r rune, width int, p pen) {
	l.split(x)
	l.split(x + width)
	l[x] = cell{r: r, pen: p}
	if width == 2 {
		l[x+1] = cell{r: spanned, pen: p}
	}
}

// split erases a wide character that lies on both sides of x.
func (l line) split(x int) {
	if x > 0 && x < len(l) && l[x].r == spanned {
		l[x-1].r, l[x-1].marks, l[x].r = 0, "", 0
	}
}

// erase makes the places from one to before another blank.
func (l line) erase(from, to int, p pen) {
	from, to = min(from, len(l)), min(to, len(l))
	l.split(from)
	l.split(to)
	for x := from; x < to; x++ {
		l[x] = cell{pen: p}
	}
}

// insert moves the characters from x on to the right; remove moves them to the left.
func (l line) insert(x, n int, p pen) {
	n = min(n, len(l)-x)
	l.split(x)
	l.split(len(l) - n)
	copy(l[x+n:], l[x:])
	l.erase(x, x+n, p)
}

func (l line) remove(x, n int, p pen) {
	n = min(n, len(l)-x)
	l.split(x)
	l.split(x + n)
	copy(l[x:], l[x+n:])
	for i := len(l) - n; i < len(l); i++ {
		l[i] = cell{pen: p}
	}
}

// used is the length of a line without the empty places at its end.
func (l line) used() int {
	n := len(l)
	for n > 0 && (l[n-1].r == 0 || l[n-1].r == ' ') && l[n-1].marks == "" && l[n-1].pen == (pen{}) {
		n--
	}
	return n
}

func (l line) text() string {
	var b strings.Builder
	for _, c := range l[:l.used()] {
		switch c.r {
		case spanned:
		case 0:
			b.WriteByte(' ')
		default:
			b.WriteRune(c.r)
			b.WriteString(c.marks)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// buffer is the main or the alternate screen.
type buffer struct{ lines []line }

func newBuffer(cols, rows int) *buffer {
	b := &buffer{lines: make([]line, rows)}
	for y := range b.lines {
		b.lines[y] = make(line, cols)
	}
	return b
}

// rotate moves the elements up by n, those in front to the end; or down, if n is negative.
func rotate(region []line, n int) {
	if n < 0 {
		n += len(region)
	}
	slices.Reverse(region[:n])
	slices.Reverse(region[n:])
	slices.Reverse(region)
}

// resize drops lines at the top, and cuts or fills up the rest.
func (b *buffer) resize(cols, rows, gone int) {
	b.lines = b.lines[gone:]
	b.lines = b.lines[:min(rows, len(b.lines))]
	for y, l := range b.lines {
		if cols <= len(l) {
			l.split(cols)
			b.lines[y] = l[:cols:cols]
			continue
		}
		b.lines[y] = append(l[:len(l):len(l)], make(line, cols-len(l))...)
	}
	for len(b.lines) < rows {
		b.lines = append(b.lines, make(line, cols))
	}
}

// runeWidth is the number of places that a character takes: 0 for combining ones, 2 for wide ones.
func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) || r >= 0x1160 && r <= 0x11ff:
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Width returns the number of places that a text without control characters takes on a line.
func Width(text string) int {
	n := 0
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

// lineDrawing is the DEC special graphics set, from '`' on.
var lineDrawing = [...]rune{
	'◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺',
	'⎻', '─', '⎼', '⎽', '├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
}
