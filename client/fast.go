package client

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"time"
	"unicode/utf8"
)

// decodeFast reads the JSON of an event of bytes, if it looks exactly as our server
// writes it:
//
//	{"seq":7,"time":"2026-11-20T09:30:00.000Z","text":"..."}
//
// or "base64" in place of "text". It is false for all else, which encoding/json then reads, at
// several times the cost. What it does read, it reads alike.
func decodeFast(object []byte) (seq uint64, at time.Time, data []byte, ok bool) {
	rest, ok := bytes.CutPrefix(object, []byte(`{"seq":`))
	if !ok {
		return 0, at, nil, false
	}
	n := 0
	for n < len(rest) && n < 18 && rest[n]-'0' <= 9 { // 18 digits cannot overflow
		seq = seq*10 + uint64(rest[n]-'0')
		n++
	}
	rest, ok = bytes.CutPrefix(rest[n:], []byte(`,"time":"`))
	if !ok || n == 0 || seq == 0 || object[len(`{"seq":`)] == '0' || len(rest) < timeLen {
		return 0, at, nil, false
	}
	if at, ok = parseTime(rest[:timeLen]); !ok {
		return 0, at, nil, false
	}
	rest = rest[timeLen:]
	if inside, isText := within(rest, `","text":"`); isText {
		data, ok = unescape(inside)
		return seq, at, data, ok
	}
	inside, isBase64 := within(rest, `","base64":"`)
	if !isBase64 || bytes.ContainsAny(inside, "\\\"\r\n") {
		return 0, at, nil, false
	}
	data, err := base64.StdEncoding.AppendDecode(make([]byte, 0, base64.StdEncoding.DecodedLen(len(inside))), inside)
	return seq, at, data, err == nil
}

// within is what stands between a prefix and the end of the object.
func within(rest []byte, prefix string) ([]byte, bool) {
	inside, begins := bytes.CutPrefix(rest, []byte(prefix))
	inside, ends := bytes.CutSuffix(inside, []byte(`"}`))
	return inside, begins && ends
}

// timeLen is the length of a time with milliseconds in UTC.
const timeLen = len("2006-01-02T15:04:05.000Z")

// parseTime reads one, and refuses days that a month does not have.
func parseTime(b []byte) (time.Time, bool) {
	number := func(from, to int) int {
		n := 0
		for _, c := range b[from:to] {
			if c < '0' || c > '9' {
				return -1
			}
			n = n*10 + int(c-'0')
		}
		return n
	}
	for _, at := range [...]struct {
		index int
		want  byte
	}{{4, '-'}, {7, '-'}, {10, 'T'}, {13, ':'}, {16, ':'}, {19, '.'}, {23, 'Z'}} {
		if b[at.index] != at.want {
			return time.Time{}, false
		}
	}
	year, month, day := number(0, 4), number(5, 7), number(8, 10)
	hour, minute, second, ms := number(11, 13), number(14, 16), number(17, 19), number(20, 23)
	if min(year, hour, minute, second, ms) < 0 || month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 ||
		second > 59 {
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, ms*1e6, time.UTC)
	return t, t.Day() == day
}

// unescape decodes the escapes of a JSON string (RFC 8259, section 7). It returns false if s is not a string or not
// UTF-8, or needs a pair of \u escapes.
func unescape(s []byte) ([]byte, bool) {
	if !utf8.Valid(s) {
		return nil, false
	}
	dst := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		n := plainPrefix(s[i:])
		dst = append(dst, s[i:i+n]...)
		if i += n; i == len(s) {
			break
		}
		if s[i] != '\\' {
			return nil, false
		}
		if i+1 == len(s) {
			return nil, false
		}
		if s[i+1] == 'u' {
			r, ok := hexRune(s[i+2:])
			if !ok {
				return nil, false
			}
			dst = utf8.AppendRune(dst, r)
			i += len(`\u0000`)
			continue
		}
		plain := unescaped[s[i+1]]
		if plain == 0 {
			return nil, false
		}
		dst = append(dst, plain)
		i += 2
	}
	return dst, true
}

// plainPrefix returns the length of the beginning of s that stands for itself in a JSON string: it ends before the first
// quote, backslash or control character. It looks at eight bytes at a time.
func plainPrefix(s []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; n+8 <= len(s); n += 8 {
		x := binary.LittleEndian.Uint64(s[n:])
		quote, backslash := x^ones*'"', x^ones*'\\'
		// The lowest bit that is set belongs to the first such byte; higher ones may be wrong.
		found := ((x - ones*' ') & ^x) | ((quote - ones) & ^quote) | ((backslash - ones) & ^backslash)
		if found &= highs; found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	for ; n < len(s); n++ {
		if c := s[n]; c < ' ' || c == '"' || c == '\\' {
			break
		}
	}
	return n
}

// unescaped maps the byte after a backslash to the byte that the escape stands for, or to 0 if there is no such escape.
var unescaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// hexRune reads four digits. It is false for a half of a surrogate pair.
func hexRune(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s[:4] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, r < 0xD800 || r > 0xDFFF
}
