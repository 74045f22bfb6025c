package logstore

import (
	"slices"
	"time"

	"reprise"
	"reprise/internal/listing"
	"reprise/store/internal/driver"
)

// state is the state of all streams: the result of all records of the log, applied in order. The same function applies
// a record after its commit and during recovery.
type state struct {
	shared
	streams  streams       // and marks
	lastID   uint64        // the highest one ever assigned
	index    listing.Index // of streams
	open     listing.Index // of those that have not ended
	queue    queue         // of those that have
	marks    queue
	segments map[uint32]*segment
	missing  map[uint32]int64 // live bytes of segments that do not exist, or not yet; while the log is opened
	placed   int64            // runs of all streams
	trimmed  []uint64         // streams whose oldest run has batches that are dropped and still count
	bytes    []byte           // of the stream that went to rest last
	// snapshot is the one being written, if any.
	snapshot *snapshot
}

func newState() state {
	return state{
		shared:  shared{tenants: map[reprise.Tenant]*tenant{}},
		streams: newStreams(), segments: map[uint32]*segment{},
		missing: map[uint32]int64{},
	}
}

// due returns the time at which Sweep removes st, which must be in the queue.
func (st *stream) due() time.Time { return st.end.Expires }

// get returns the stream or mark with a key, to be read, or nil.
func (s *state) get(key reprise.StreamKey) *stream {
	return s.streams.peek(s.streams.find(key), s.tenants)
}

// wake returns the stream or mark with an id, to be changed, or nil.
func (s *state) wake(id uint64) *stream {
	st := s.streams.awake[id]
	if st == nil {
		if st = s.streams.wake(id, &s.shared); st != nil && s.snapshot != nil && id <= s.snapshot.done {
			st.saved = s.snapshot.number
		}
	}
	return st
}

// find returns the stream key, to be read, or the error that says why there is none.
func (s *state) find(key reprise.StreamKey, now time.Time) (*stream, error) {
	st := s.get(key)
	switch {
	case st == nil:
		return nil, reprise.ErrNotFound
	case !st.mark:
		return st, nil
	case st.due().After(now):
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
		st = s.wake(r.id)
	}
	if st == nil {
		return damaged("a record of stream %d, which does not exist", r.id)
	}
	s.save(st)
	st.still = false
	err := s.change(st, r, seg)
	// During a snapshot, what it has of the streams at rest is known by their ids.
	if err == nil && st.end != nil && !st.trimmed && s.snapshot == nil && s.streams.awake[st.id] == st {
		s.bytes = appendStream(s.bytes[:0], st)
		s.streams.rest(st.id, s.bytes)
	}
	return err
}

// change applies a record of a stream.
func (s *state) change(st *stream, r *record, seg *segment) error {
	if st.mark && r.kind != kindRemove {
		return damaged("a record of stream %d, which is a mark", r.id)
	}
	switch r.kind {
	case kindRemove:
		s.remove(st, r.until)
	case kindTrim:
		s.trim(st, r.earliest, r.kept)
	case kindMove:
		return s.move(st, r, seg)
	case kindConfigure:
		s.configure(st, r)
	case kindRenew:
		st.renew(r.epoch)
	default:
		return s.append(st, r, seg)
	}
	return nil
}

func (s *state) create(r *record) error {
	if old := s.wake(s.streams.find(r.info.Key)); old != nil {
		if !old.mark {
			return damaged("stream %d is created over another one", r.id)
		}
		s.save(old)
		s.remove(old, time.Time{})
	}
	if r.id <= s.lastID {
		return damaged("stream %d is created twice", r.id)
	}
	if len(r.info.Key.Name) > maxName {
		return damaged("stream %d has a name of %d bytes", r.id, len(r.info.Key.Name))
	}
	s.add(s.stream(r.id, r.info))
	return nil
}

// add makes a stream or a mark findable. Ids are added in ascending order.
func (s *state) add(st *stream) {
	if s.snapshot != nil {
		st.saved = s.snapshot.number
	}
	s.lastID = max(s.lastID, st.id)
	s.streams.put(st)
	st.tenant.held++
	if st.mark {
		s.marks.add(dueOf(st))
		return
	}
	s.index.Add(st.key(), st.id)
	size := &st.tenant.size
	size.Streams++
	size.Events += st.kept()
	size.Bytes += st.bytes
	size.Overhead += st.overhead()
	if st.end == nil {
		s.open.Add(st.key(), st.id)
	} else {
		s.queue.add(dueOf(st))
	}
}

// counts reports whether a time in the queue, or in the one for marks, is still the time of a stream. One that rests
// may have another one, which take finds out.
func (s *state) counts(marks bool) func(due) bool {
	return func(d due) bool {
		st := s.streams.awake[d.id]
		if st == nil {
			return s.streams.rests(d.id)
		}
		return st.end != nil && st.mark == marks && dueOf(st) == d
	}
}

