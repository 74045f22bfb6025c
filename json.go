package reprise

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// AppendJSON appends the JSON form of e to dst, without a line break:
//
//	{"seq":7,"time":"2026-11-20T09:30:00.000Z","text":"hello\n"}
//
// with "base64" in place of "text" for bytes that are not valid UTF-8, "data"
// for FormatJSON, and the members of the object for FormatMembers. The
// type is not part of it; it stands beside it in every wire format. The characters that some readers
// take for line breaks are escaped, see AppendJSONLine.
func (e *Event) AppendJSON(dst []byte) []byte {
	return append(e.AppendMembers(append(dst, '{')), '}')
}

// AppendMembers appends the text between the braces of AppendJSON.
func (e *Event) AppendMembers(dst []byte) []byte {
	dst = append(dst, `"seq":`...)
	dst = strconv.AppendUint(dst, e.Seq, 10)
	dst = append(dst, `,"time":"`...)
	dst = appendTime(dst, e.Time)
	switch e.Format {
	case FormatJSON:
		dst = append(dst, `","data":`...)
		return AppendJSONLine(dst, e.Data)
	case FormatMembers:
		dst = append(dst, '"')
		if members := bytes.Trim(e.Data[1:len(e.Data)-1], " \t"); len(members) > 0 {
			dst = append(dst, ',')
			dst = AppendJSONLine(dst, members)
		}
		return dst
	}
	ascii := isASCII(e.Data)
	if !ascii && !utf8.Valid(e.Data) {
		dst = append(dst, `","base64":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, e.Data)
		return append(dst, '"')
	}
	dst = append(dst, `","text":"`...)
	if ascii || !hasSeparator(e.Data) {
		dst = appendEscaped(dst, e.Data)
	} else {
		dst = appendSeparated(dst, e.Data, appendEscaped)
	}
	return append(dst, '"')
}

// AppendJSONLine appends text, which must be valid JSON, and escapes U+0085, U+2028 and U+2029. JSON allows them
// unescaped in strings, but readers that split lines like Python's str.splitlines fail on them.
func AppendJSONLine(dst, text []byte) []byte {
	if isASCII(text) || !hasSeparator(text) {
		return append(dst, text...)
	}
	return appendSeparated(dst, text, func(dst, part []byte) []byte { return append(dst, part...) })
}

// The UTF-8 prefixes of U+2028 and U+2029, and of U+0085. Much punctuation has the same prefix as the former.
var general, nextLine = []byte("\u2028")[:2], []byte("\u0085")

// isASCII reports whether all bytes of b are ASCII.
func isASCII(b []byte) bool {
	const highs = 0x8080808080808080
	for ; len(b) >= 32; b = b[32:] {
		w := b[:32]
		if (binary.LittleEndian.Uint64(w)|binary.LittleEndian.Uint64(w[8:])|
			binary.LittleEndian.Uint64(w[16:])|binary.LittleEndian.Uint64(w[24:]))&highs != 0 {
			return false
		}
	}
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b)&highs != 0 {
			return false
		}
	}
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// hasSeparator reports whether text may contain U+0085, U+2028 or U+2029. It is fast for text without them.
func hasSeparator(text []byte) bool {
	return bytes.Contains(text, general) || bytes.Contains(text, nextLine)
}

// appendSeparated appends text with plain, except U+0085, U+2028 and U+2029, which it appends as JSON escapes.
func appendSeparated(dst, text []byte, plain func(dst, part []byte) []byte) []byte {
	for {
		n, escape, size := separator(text)
		dst = plain(dst, text[:n])
		if size == 0 {
			return dst
		}
		dst = append(dst, escape...)
		text = text[n+size:]
	}
}

// separator returns the index of the first U+0085, U+2028 or U+2029 in text, its escape and its size in text. If there
// is none, the size is 0 and the index the length of text.
func separator(text []byte) (n int, escape string, size int) {
	for i := 0; i < len(text)-1; i++ {
		switch {
		case text[i] == 0xE2 && text[i+1] == 0x80 && i+2 < len(text) && text[i+2]&^1 == 0xA8:
			return i, [...]string{`\u2028`, `\u2029`}[text[i+2]&1], 3
		case text[i] == 0xC2 && text[i+1] == 0x85:
			return i, `\u0085`, 2
		}
	}
	return len(text), "", 0
}

// appendTime appends t as RFC 3339 in UTC with milliseconds.
func appendTime(dst []byte, t time.Time) []byte {
	unix := t.Unix()
	s := lastSecond.Load()
	if s == nil || s.unix != unix {
		s = &second{unix: unix, text: t.UTC().AppendFormat(nil, "2006-01-02T15:04:05.")}
		lastSecond.Store(s)
	}
	ms := t.Nanosecond() / 1e6
	dst = append(dst, s.text...)
	return append(dst, byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

// lastSecond is the second of the last appended time. Consecutive events mostly share it, and computing it takes ten
// times as long as the rest.
var lastSecond atomic.Pointer[second]

type second struct {
	unix int64
	text []byte // including the dot before the milliseconds
}

// appendEscaped appends text as the inside of a JSON string (RFC 8259, section 7). text must be valid UTF-8. It copies
// eight bytes at a time, since in text with many quotes, such as JSON, the next escape is a few bytes away.
func appendEscaped(dst, text []byte) []byte {
	plain := 4 // consecutive words without an escape; plain text mostly stays plain
	for len(text) >= 8 {
		if plain >= 4 && len(text) >= 32 {
			plain = 0
			n := plainBlocks(text)
			dst, text = append(dst, text[:n]...), text[n:]
			continue
		}
		if cap(dst)-len(dst) < 8+maxEscape {
			dst = slices.Grow(dst, len(text)+8+maxEscape)
		}
		found := special(text)
		copied := dst[len(dst) : len(dst)+8]
		binary.LittleEndian.PutUint64(copied, binary.LittleEndian.Uint64(text))
		if found == 0 {
			dst, text = dst[:len(dst)+8], text[8:]
			plain++
			continue
		}
		plain = 0
		n := bits.TrailingZeros64(found) / 8
		dst = appendEscape(dst[:len(dst)+n], text[n])
		text = text[n+1:]
	}
	for _, c := range text {
		if c < 0x20 || c == '"' || c == '\\' {
			dst = appendEscape(dst, c)
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

// maxEscape is the length of the longest escape.
const maxEscape = len(`\u001f`)

// appendEscape appends c, which JSON does not allow unescaped in a string.
func appendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// plainBlocks returns the length of the longest prefix of whole blocks of 32 bytes that needs no escape.
func plainBlocks(b []byte) int {
	n := 0
	for ; len(b)-n >= 32; n += 32 {
		w := b[n : n+32]
		if special(w)|special(w[8:])|special(w[16:])|special(w[24:]) != 0 {
			break
		}
	}
	return n
}

// special tests eight bytes at once and returns 0 if none of them needs an escape. Otherwise its lowest set bit is the
// highest bit of the first such byte; higher bits may belong to others.
func special(b []byte) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	w := binary.LittleEndian.Uint64(b)
	quote := w ^ ones*'"'
	slash := w ^ ones*'\\'
	// A byte of x is below v where (x - v*ones) &^ x has its high bit set, for v <= 128.
	return ((w-ones*0x20)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & highs
}
