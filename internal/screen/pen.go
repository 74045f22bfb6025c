package screen

import "strconv"

// set carries out SGR.
func (p *pen) set(params []param) {
	if len(params) == 0 {
		*p = pen{}
		return
	}
	for i := 0; i < len(params); i++ {
		n := params[i].n
		subs := i + 1
		for subs < len(params) && params[subs].sub {
			subs++
		}
		switch {
		case n == 38 || n == 48 || n == 58:
			c, used := parseColour(params[i+1:], subs > i+1)
			switch n {
			case 38:
				p.fg = c
			case 48:
				p.bg = c
			default:
				p.under = c
			}
			if subs == i+1 {
				i += used
			}
		case n == 4 && subs > i+1:
			p.underline = uint8(within(params[i+1].n, 0, 5))
		default:
			p.setOne(n)
		}
		i = max(i, subs-1)
	}
}

// parseColour reads the parameters after 38, 48 or 58, and returns the number of used parameters.
func parseColour(params []param, colons bool) (c colour, used int) {
	if len(params) == 0 {
		return 0, 0
	}
	switch kind, rest := params[0].n, params[1:]; {
	case kind == 5 && len(rest) > 0:
		return 1 + colour(rest[0].n&255), 2
	case kind == 2 && len(rest) > 2:
		if colons { // 38:2::r:g:b, or without the colour space
			n := 0
			for n < len(rest) && rest[n].sub {
				n++
			}
			if n > 3 {
				rest = rest[1:]
			}
		}
		return rgb | colour(rest[0].n&255)<<16 | colour(rest[1].n&255)<<8 | colour(rest[2].n&255), 4
	}
	return 0, len(params)
}

// setOne carries out one code of SGR.
func (p *pen) setOne(n int) {
	switch {
	case n == 0:
		*p = pen{}
	case n == 4:
		p.underline = 1
	case n == 21:
		p.underline = 2
	case n >= 1 && n <= 9:
		p.attributes |= 1 << n
	case n == 22:
		p.attributes &^= 1<<1 | 1<<2
	case n == 24:
		p.underline = 0
	case n == 25:
		p.attributes &^= 1<<5 | 1<<6
	case n >= 23 && n <= 29:
		p.attributes &^= 1 << (n - 20)
	case n >= 30 && n <= 37:
		p.fg = colour(1 + n - 30)
	case n == 39:
		p.fg = 0
	case n >= 40 && n <= 47:
		p.bg = colour(1 + n - 40)
	case n == 49:
		p.bg = 0
	case n == 53:
		p.attributes |= overline
	case n == 55:
		p.attributes &^= overline
	case n == 59:
		p.under = 0
	case n >= 90 && n <= 97:
		p.fg = colour(1 + 8 + n - 90)
	case n >= 100 && n <= 107:
		p.bg = colour(1 + 8 + n - 100)
	}
}

// sequence appends the SGR that sets p whatever was set before.
func (p pen) sequence(b []byte) []byte {
	b = append(b, "\x1b[0"...)
	for n := 1; n <= 9; n++ {
		if p.attributes&(1<<n) != 0 {
			b = append(b, ';', byte('0'+n))
		}
	}
	switch p.underline {
	case 0:
	case 1:
		b = append(b, ";4"...)
	default:
		b = append(b, ";4:"...)
		b = append(b, '0'+p.underline)
	}
	if p.attributes&overline != 0 {
		b = append(b, ";53"...)
	}
	b = p.fg.sequence(b, 30, ';')
	b = p.bg.sequence(b, 40, ';')
	b = p.under.sequence(b, 50, ':')
	return append(b, 'm')
}

// sequence appends what sets a colour; base is 30, 40 or 50.
func (c colour) sequence(b []byte, base int, separator byte) []byte {
	number := func(n colour) {
		b = append(b, separator)
		b = strconv.AppendUint(b, uint64(n), 10)
	}
	begin := func(n int) {
		b = append(b, ';')
		b = strconv.AppendInt(b, int64(n), 10)
	}
	switch {
	case c == 0:
	case c&rgb != 0:
		begin(base + 8)
		number(2)
		if separator == ':' {
			b = append(b, ':') // no colour space
		}
		number(c >> 16 & 255)
		number(c >> 8 & 255)
		number(c & 255)
	case c <= 8 && base != 50:
		begin(base + int(c) - 1)
	case c <= 16 && base != 50:
		begin(base + 60 + int(c) - 9)
	default:
		begin(base + 8)
		number(5)
		number(c - 1)
	}
	return b
}
