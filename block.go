package reprise

import (
	"io"
	"iter"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	minBlock = 512
	maxBlock = 64 << 10
	// growth is how many times the next block fits into the earlier ones. With fewer, more memory waits for events;
	// with more, blocks are so small that their heads count.
	growth = 4
	// maxShared is the size up to which large batches share a block.
	maxShared = 128 << 10
	// page is the unit in which the runtime allocates memory for blocks that are larger than 32 KiB.
	page = 8 << 10
)

// block is a run of encoded events in memory. Events are added at the end and never moved or changed, so slices that a
// reader has taken stay valid.
type block struct {
	first uint64
	// buf holds the records, ends the end of each. Both are replaced by longer slices of the same memory, under
	// live.mu.
	buf  []byte
	ends []uint32
	// cold is true for a block that was read from the store for one reader.
	cold bool
	// held is the memory of the stream's blocks up to this one, at most growth * maxBlock.
	held int32

	wire atomic.Pointer[wire] // nil before the first reader
}

// wire is the wire form of the events of a block, shared by all readers.
type wire struct {
	mu  sync.Mutex
	enc Encoder
	buf []byte
	// ends holds the end of each event's frame. It is shorter than block.ends until a reader requests the newest
	// events.
	ends []uint32
}

// Encoder makes the wire form of events. A Log keeps the wire form that the first Encoder made
// of the newest events, so that it is made once for all readers. Encoders are compared
// with ==.
type Encoder interface {
	// AppendEvent appends the wire form of e to dst. The text of the cursor
	// just after e is its seq in decimal followed by cursorSuffix. It must
	// depend on nothing else and must not keep e.Data.
	AppendEvent(dst []byte, e *Event, cursorSuffix string) []byte
}

// newBlock returns an empty block with room for size bytes, for events after the ones in before, which is nil for the
// first block of a stream. Blocks grow from minBlock to maxBlock, by a part of what the stream has. So a quiet stream
// uses little memory, and little of it is for events that may never come.
func newBlock(first uint64, size int, before *block) *block {
	held := 0
	if before != nil {
		held = max(int(before.held), cap(before.buf))
	}
	room := max(size, min(max(held/growth, minBlock), maxBlock))
	switch {
	case room < maxBlock:
		room -= room % size // what is left could not be used by another batch of this size
	case size > maxBlock/8:
		room = roomForBatches(size, room)
	}
	buf := slices.Grow([]byte(nil), room) // which uses all of the memory that the runtime gives for it
	return &block{first: first, buf: buf, held: int32(min(held+cap(buf), growth*maxBlock))}
}

// roomForBatches returns room for a whole number of batches of size bytes, with the least memory for each of them. A
// block of maxBlock could have lost nearly half of its memory, where the next batch does not fit. It returns room if
// size is too large to share a block.
func roomForBatches(size, room int) int {
	best := 0
	for n := max(1, maxBlock/size); n*size <= maxShared; n++ {
		pages := (n*size + page - 1) / page * page
		if best == 0 || pages*best < room*n {
			best, room = n, pages
		}
	}
	return room
}

// pageBlock returns a block of the first batches of a page from the store, and the remaining batches. A long batch is
// used in place; short ones are joined.
func pageBlock(batches []Batch) (b *block, rest []Batch, err error) {
	b = &block{first: batches[0].First, buf: batches[0].Bytes, cold: true}
	count, size, n := batches[0].Count, len(b.buf), 1
	for ; n < len(batches) && size < longBatch; n++ {
		count += batches[n].Count
		size += len(batches[n].Bytes)
	}
	if n > 1 {
		b.buf = make([]byte, 0, size)
		for _, batch := range batches[:n] {
			b.buf = append(b.buf, batch.Bytes...)
		}
	}
	if b.ends, err = recordEnds(b.buf, count); err != nil {
		return nil, nil, err
	}
	return b, batches[n:], nil
}

// longBatch is the size from which a batch becomes a block of its own.
const longBatch = 16 << 10

