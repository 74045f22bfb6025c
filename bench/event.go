package bench

import (
	"bytes"
	"strconv"
	"time"
)

// eventSize is the size of the data of an event in all races.
const eventSize = 200

// mark stands once in the data of each event and nowhere else on the wire, so
// that a reader counts events as fast as it can look at bytes.
const mark = '~'

// stampLen is the length of the time that follows the mark: nanoseconds since 1970, 16 hex digits.
const stampLen = 16

// newPayload is the data of an event: text that needs no escape in any format.
func newPayload() []byte {
	p := bytes.Repeat([]byte("The quick brown fox jumps over the lazy dog. "), 5)[:eventSize]
	p[0] = mark
	stamp(p, time.Unix(0, 0))
	return p
}

// stamp writes t into the payload.
func stamp(payload []byte, t time.Time) {
	digits := payload[1 : 1+stampLen]
	n := uint64(t.UnixNano())
	for i := range digits {
		digits[i] = "0123456789abcdef"[n>>(60-4*i)&15]
	}
}

// stamped returns the time in what follows a mark, if all of it is there.
func stamped(b []byte) (time.Time, bool) {
	if len(b) < 1+stampLen {
		return time.Time{}, false
	}
	n, err := strconv.ParseUint(string(b[1:1+stampLen]), 16, 64)
	return time.Unix(0, int64(n)), err == nil
}