// remove removes st, or turns it into its mark.
func (s *state) remove(st *stream, until time.Time) {
	wasMark, wasEnded := st.mark, st.end != nil
	defer func() {
		if wasMark {
			s.marks.remove(s.counts(true))
		} else if wasEnded {
			s.queue.remove(s.counts(false))
		}
	}()
	if !wasMark {
		s.hide(st)
	}
	if until.IsZero() {
		s.streams.remove(st)
		if st.tenant.held--; st.tenant.held == 0 {
			delete(s.tenants, st.tenant.name)
		}
		return
	}
	old := *st
	*st = *s.marked(st.id, st.key(), until)
	st.group, st.saved = old.group, old.saved
	s.marks.add(dueOf(st))
}

// hide undoes what add does for streams only, and drops the batches.
func (s *state) hide(st *stream) {
	s.index.Remove(st.key(), st.id)
	if st.end == nil {
		s.open.Remove(st.key(), st.id)
	}
	size := &st.tenant.size
	size.Streams--
	size.Events -= st.kept()
	size.Bytes -= st.bytes
	size.Overhead -= st.overhead()
	s.dropBatches(st, st.tail+1)
}

// dropBatches drops the batches of st whose events are all before earliest. Where that is not a whole run, those whose
// places are on the disk count as live until the keeper has read them.
func (s *state) dropBatches(st *stream, earliest uint64) {
	st.runs.drop(earliest, st.tail+1, func(r run) {
		s.placed--
		s.count(r.segment, -int64(r.space))
	})
	oldest, ok := st.runs.oldest()
	if !ok || oldest.first >= earliest {
		return
	}
	if seg := s.segments[oldest.segment]; seg != nil && seg.batches != nil {
		before := trimming{earliest: earliest}
		p := seg.batches[st.id]
		for b := range p.from(oldest.first) {
			if !before.add(b) {
				break
			}
		}
		s.settle(st, &before)
	} else if !st.trimmed {
		st.trimmed = true
		s.trimmed = append(s.trimmed, st.id)
	}
}

// trimming adds up what the batches of the oldest run take that end before earliest.
type trimming struct {
	earliest, next uint64 // next is the first event of the first other batch, 0 if it was not found
	space          int64
}

func (t *trimming) add(b batch) bool {
	if b.last() >= t.earliest {
		t.next = b.first
		return false
	}
	t.space += b.space()
	return true
}

// settle takes what t has found out of the oldest run of st.
func (s *state) settle(st *stream, t *trimming) {
	oldest, ok := st.runs.oldest()
	if ok && t.next > oldest.first {
		s.count(oldest.segment, -int64(st.runs.settle(t.next, uint32(t.space))))
	}
}

// count adds to the live bytes of a segment.
func (s *state) count(number uint32, bytes int64) {
	if seg := s.segments[number]; seg != nil {
		seg.live += bytes
	} else {
		s.missing[number] += bytes
	}
}

// window sets the window of st and drops the batches before it.
func (s *state) window(st *stream, earliest, tail uint64, kept int64) {
	size := &st.tenant.size
	before := st.kept()
	size.Bytes += kept - st.bytes
	moved := earliest != st.earliest
	st.earliest, st.tail, st.bytes = earliest, tail, kept
	size.Events += st.kept() - before
	if moved {
		s.dropBatches(st, earliest)
	}
}

func (s *state) trim(st *stream, earliest uint64, kept int64) {
	s.window(st, earliest, st.tail, kept)
}

func (s *state) append(st *stream, r *record, seg *segment) error {
	if r.first != st.tail+1 {
		return damaged("a batch that begins with %d in stream %s, whose tail is %d", r.first, st.key(), st.tail)
	}
	s.place(st, r, seg)
	s.placed += int64(st.runs.add(run{r.first, seg.number, space(len(r.bytes))}))
	if r.owner != nil {
		st.extra().owner = *r.owner
	}
	if len(r.producers) > 0 {
		fields := st.extra()
		fields.producers = driver.Remember(slices.Clone(fields.producers), r.producers) // readers keep the old
	}
	if r.end != nil {
		if st.end == nil {
			s.open.Remove(st.key(), st.id)
		}
		st.end = r.end
		s.queue.add(dueOf(st))
	}
	s.window(st, max(st.earliest, r.earliest), r.first+r.count-1, r.kept)
	return nil
}

func (s *state) move(st *stream, r *record, seg *segment) error {
	before, size := st.runs.number(), space(len(r.bytes))
	from, dropped, ok := st.runs.move(r.first, r.first+r.count-1, st.tail+1, size, seg.number)
	if !ok {
		return damaged("batch %d of stream %s is moved and is not there", r.first, st.key())
	}
	s.count(from, -int64(size)-int64(dropped))
	s.placed += int64(st.runs.number() - before)
	s.place(st, r, seg)
	s.dropBatches(st, st.earliest)
	return nil
}

// place adds the batch of r, which is in seg, to the index of that, unless the index is on the disk already.
func (s *state) place(st *stream, r *record, seg *segment) {
	b := r.place()
	if seg.batches != nil {
		placesOf(seg.batches, st.id).add(&b)
	}
	seg.live += b.space()
}