// recordEnds returns the ends of the count records in b.
func recordEnds(b []byte, count int) ([]uint32, error) {
	ends := make([]uint32, 0, count)
	warm(b)
	for start := 0; start < len(b); {
		end, err := recordEnd(b, start)
		if err != nil {
			return nil, err
		}
		ends = append(ends, uint32(end))
		start = end
	}
	if len(ends) != count {
		return nil, errBatch
	}
	return ends, nil
}

// warm reads a byte of each cache line of b. A walk over records waits for memory once per record, because the
// beginning of a record follows from the one before. The reads of warm do not wait for each other. They save a third of
// the time of a long replay.
//
//go:noinline
func warm(b []byte) (sum byte) {
	const line = 64
	for i := 0; i < len(b); i += line {
		sum |= b[i]
	}
	return sum
}

// extend replaces buf and ends by longer slices. The longer buf shares its memory, while ends may have moved. Pointers
// that stay are not written, since the collector examines each write.
func (b *block) extend(buf []byte, ends []uint32) {
	b.buf = b.buf[:len(buf)]
	if len(b.ends) > 0 && &b.ends[0] == &ends[0] {
		b.ends = b.ends[:len(ends)]
	} else {
		b.ends = ends
	}
}

// cut drops the events after tail, which are in the store but not yet published by the Log. If they were delivered,
// another caller could get an older tail afterwards, and a cursor after them would be refused as ahead of it.
func (b *block) cut(tail uint64) {
	if b.last() > tail {
		b.ends = b.ends[:max(tail+1, b.first)-b.first]
		b.buf = b.buf[:startOf(b.ends, len(b.ends))]
	}
}

func (b *block) last() uint64 { return b.first + uint64(len(b.ends)) - 1 }

// eventsFrom returns the events of b from seq first on.
func (b *block) eventsFrom(first uint64, suffix string) Events {
	return Events{block: b, buf: b.buf, ends: b.ends, lo: int(first - b.first), suffix: suffix}
}

// Events is a sequence of consecutive events that a Reader returned. It stays valid for as long as it is
// kept. The zero Events is empty.
type Events struct {
	block  *block
	buf    []byte
	ends   []uint32 // of all events of the block up to the last of these events
	lo     int      // index of the first event in ends
	suffix string
}

// Len returns the number of events.
func (r Events) Len() int { return len(r.ends) - r.lo }

// First returns the seq of the first event of a run that is not empty.
func (r Events) First() uint64 { return r.block.first + uint64(r.lo) }

// Last returns the seq of the last event of a run that is not empty.
func (r Events) Last() uint64 { return r.block.first + uint64(len(r.ends)) - 1 }

// All yields the events. They share their data with other readers: it must not be changed.
func (r Events) All() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		var e Event
		for i := r.lo; i < len(r.ends); i++ {
			r.event(&e, i)
			if !yield(e) {
				return
			}
		}
	}
}

// event decodes the event at index i of the block into e. Blocks were encoded here or checked by pageBlock, so only a
// record with an invalid type length can fail to decode. It comes out empty.
func (r Events) event(e *Event, i int) {
	if err := decodeRecord(e, r.buf[startOf(r.ends, i):r.ends[i]]); err != nil {
		*e = Event{}
	}
	e.Seq = r.block.first + uint64(i)
}

func startOf(ends []uint32, i int) uint32 {
	if i == 0 {
		return 0
	}
	return ends[i-1]
}

// CursorSuffix returns the part of the cursors of the run after the seq, which an Encoder gets.
func (r Events) CursorSuffix() string { return r.suffix }

// Encoded returns the wire form of the events, one after the other. The
// result is shared with other readers and must not be changed.
func (r Events) Encoded(enc Encoder) []byte {
	if r.Len() == 0 {
		return nil
	}
	if shared, ok := r.block.shared().encoded(r, enc); ok {
		return shared
	}
	dst, _ := r.encode(nil, enc, r.lo, math.MaxInt) // outside the lock: the others do not wait for it
	return dst
}

// shared returns the wire form that readers of the block share.
func (b *block) shared() *wire {
	if w := b.wire.Load(); w != nil {
		return w
	}
	b.wire.CompareAndSwap(nil, new(wire))
	return b.wire.Load()
}

