package screen

import (
	"bytes"
	"slices"
	"strings"
)

// execute carries out a control character.
func (s *Screen) execute(c byte) {
	switch c {
	case '\b':
		s.move(s.x-1, s.y)
	case '\t':
		s.tab(1)
	case '\n', '\v', '\f':
		s.wrapping = false
		s.index()
		if s.newline {
			s.x = 0
		}
	case '\r':
		s.move(0, s.y)
	case 0x0e, 0x0f:
		s.shift = int(0x0f - c)
	}
}

// tab moves the cursor by n tab stops, or back.
func (s *Screen) tab(n int) {
	x, step := s.x, 1
	if n < 0 {
		step, n = -1, -n
	}
	for ; n > 0; n-- {
		for x += step; x > 0 && x < s.cols-1 && !s.tabs[x]; {
			x += step
		}
		if x <= 0 || x >= s.cols-1 {
			break
		}
	}
	s.work += int64(max(x-s.x, s.x-x))
	s.move(x, s.y)
}

// escape carries out ESC, an intermediate or 0, and a final byte.
func (s *Screen) escape(between, final byte) {
	switch between {
	case '(', ')', '*', '+':
		s.graphics[between-'('] = final == '0'
		return
	case '#':
		if final == '8' { // DECALN
			s.work += int64(s.cols * s.rows)
			for _, l := range s.buffer.lines {
				for x := range l {
					l[x] = cell{r: 'E'}
				}
			}
		}
		return
	case 0:
	default:
		return
	}
	switch final {
	case '7':
		s.saveCursor()
	case '8':
		s.restoreCursor()
	case 'D':
		s.index()
	case 'E':
		s.x = 0
		s.index()
	case 'H':
		s.tabs[s.x] = true
	case 'M':
		s.reverseIndex()
	case 'c':
		s.reset()
	case '=', '>':
		s.keypad = final == '='
	case 'n', 'o':
		s.shift = int(final-'n') + 2
	}
}

// command carries out an OSC: those that set the title.
func (s *Screen) command(text []byte) {
	number, rest, _ := bytes.Cut(text, []byte(";"))
	if string(number) == "0" || string(number) == "2" {
		s.title = strings.Map(printable, string(bytes.ToValidUTF8(rest, nil)))
	}
}

// control carries out CSI and a final byte.
func (s *Screen) control(final byte) {
	p := &s.parser
	switch {
	case p.between == '!' && final == 'p':
		s.softReset()
	case p.between == ' ' && final == 'q':
		s.style = p.param(0, 0)
	case p.between != 0:
	case final == 'u' && p.private != 0:
		s.setKeyFlags()
	case p.private == '>' && final == 'm':
		if p.param(0, 0) == 4 {
			s.otherKeys = p.param(1, 0)
		}
	case p.private == '?' && (final == 'h' || final == 'l'):
		for _, mode := range p.params {
			s.setPrivate(mode.n, final == 'h')
		}
	case p.private == '?' && (final == 'J' || final == 'K'), p.private == 0:
		if !s.moveBy(final) {
			s.edit(final)
		}
	}
}

// softReset is DECSTR.
func (s *Screen) softReset() {
	s.insert, s.noWrap, s.hidden, s.keypad = false, false, false, false
	s.top, s.bottom = 0, s.rows-1
	s.cursor = cursor{x: s.x, y: s.y}
	s.saved[s.screenIndex()] = cursor{}
	delete(s.modes, 1)
}

// moveBy carries out the sequences that move the cursor, and reports whether it was one.
func (s *Screen) moveBy(final byte) bool {
	p := &s.parser
	n := p.param(0, 1)
	switch final {
	case 'A':
		s.move(s.x, max(s.y-n, s.upper()))
	case 'B', 'e':
		s.move(s.x, min(s.y+n, s.lower()))
	case 'C', 'a':
		s.move(s.x+n, s.y)
	case 'D':
		s.move(s.x-n, s.y)
	case 'E':
		s.move(0, min(s.y+n, s.lower()))
	case 'F':
		s.move(0, max(s.y-n, s.upper()))
	case 'G', '`':
		s.move(n-1, s.y)
	case 'd':
		s.moveTo(s.x, n-1)
	case 'H', 'f':
		s.moveTo(p.param(1, 1)-1, n-1)
	case 'I':
		s.tab(min(n, s.cols))
	case 'Z':
		s.tab(-min(n, s.cols))
	case 's':
		s.saveCursor()
	case 'u':
		s.restoreCursor()
	case 'r':
		top, bottom := p.param(0, 1)-1, min(p.param(1, s.rows), s.rows)-1
		if top < bottom {
			s.top, s.bottom = top, bottom
			s.moveTo(0, 0)
		}
	default:
		return false
	}
	return true
}

// upper and lower are the limits of relative vertical moves of the cursor: the border of its region.
func (s *Screen) upper() int {
	if s.y >= s.top {
		return s.top
	}
	return 0
}

