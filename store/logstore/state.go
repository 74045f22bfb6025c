package logstore

import (
	"slices"
	"sort"
	"time"

	"reprise"
	"reprise/internal/listing"
	"reprise/store/internal/driver"
)

// state is the state of all streams: the result of all records of the log, applied in order. The same function applies
// a record after its commit and during recovery.
type state struct {
	byKey    map[reprise.StreamKey]*stream // streams and marks
	byID     map[uint64]*stream            // the same
	lastID   uint64                        // the highest one ever assigned
	index    listing.Index                 // of streams
	tenants  map[reprise.Tenant]*reprise.Size
	queue    queue
	segments map[uint32]*segment
	placed   int64 // batches of all streams
	// snapshot is the one being written, if any.
	snapshot *snapshot
}

// stream is a stream or, if until is set, the mark of a removed one.
type stream struct {
	id      uint64
	info    reprise.StreamInfo
	batches []batch // without gaps, oldest first
	until   time.Time
	size    *reprise.Size // of the tenant; nil for a mark
	place   int           // in the queue, or -1
	group   uint64        // number of the newest group that changes the stream
	saved   uint64        // number of the newest snapshot that has the stream or does not need it
}

// batch is the place of a batch: its checksum, followed by its bytes.
type batch struct {
	first   uint64
	count   uint32
	segment uint32
	at      uint32
	size    uint32 // of the bytes
}

func (b *batch) last() uint64 { return b.first + uint64(b.count) - 1 }
func (b *batch) end() int64   { return int64(b.at) + b.space() }

// space is what b takes in its segment. It is never 0: a segment without live bytes is removed.
func (b *batch) space() int64 { return sumBytes + int64(b.size) }

func newState() state {
	return state{
		byKey: map[reprise.StreamKey]*stream{}, byID: map[uint64]*stream{},
		tenants: map[reprise.Tenant]*reprise.Size{}, segments: map[uint32]*segment{},
	}
}

func (st *stream) isMark() bool { return !st.until.IsZero() }

// due returns the time at which Sweep removes st, which must be in the queue.
func (st *stream) due() time.Time {
	if st.isMark() {
		return st.until
	}
	return st.info.End.Expires
}

// find returns the stream key, or the error that says why there is none.
func (s *state) find(key reprise.StreamKey, now time.Time) (*stream, error) {
	st := s.byKey[key]
	switch {
	case st == nil:
		return nil, reprise.ErrNotFound
	case !st.isMark():
		return st, nil
	case st.until.After(now):
		return nil, reprise.ErrExpired
	}
	return nil, reprise.ErrNotFound
}

// apply applies a record that is in seg. An error wraps ErrDamaged: a record that was checked before it was written
// always applies.
func (s *state) apply(r *record, seg *segment) error {
	if r.kind == kindClose {
		return nil
	}
	if r.kind == kindCreate {
		return s.create(r)
	}
	st := r.stream
	if st == nil {
		st = s.byID[r.id]
	}
	if st == nil {
		return damaged("a record of stream %d, which does not exist", r.id)
	}
	s.save(st)
	if r.kind == kindRemove {
		s.remove(st, r.until)
		return nil
	}
	if st.isMark() {
		return damaged("a record of stream %d, which is a mark", r.id)
	}
	switch r.kind {
	case kindTrim:
		s.trim(st, r.earliest, r.kept)
	case kindMove:
		return s.move(st, r, seg)
	case kindConfigure:
		s.configure(st, r)
	case kindRenew:
		st.info.Renew(r.epoch)
	default:
		return s.append(st, r, seg)
	}
	return nil
}

func (s *state) create(r *record) error {
	if old := s.byKey[r.info.Key]; old != nil {
		if !old.isMark() {
			return damaged("stream %d is created over another one", r.id)
		}
		s.save(old)
		s.remove(old, time.Time{})
	}
	if r.id <= s.lastID {
		return damaged("stream %d is created twice", r.id)
	}
	s.add(&stream{id: r.id, info: *r.info})
	return nil
}

// add makes a stream or a mark findable. Ids are added in ascending order.
func (s *state) add(st *stream) {
	st.place = -1
	if s.snapshot != nil {
		st.saved = s.snapshot.number
	}
	s.lastID = max(s.lastID, st.id)
	s.placed += int64(len(st.batches))
	s.byID[st.id], s.byKey[st.info.Key] = st, st
	if st.isMark() {
		s.queue.add(st)
		return
	}
	s.index.Add(st.info.Key, st.id)
	size := s.tenants[st.info.Key.Tenant]
	if size == nil {
		size = &reprise.Size{}
		s.tenants[st.info.Key.Tenant] = size
	}
	st.size = size
	size.Streams++
	size.Events += int64(st.info.Kept())
	size.Bytes += st.info.Bytes
	size.Overhead += st.info.Overhead()
	if st.info.End != nil {
		s.queue.add(st)
	}
}