// encode appends the wire form of the events from index i on to dst, until dst has at least enough bytes. It returns
// the index of the first remaining event.
func (r Events) encode(dst []byte, enc Encoder, i, enough int) ([]byte, int) {
	var e Event
	for ; i < len(r.ends) && len(dst) < enough; i++ {
		r.event(&e, i)
		dst = enc.AppendEvent(dst, &e, r.suffix)
	}
	return dst, i
}

// pieces are buffers for the pieces of WriteEncoded.
var pieces = sync.Pool{New: func() any {
	b := make([]byte, 0, pieceBytes+pieceBytes/8)
	return &b
}}

// maxPiece bounds the buffers that are kept, pieceBytes is the size at which a piece is written.
const (
	pieceBytes = 64 << 10
	maxPiece   = 2 * pieceBytes
)

// WriteEncoded writes the wire form of the events to w, in few pieces. The
// bytes are the same as from Encoded. Of events that were read from the store for this reader alone, only one piece
// is in memory at a time, in the buffer of w if w has one: a method AvailableBuffer as bufio.Writer has it. w must
// not keep what is written.
func (r Events) WriteEncoded(w io.Writer, enc Encoder) error {
	if r.Len() == 0 {
		return nil
	}
	if !r.block.cold {
		_, err := w.Write(r.Encoded(enc))
		return err
	}
	if buffered, ok := w.(bufferedWriter); ok {
		return r.writeBuffered(buffered, enc)
	}
	piece := pieces.Get().(*[]byte)
	defer func() {
		if cap(*piece) <= maxPiece {
			pieces.Put(piece)
		}
	}()
	for i := r.lo; i < len(r.ends); {
		*piece, i = r.encode((*piece)[:0], enc, i, pieceBytes)
		if _, err := w.Write(*piece); err != nil {
			return err
		}
	}
	return nil
}

// bufferedWriter is what WriteEncoded uses of a bufio.Writer.
type bufferedWriter interface {
	io.Writer
	AvailableBuffer() []byte
}

// bufferSlack is the room that writeBuffered leaves for the event that it encodes last.
const bufferSlack = 8 << 10

