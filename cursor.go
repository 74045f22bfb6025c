package reprise

import (
	"crypto/rand"
	"crypto/subtle"
	"strconv"
)

// Epoch is the random id of one history of a stream: 16 digits of Crockford's
// base32 (80 bits), for example "7ZK3M9Q2VTX4WB8A". A stream gets another epoch when its name
// is used again or when its history was lost.
type Epoch string

const (
	epochLen = 16
	tagLen   = 13 // 8 bytes in base32
	// crockford is the alphabet of https://www.crockford.com/base32.html.
	crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	// maxCursor is the length of the longest cursor.
	maxCursor = 20 + 1 + epochLen + 1 + tagLen
)

// NewEpoch returns a random epoch.
func NewEpoch() Epoch {
	var b [10]byte
	rand.Read(b[:])
	return Epoch(base32(b[:]))
}

// Cursor is the position just after event Seq of one epoch of a stream; Seq 0
// is the position before the first event. Its text is opaque to users, at most 51
// bytes of printable ASCII: "<seq>.<epoch>.<tag>". The tag binds it to tenant,
// stream and epoch.
type Cursor struct {
	Seq   uint64
	Epoch Epoch
	// Tag authenticates the cursor; see Keys.
	Tag string
}

// String is the inverse of ParseCursor. The zero Cursor is "".
func (c Cursor) String() string {
	if c.IsZero() {
		return ""
	}
	return string(c.Append(make([]byte, 0, maxCursor)))
}

// Append appends the text of c to dst.
func (c Cursor) Append(dst []byte) []byte {
	dst = strconv.AppendUint(dst, c.Seq, 10)
	dst = append(dst, '.')
	dst = append(dst, c.Epoch...)
	dst = append(dst, '.')
	return append(dst, c.Tag...)
}

// IsZero reports whether c is the zero Cursor, which is not a position.
func (c Cursor) IsZero() bool { return c.Epoch == "" }

// ParseCursor parses the text of a cursor. It checks only the form; a Log checks
// the tag. The error is ErrCursorMalformed.
func ParseCursor(s string) (Cursor, error) {
	dot := len(s) - tagLen - 1 - epochLen - 1
	if dot < 1 || dot > 20 || s[dot] != '.' || s[dot+1+epochLen] != '.' {
		return Cursor{}, ErrCursorMalformed
	}
	seq, ok := parseSeq(s[:dot])
	epoch, tag := s[dot+1:dot+1+epochLen], s[len(s)-tagLen:]
	if !ok || !isBase32(epoch) || !isBase32(tag) {
		return Cursor{}, ErrCursorMalformed
	}
	return Cursor{Seq: seq, Epoch: Epoch(epoch), Tag: tag}, nil
}

// parseSeq accepts the one decimal form of a number: no sign, no leading zero.
func parseSeq(s string) (uint64, bool) {
	if len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	var n uint64
	for i := range len(s) {
		d := uint64(s[i] - '0')
		if d > 9 || n > (1<<64-1-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// base32Digit is true for the digits of crockford.
var base32Digit = func() (t [256]bool) {
	for i := range len(crockford) {
		t[crockford[i]] = true
	}
	return t
}()

func isBase32(s string) bool {
	for i := range len(s) {
		if !base32Digit[s[i]] {
			return false
		}
	}
	return true
}

// base32 encodes b from the highest bit down, the last digit padded with zeros.
func base32(b []byte) string {
	out := make([]byte, 0, (len(b)*8+4)/5)
	var acc, bits uint
	for _, c := range b {
		acc = acc<<8 | uint(c)
		for bits += 8; bits >= 5; bits -= 5 {
			out = append(out, crockford[acc>>(bits-5)&31])
		}
	}
	if bits > 0 {
		out = append(out, crockford[acc<<(5-bits)&31])
	}
	return string(out)
}

// Position says where a Reader begins. The zero Position is the earliest kept event.
type Position struct {
	tail   bool
	cursor Cursor
}

// Earliest is the position just before the first kept event.
func Earliest() Position { return Position{} }

// Tail is the position just after the last event. A reader from there gets new events only.
func Tail() Position { return Position{tail: true} }

// After is the position of a cursor.
func After(c Cursor) Position { return Position{cursor: c} }

// ParsePosition parses a position that a client asks for: "", "0" and "earliest", "tail",
// or the text of a cursor. The error is ErrCursorMalformed.
func ParsePosition(s string) (Position, error) {
	switch s {
	case "", "0", "earliest":
		return Earliest(), nil
	case "tail":
		return Tail(), nil
	}
	c, err := ParseCursor(s)
	return After(c), err
}

// matches reports in constant time whether tag is one of tags.
func matches(tags []string, tag string) bool {
	for _, t := range tags {
		if subtle.ConstantTimeCompare([]byte(t), []byte(tag)) == 1 {
			return true
		}
	}
	return false
}