func (s *Screen) lower() int {
	if s.y <= s.bottom {
		return s.bottom
	}
	return s.rows - 1
}

// edit executes the sequences that change drawn characters or their style.
func (s *Screen) edit(final byte) {
	p := &s.parser
	n := p.param(0, 1)
	blank := s.pen.blank()
	current := s.buffer.lines[s.y]
	switch final {
	case '@':
		current.insert(s.x, n, blank)
	case 'P':
		current.remove(s.x, n, blank)
	case 'X':
		current.erase(s.x, s.x+n, blank)
	case 'J':
		s.eraseLines(p.param(0, 0))
	case 'K':
		s.eraseLine(p.param(0, 0))
	case 'L', 'M':
		if s.y >= s.top && s.y <= s.bottom {
			if final == 'L' {
				n = -n
			}
			s.scroll(s.y, n)
			s.x = 0
		}
	case 'S':
		s.scroll(s.top, n)
	case 'T':
		s.scroll(s.top, -n)
	case 'b':
		for range min(n, s.cols) { // a program repeats within a line
			if s.last != 0 {
				s.print(s.last)
			}
		}
	case 'g':
		switch p.param(0, 0) {
		case 0:
			s.tabs[s.x] = false
		case 3:
			clear(s.tabs)
		}
	case 'h', 'l':
		for _, mode := range p.params {
			switch mode.n {
			case 4:
				s.insert = final == 'h'
			case 20:
				s.newline = final == 'h'
			}
		}
	case 'm':
		s.pen.set(p.params)
	}
	if strings.IndexByte("@PXJKLM", final) >= 0 {
		s.wrapping = false
		s.work += int64(s.cols) // for the line of the cursor
	}
}

// eraseLine is EL.
func (s *Screen) eraseLine(what int) {
	from, to := s.x, s.cols
	switch what {
	case 1:
		from, to = 0, s.x+1
	case 2:
		from = 0
	}
	s.buffer.lines[s.y].erase(from, to, s.pen.blank())
}

// eraseLines is ED.
func (s *Screen) eraseLines(what int) {
	from, to := s.y+1, s.rows
	switch what {
	case 0:
		s.eraseLine(0)
	case 1:
		s.eraseLine(1)
		from, to = 0, s.y
	case 2:
		from = 0
	default:
		return // 3 is the scrollback
	}
	s.clear(s.buffer.lines[from:to], s.pen.blank())
}

// passedModes are the private modes that change what the terminal sends, or how it looks, but not where characters are
// drawn: cursor keys, reverse video, mouse, focus, paste. They are set unchanged on another terminal.
var passedModes = []int{1, 5, 9, 1000, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016, 2004}

// setPrivate is DECSET and DECRST.
func (s *Screen) setPrivate(mode int, on bool) {
	switch mode {
	case 6:
		s.origin = on
		s.moveTo(0, 0)
	case 7:
		s.noWrap = !on
	case 25:
		s.hidden = !on
	case 66:
		s.keypad = on
	case 47, 1047, 1049:
		s.switchScreen(mode, on)
	case 1048:
		if on {
			s.saveCursor()
		} else {
			s.restoreCursor()
		}
	default:
		if !slices.Contains(passedModes, mode) {
			return
		}
		if on {
			s.modes[mode] = true
		} else {
			delete(s.modes, mode)
		}
	}
}

// switchScreen shows the alternate screen or the main one.
func (s *Screen) switchScreen(mode int, on bool) {
	if on == s.Alternate() {
		if mode == 1049 && !on {
			s.restoreCursor()
		}
		return
	}
	if on {
		if mode == 1049 {
			s.saveCursor()
		}
		s.buffer = s.alt
		if mode == 1049 {
			s.clear(s.alt.lines, s.pen.blank())
		}
		return
	}
	if mode == 1047 {
		s.clear(s.alt.lines, s.pen.blank())
	}
	s.buffer = s.main
	if mode == 1049 {
		s.restoreCursor()
	}
}

// maxKeyFlags bounds the stack of the keyboard protocol.
const maxKeyFlags = 16

// setKeyFlags is the keyboard protocol of kitty: CSI > flags u, CSI < n u, CSI = flags ; how u.
func (s *Screen) setKeyFlags() {
	p := &s.parser
	switch flags := p.param(0, 0); p.private {
	case '>':
		if len(s.keyFlags) == maxKeyFlags {
			s.keyFlags = slices.Delete(s.keyFlags, 0, 1)
		}
		s.keyFlags = append(s.keyFlags, flags)
	case '<':
		s.keyFlags = s.keyFlags[:max(0, len(s.keyFlags)-p.param(0, 1))]
	case '=':
		if len(s.keyFlags) == 0 {
			s.keyFlags = append(s.keyFlags, 0)
		}
		last := &s.keyFlags[len(s.keyFlags)-1]
		switch p.param(1, 1) {
		case 1:
			*last = flags
		case 2:
			*last |= flags
		case 3:
			*last &^= flags
		}
	}
}
