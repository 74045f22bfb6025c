package memstore

import (
	"math"
	"sort"

	"reprise"
)

// history is the batches of one stream, oldest first.
type history struct {
	// chunks from head on are in use; those before it are zero.
	chunks []chunk
	head   int
	// only is the room for the first chunk, which is the only one of most streams.
	only [1]chunk
}

// chunk is a row of consecutive batches whose bytes follow each other in memory.
type chunk struct {
	first  uint64 // seq of the first event
	events uint64
	bytes  []byte
	// marks says where each batch but the last ends, so that a batch that
	// lies alone takes no memory of its own.
	marks []mark
}

// mark is a place between two batches of a chunk.
type mark struct{ bytes, events uint32 } // before it

// next is the seq of the first event after c.
func (c *chunk) next() uint64 { return c.first + c.events }

// append adds a batch behind the last one.
func (h *history) append(first uint64, count int, bytes []byte) {
	if n := len(h.chunks); n > h.head {
		c := &h.chunks[n-1]
		if c.events <= math.MaxUint32 && c.precedes(bytes) {
			if c.marks == nil {
				c.marks = make([]mark, 0, h.expected())
			}
			c.marks = append(c.marks, mark{uint32(len(c.bytes)), uint32(c.events)})
			c.bytes = c.bytes[:len(c.bytes)+len(bytes)]
			c.events += uint64(count)
			return
		}
	}
	h.push(chunk{first: first, events: uint64(count), bytes: bytes})
}

// precedes reports whether b lies just behind the bytes of c, in the same allocation.
func (c *chunk) precedes(b []byte) bool {
	n := len(c.bytes)
	return len(b) > 0 && uint64(n) <= math.MaxUint32 && cap(c.bytes)-n >= len(b) && &c.bytes[:n+1][n] == &b[0]
}

// expected is how many marks the last chunk is likely to get: as many as the one
// before it. So a steady stream allocates once for each chunk.
func (h *history) expected() int {
	const least = 4
	if n := len(h.chunks); n-2 >= h.head {
		return max(least, len(h.chunks[n-2].marks))
	}
	return least
}

// push adds a chunk. When there is no room behind the chunks, and more than half of the
// room is taken by ones that were trimmed, they move to the front instead of growing.
func (h *history) push(c chunk) {
	if h.chunks == nil {
		h.chunks = h.only[:0]
	}
	if n := len(h.chunks); n == cap(h.chunks) && h.head > n/2 {
		live := copy(h.chunks, h.chunks[h.head:])
		clear(h.chunks[live:])
		h.chunks, h.head = h.chunks[:live], 0
	}
	h.chunks = append(h.chunks, c)
	if cap(h.chunks) > len(h.only) {
		h.only[0] = chunk{}
	}
}

// trim drops chunks whose events all have a seq below earliest. Its amortized cost is O(1) for each append.
func (h *history) trim(earliest uint64) {
	for h.head < len(h.chunks) && h.chunks[h.head].next() <= earliest {
		h.chunks[h.head] = chunk{}
		h.head++
	}
	if h.head == len(h.chunks) {
		h.chunks, h.head = h.chunks[:0], 0
	}
}

// read returns the batches from the one that holds the event from on, up to and
// with the first with which they reach maxBytes. The event must be there.
func (h *history) read(from uint64, maxBytes int) []reprise.Batch {
	live := h.chunks[h.head:]
	i := sort.Search(len(live), func(i int) bool { return live[i].next() > from })
	live = live[i:]
	start := live[0].holder(from)

	batches := make([]reprise.Batch, 0, count(live, start, maxBytes))
	for i := 0; len(batches) < cap(batches); i++ {
		c := &live[i]
		for k := start; k <= len(c.marks) && len(batches) < cap(batches); k++ {
			batches = append(batches, c.batch(k))
		}
		start = 0
	}
	return batches
}

// count is how many batches of chunks, from the batch start of the first on, read takes.
func count(chunks []chunk, start, maxBytes int) int {
	total := 0
	for i := range chunks {
		c := &chunks[i]
		begin := int(c.begin(start).bytes)
		if size := len(c.bytes) - begin; size < maxBytes {
			total += len(c.marks) + 1 - start
			maxBytes -= size
			start = 0
			continue
		}
		n := sort.Search(len(c.marks)-start, func(k int) bool { return int(c.marks[start+k].bytes)-begin >= maxBytes })
		return total + n + 1
	}
	return total
}

// holder is the index of the batch that holds the event seq.
func (c *chunk) holder(seq uint64) int {
	at := seq - c.first
	return sort.Search(len(c.marks), func(k int) bool { return uint64(c.marks[k].events) > at })
}

// begin is where the batch k begins.
func (c *chunk) begin(k int) mark {
	if k == 0 {
		return mark{}
	}
	return c.marks[k-1]
}

// batch is the batch k.
func (c *chunk) batch(k int) reprise.Batch {
	begin := c.begin(k)
	endBytes, endEvents := len(c.bytes), c.events
	if k < len(c.marks) {
		endBytes, endEvents = int(c.marks[k].bytes), uint64(c.marks[k].events)
	}
	return reprise.Batch{
		First: c.first + uint64(begin.events),
		Count: int(endEvents - uint64(begin.events)),
		Bytes: c.bytes[begin.bytes:endBytes:endBytes],
	}
}
