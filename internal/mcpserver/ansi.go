package mcpserver

import "bytes"

// ansiState is where a plainer is in a control sequence.
type ansiState int

const (
	ansiGround       ansiState = iota
	ansiEscape                 // after ESC
	ansiIntermediate           // after ESC and an intermediate byte
	ansiCSI                    // in a control sequence, up to its final byte
	ansiString                 // in an operating system command or another string, up to its terminator
	ansiStringEscape           // after ESC in a string
)

const (
	bel = 0x07
	esc = 0x1b
)

// plainer removes the escape sequences of ECMA-48 from output that comes in pieces: colors, movements of the cursor,
// titles and links. The zero value is ready. A line break ends a sequence that is not complete, so that output which
// only looks like the beginning of one is not swallowed.
type plainer struct{ state ansiState }

// plain returns data without escape sequences. If there are none, the result shares the memory of data.
func (p *plainer) plain(data []byte) []byte {
	if p.state == ansiGround && !hasEscape(data) {
		return data
	}
	kept := make([]byte, 0, len(data))
	for _, b := range data {
		if p.keeps(b) {
			kept = append(kept, b)
		}
	}
	return kept
}

func hasEscape(data []byte) bool {
	return bytes.IndexByte(data, esc) >= 0
}

// keeps takes the next byte and reports whether it is text.
func (p *plainer) keeps(b byte) bool {
	switch {
	case p.state == ansiGround && b != esc:
		return true
	case b == '\n':
		p.state = ansiGround
		return true
	}
	switch p.state {
	case ansiGround:
		p.state = ansiEscape
	case ansiEscape:
		p.state = afterEscape(b)
	case ansiIntermediate:
		if b < 0x20 || b > 0x2f {
			p.state = ansiGround
		}
	case ansiCSI:
		switch {
		case b == esc:
			p.state = ansiEscape
		case b >= 0x40 && b <= 0x7e:
			p.state = ansiGround
		case b >= 0x80: // a sequence has no such bytes, so this is text again
			p.state = ansiGround
			return true
		}
	case ansiString:
		switch b {
		case bel:
			p.state = ansiGround
		case esc:
			p.state = ansiStringEscape
		}
	case ansiStringEscape:
		if p.state = ansiString; b == '\\' {
			p.state = ansiGround
		}
	}
	return false
}

// afterEscape is the state after ESC and b.
func afterEscape(b byte) ansiState {
	switch {
	case b == '[':
		return ansiCSI
	case b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_':
		return ansiString
	case b == esc:
		return ansiEscape
	case b >= 0x20 && b <= 0x2f:
		return ansiIntermediate
	}
	return ansiGround
}
