package reprise

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendJSON appends the JSON form of e to dst, without a line break:
//
//	{"seq":7,"time":"2026-11-20T09:30:00.000Z","text":"hello\n"}
//
// with "base64" in place of "text" for bytes that are not valid UTF-8, "data"
// for FormatJSON, and the members of the object for FormatMembers. The
// type is not part of it; it stands beside it in every wire format.
func (e *Event) AppendJSON(dst []byte) []byte {
	return append(e.AppendMembers(append(dst, '{')), '}')
}

// AppendMembers appends what stands between the braces of AppendJSON.
func (e *Event) AppendMembers(dst []byte) []byte {
	dst = append(dst, `"seq":`...)
	dst = strconv.AppendUint(dst, e.Seq, 10)
	dst = append(dst, `,"time":"`...)
	dst = appendTime(dst, e.Time)
	switch e.Format {
	case FormatJSON:
		dst = append(dst, `","data":`...)
		return append(dst, e.Data...)
	case FormatMembers:
		dst = append(dst, '"')
		if members := bytes.Trim(e.Data[1:len(e.Data)-1], " \t"); len(members) > 0 {
			dst = append(dst, ',')
			dst = append(dst, members...)
		}
		return dst
	}
	if !utf8.Valid(e.Data) {
		dst = append(dst, `","base64":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, e.Data)
		return append(dst, '"')
	}
	dst = append(dst, `","text":"`...)
	dst = appendEscaped(dst, e.Data)
	return append(dst, '"')
}

// appendTime appends t as RFC 3339 in UTC with milliseconds. It is what
// t.UTC().AppendFormat does with that layout, at a quarter of the cost.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	if year < 0 || year > 9999 {
		return t.AppendFormat(dst, "2006-01-02T15:04:05.000Z07:00")
	}
	ms := t.Nanosecond() / 1e6
	return append(dst,
		byte('0'+year/1000), byte('0'+year/100%10), byte('0'+year/10%10), byte('0'+year%10), '-',
		byte('0'+month/10), byte('0'+month%10), '-',
		byte('0'+day/10), byte('0'+day%10), 'T',
		byte('0'+hour/10), byte('0'+hour%10), ':',
		byte('0'+minute/10), byte('0'+minute%10), ':',
		byte('0'+second/10), byte('0'+second%10), '.',
		byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

// appendEscaped appends the text as the inside of a JSON string (RFC 8259,
// section 7). The text is valid UTF-8.
func appendEscaped(dst, text []byte) []byte {
	const hex = "0123456789abcdef"
	for {
		n := plainPrefix(text)
		dst = append(dst, text[:n]...)
		if n == len(text) {
			return dst
		}
		switch c := text[n]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		text = text[n+1:]
	}
}

// plainPrefix is the length of the longest prefix that needs no escape. It looks
// at eight bytes at a time.
func plainPrefix(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; len(b)-n >= 8; n += 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		quote := w ^ ones*'"'
		slash := w ^ ones*'\\'
		// A byte of x is below v where (x - v*ones) &^ x has its high bit set, for v <= 128.
		if ((w-ones*0x20)&^w|(quote-ones)&^quote|(slash-ones)&^slash)&highs != 0 {
			break
		}
	}
	for ; n < len(b); n++ {
		if c := b[n]; c < 0x20 || c == '"' || c == '\\' {
			break
		}
	}
	return n
}
