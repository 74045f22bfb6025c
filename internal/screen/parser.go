package screen

import (
	"unicode/utf8"
)

// state is the state of the parser, after the diagram of Paul Williams for the VT500.
type state uint8

const (
	ground state = iota
	escape
	escapeBetween // an intermediate has come
	control       // behind CSI
	controlIgnore
	text       // behind OSC
	textIgnore // behind DCS, SOS, PM and APC
	textEscape // ESC in either
)

const (
	maxParams = 32
	maxParam  = 65535
	maxText   = 4096
)

// parser takes sequences apart.
type parser struct {
	state   state
	partial []byte // of a character in UTF-8
	between byte   // the last intermediate
	private byte   // '?', '>', '=' or '<' behind CSI
	params  []param
	text    []byte
}

// param is a number; sub is true if a colon precedes it.
type param struct {
	n   int
	sub bool
}

// parse takes a byte that printASCII does not.
func (s *Screen) parse(c byte) {
	p := &s.parser
	if p.state == ground && (c >= utf8.RuneSelf || len(p.partial) > 0) {
		if s.parseRune(c) {
			return
		}
	}
	switch {
	case p.state == textEscape:
		s.endText(c)
		return
	case p.state == text || p.state == textIgnore:
		s.parseText(c)
		return
	case c == 0x1b:
		*p = parser{state: escape, params: p.params[:0], text: p.text[:0]}
		return
	case c == 0x18 || c == 0x1a:
		p.state = ground
		return
	case c < 0x20:
		s.execute(c)
		return
	case c == 0x7f:
		return
	}
	switch p.state {
	case escape, escapeBetween:
		s.parseEscape(c)
	case control, controlIgnore:
		s.parseControl(c)
	default:
		s.print(rune(c))
	}
}

// parseRune collects a character. It returns false for a byte that does not continue an incomplete character.
func (s *Screen) parseRune(c byte) bool {
	p := &s.parser
	if len(p.partial) > 0 && utf8.RuneStart(c) {
		p.partial = p.partial[:0]
		s.print(utf8.RuneError)
		if c < utf8.RuneSelf {
			return false
		}
	}
	p.partial = append(p.partial, c)
	if !utf8.FullRune(p.partial) {
		return true
	}
	r, _ := utf8.DecodeRune(p.partial)
	p.partial = p.partial[:0]
	if r >= 0xa0 || r == utf8.RuneError {
		s.print(r)
	}
	return true
}

// parseText takes a byte of a string, which ST or BEL ends.
func (s *Screen) parseText(c byte) {
	p := &s.parser
	switch {
	case c == 0x1b:
		p.between = byte(p.state)
		p.state = textEscape
	case c == 0x07 && p.state == text:
		s.command(p.text)
		p.state = ground
	case c == 0x18 || c == 0x1a:
		p.state = ground
	case p.state == text && len(p.text) < maxText:
		p.text = append(p.text, c)
	}
}

// endText takes the byte behind an ESC in a string.
func (s *Screen) endText(c byte) {
	p := &s.parser
	was := state(p.between)
	p.state, p.between = escape, 0
	if c == '\\' {
		p.state = ground
		if was == text {
			s.command(p.text)
		}
		return
	}
	p.params, p.text = p.params[:0], p.text[:0]
	s.parse(c)
}

func (s *Screen) parseEscape(c byte) {
	p := &s.parser
	switch {
	case c <= 0x2f:
		p.between, p.state = c, escapeBetween
		return
	case p.state == escapeBetween:
	case c == '[':
		p.state = control
		return
	case c == ']':
		p.state = text
		return
	case c == 'P' || c == 'X' || c == '^' || c == '_':
		p.state = textIgnore
		return
	}
	p.state = ground
	s.escape(p.between, c)
}

func (s *Screen) parseControl(c byte) {
	p := &s.parser
	switch {
	case c >= 0x40:
		if p.state == control {
			p.state = ground
			s.control(c)
		}
		p.state = ground
	case c >= '0' && c <= '9':
		if len(p.params) == 0 {
			p.params = append(p.params, param{})
		}
		last := &p.params[len(p.params)-1]
		last.n = min(last.n*10+int(c-'0'), maxParam)
	case c == ';' || c == ':':
		if len(p.params) == 0 {
			p.params = append(p.params, param{})
		}
		if len(p.params) == maxParams {
			p.state = controlIgnore
			return
		}
		p.params = append(p.params, param{sub: c == ':'})
	case c >= '<' && c <= '?':
		p.private = c
	case c <= 0x2f:
		p.between = c
	}
}

// param is the parameter at i, or a default for one that is missing or 0.
func (p *parser) param(i, otherwise int) int {
	if i < len(p.params) && p.params[i].n > 0 {
		return p.params[i].n
	}
	return otherwise
}