// writeBuffered encodes the events into the buffer of w. Near its end events are written one by one.
func (r Events) writeBuffered(w bufferedWriter, enc Encoder) error {
	for i := r.lo; i < len(r.ends); {
		var b []byte
		free := w.AvailableBuffer()
		b, i = r.encode(free, enc, i, max(1, cap(free)-bufferSlack))
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// frameOverhead is an estimate of the size of a frame in addition to its record, for the size of buffers.
const frameOverhead = 160

// wireSize estimates the size of the wire form of the events.
func (r Events) wireSize() int {
	if r.Len() == 0 {
		return 0
	}
	return int(r.ends[len(r.ends)-1]-startOf(r.ends, r.lo)) + r.Len()*frameOverhead
}

// encoded returns the events of r if w has the form of enc, the one that the first call asked for.
func (w *wire) encoded(r Events, enc Encoder) (shared []byte, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.enc == nil {
		w.enc = enc
	}
	if w.enc != enc {
		return nil, false
	}
	w.extend(r)
	from := startOf(w.ends, r.lo)
	to := w.ends[len(r.ends)-1]
	return w.buf[from:to:to], true
}

// extend encodes the events of r that w lacks.
func (w *wire) extend(r Events) {
	missing := len(r.ends) - len(w.ends)
	if missing <= 0 {
		return
	}
	if missing > 1 {
		bytes := len(r.buf) - int(startOf(r.ends, len(w.ends)))
		w.buf = slices.Grow(w.buf, bytes+missing*frameOverhead)
		w.ends = slices.Grow(w.ends, missing)
	}
	var e Event
	for i := len(w.ends); i < len(r.ends); i++ {
		r.event(&e, i)
		w.buf = w.enc.AppendEvent(w.buf, &e, r.suffix)
		w.ends = append(w.ends, uint32(len(w.buf)))
	}
}

// sizeIndex records how many bytes of a stream precede a seq, in steps that are small compared with the kept bytes. It
// answers how far to trim to free some bytes, and how many bytes a trim frees.
//
// The bytes that were kept when the stream came into memory are one coarse step. It is measured from its oldest events
// on, as far as trims need it, so that a large stream is not read completely.
type sizeIndex struct {
	steps []sizeStep // oldest first
	total int64      // of all steps
	// coarse is the number of steps up to and including the unmeasured one; 0 if there is none.
	coarse int
}

// sizeStep is the size of the events after the previous step, up to last.
type sizeStep struct {
	last  uint64
	bytes int64
}

// stepShare bounds a step to this part of the kept bytes.
const stepShare = 256

func (x *sizeIndex) reset(info *StreamInfo) {
	*x = sizeIndex{}
	if info.Bytes > 0 {
		x.steps = []sizeStep{{last: info.Tail, bytes: info.Bytes}}
		x.total = info.Bytes
		x.coarse = 1
	}
}

// add counts a batch.
func (x *sizeIndex) add(last uint64, bytes int64) {
	x.total += bytes
	n := len(x.steps)
	if n > x.coarse && x.steps[n-1].bytes+bytes <= x.total/stepShare {
		x.steps[n-1].last = last
		x.steps[n-1].bytes += bytes
		return
	}
	x.steps = append(x.steps, sizeStep{last, bytes})
}

// before removes the entries wholly before seq earliest and returns their bytes.
func (x *sizeIndex) before(earliest uint64) (bytes int64) {
	n := 0
	for n < len(x.steps) && x.steps[n].last < earliest {
		bytes += x.steps[n].bytes
		n++
	}
	x.steps = x.steps[n:]
	x.total -= bytes
	x.coarse = max(0, x.coarse-n)
	return bytes
}

// oldest returns the seq up to which the events from earliest on count at least over bytes, or all if they count less;
// see eventOverhead. ok is false if the coarse step would have to be divided for it.
func (x *sizeIndex) oldest(earliest uint64, over int64) (last uint64, ok bool) {
	before := earliest - 1
	n := len(x.steps)
	all := n == 0 || over >= x.total+eventOverhead*int64(x.steps[n-1].last-before)
	for i, step := range x.steps {
		if over <= 0 {
			break
		}
		if i == x.coarse-1 && !all {
			return 0, false
		}
		over -= step.bytes + eventOverhead*int64(step.last-before)
		last, before = step.last, step.last
	}
	return last, true
}

// unmeasured returns the range of the coarse step; ok is false if there is none.
func (x *sizeIndex) unmeasured(earliest uint64) (first, last uint64, ok bool) {
	if x.coarse == 0 {
		return 0, 0, false
	}
	first = earliest
	if x.coarse > 1 {
		first = x.steps[x.coarse-2].last + 1
	}
	return first, x.steps[x.coarse-1].last, true
}

// measured divides the coarse step: batches are its oldest ones, and the first one contains the event first. It
// returns the error of the total once the whole step is measured.
func (x *sizeIndex) measured(first uint64, batches []Batch) (correction int64) {
	coarse := x.steps[x.coarse-1]
	known := sizeIndex{steps: slices.Clone(x.steps[:x.coarse-1]), total: x.total}
	total := x.total
	for _, b := range batches {
		if b.Last() < first || b.First > coarse.last {
			continue
		}
		size := int64(len(b.Bytes))
		known.total -= size // which add counts again: the total covers the whole index
		known.add(min(b.Last(), coarse.last), size)
		coarse.bytes -= size
	}
	n := len(known.steps)
	rest := x.steps[x.coarse:]
	x.coarse = 0
	if n == 0 || known.steps[n-1].last < coarse.last {
		coarse.bytes = max(coarse.bytes, 0)
		known.steps = append(known.steps, coarse)
		x.coarse = n + 1
	}
	x.steps = append(known.steps, rest...)
	x.total = 0
	for _, step := range x.steps {
		x.total += step.bytes
	}
	return x.total - total
}

// bytesBefore returns the result that before would have.
func (x *sizeIndex) bytesBefore(earliest uint64) (bytes int64) {
	for _, step := range x.steps {
		if step.last < earliest {
			bytes += step.bytes
		}
	}
	return bytes
}