// remove removes st, or turns it into its mark.
func (s *state) remove(st *stream, until time.Time) {
	s.queue.remove(st)
	if !st.isMark() {
		s.hide(st)
	}
	if until.IsZero() {
		delete(s.byID, st.id)
		delete(s.byKey, st.info.Key)
		return
	}
	st.until = until
	st.info = reprise.StreamInfo{Key: st.info.Key}
	s.queue.add(st)
}

// hide undoes what add does for streams only, and drops the batches.
func (s *state) hide(st *stream) {
	s.index.Remove(st.info.Key, st.id)
	size := st.size
	st.size = nil
	size.Events -= int64(st.info.Kept())
	size.Bytes -= st.info.Bytes
	size.Overhead -= st.info.Overhead()
	if size.Streams--; size.Streams == 0 {
		delete(s.tenants, st.info.Key.Tenant)
	}
	s.dropBatches(st, len(st.batches))
}

// dropBatches drops the first n batches of st.
func (s *state) dropBatches(st *stream, n int) {
	s.placed -= int64(n)
	for _, b := range st.batches[:n] {
		s.count(b.segment, -b.space())
	}
	switch st.batches = st.batches[n:]; {
	case len(st.batches) == 0:
		st.batches = nil
	case n > len(st.batches): // give back the memory
		st.batches = slices.Clone(st.batches)
	}
}

// count adds to the live bytes of a segment. During recovery the segment may not exist anymore.
func (s *state) count(number uint32, bytes int64) {
	if seg := s.segments[number]; seg != nil {
		seg.live += bytes
	}
}

// window sets the window of st and drops the batches before it.
func (s *state) window(st *stream, earliest, tail uint64, kept int64) {
	size := st.size
	before := int64(st.info.Kept())
	size.Bytes += kept - st.info.Bytes
	st.info.Earliest, st.info.Tail, st.info.Bytes = earliest, tail, kept
	size.Events += int64(st.info.Kept()) - before
	n := 0
	for n < len(st.batches) && st.batches[n].last() < earliest {
		n++
	}
	if n > 0 {
		s.dropBatches(st, n)
	}
}

func (s *state) trim(st *stream, earliest uint64, kept int64) {
	s.window(st, earliest, st.info.Tail, kept)
}

func (s *state) append(st *stream, r *record, seg *segment) error {
	if r.first != st.info.Tail+1 {
		return damaged("a batch that begins with %d in stream %s, whose tail is %d", r.first, st.info.Key, st.info.Tail)
	}
	b := batch{
		first: r.first, count: uint32(r.count), segment: seg.number, at: uint32(r.at), size: uint32(len(r.bytes)),
	}
	st.batches = append(st.batches, b)
	s.placed++
	seg.live += b.space()
	if r.owner != nil {
		st.info.Owner = *r.owner
	}
	if len(r.producers) > 0 {
		st.info.Producers = driver.Remember(slices.Clone(st.info.Producers), r.producers) // readers keep the old
	}
	if r.end != nil {
		st.info.End = r.end
		s.queue.add(st)
	}
	s.window(st, max(st.info.Earliest, r.earliest), r.first+r.count-1, r.kept)
	return nil
}

// holder returns the index of the batch that holds the event seq, or of the next one.
func (st *stream) holder(seq uint64) int {
	return sort.Search(len(st.batches), func(i int) bool { return st.batches[i].last() >= seq })
}

// batch returns the batch that begins with first, or nil.
func (st *stream) batch(first uint64) *batch {
	if i := st.holder(first); i < len(st.batches) && st.batches[i].first == first {
		return &st.batches[i]
	}
	return nil
}

func (s *state) move(st *stream, r *record, seg *segment) error {
	b := st.batch(r.first)
	if b == nil || uint64(b.count) != r.count || int(b.size) != len(r.bytes) {
		return damaged("batch %d of stream %s is moved and is not there", r.first, st.info.Key)
	}
	s.count(b.segment, -b.space())
	seg.live += b.space()
	b.segment, b.at = seg.number, uint32(r.at)
	return nil
}
