// Package limit holds the programs that ours are measured against: each does the
// work that nobody can avoid, and nothing else. They check nothing, serve one
// stream, and are no good for anything else.
package limit

import (
	"encoding/binary"
	"sort"
)

const chunkBytes = 64 << 10

// ByteLog keeps the newest events in memory: it copies them, framed by their length, into chunks,
// notes where each begins, and uses the oldest chunk again when there are enough.
type ByteLog struct {
	chunks []*chunk // oldest first
	max    int
	next   uint64 // seq of the next event
}

type chunk struct {
	first uint64
	buf   []byte
	ends  []uint32
}

// NewByteLog makes a log that keeps about max events of size bytes.
func NewByteLog(max, size int) *ByteLog {
	return &ByteLog{max: max*(size+2)/chunkBytes + 1, next: 1}
}

// Append copies event into the log.
func (l *ByteLog) Append(event []byte) {
	n := len(l.chunks)
	if n == 0 || cap(l.chunks[n-1].buf)-len(l.chunks[n-1].buf) < len(event)+binary.MaxVarintLen32 {
		l.turn()
		n = len(l.chunks)
	}
	c := l.chunks[n-1]
	c.buf = binary.AppendUvarint(c.buf, uint64(len(event)))
	c.buf = append(c.buf, event...)
	c.ends = append(c.ends, uint32(len(c.buf)))
	l.next++
}

// turn begins another chunk.
func (l *ByteLog) turn() {
	if len(l.chunks) <= l.max {
		l.chunks = append(l.chunks, &chunk{first: l.next, buf: make([]byte, 0, chunkBytes)})
		return
	}
	oldest := l.chunks[0]
	copy(l.chunks, l.chunks[1:])
	l.chunks[len(l.chunks)-1] = oldest
	oldest.first, oldest.buf, oldest.ends = l.next, oldest.buf[:0], oldest.ends[:0]
}

// After returns the events after seq that lie in one chunk.
func (l *ByteLog) After(seq uint64) []byte {
	i := sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i].first > seq+1 })
	if i == 0 {
		return nil
	}
	c := l.chunks[i-1]
	k := int(seq + 1 - c.first)
	switch {
	case k >= len(c.ends):
		return nil
	case k == 0:
		return c.buf
	}
	return c.buf[c.ends[k-1]:]
}
