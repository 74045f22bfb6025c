package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"reprise"
)

// A snapshot is the state just before the start of a segment, its base. It is a file of frames. They have the number of
// the frame in place of the commit, and the base in place of the salt:
//
//	frame 0       magic, first commit of the base, lastID, number of segments before the base, (number, end), ...
//	frame 1, ...  streams:  id, 0, stream, number of runs, (first less that of the one before, segment, space), ...
//	              marks:    id, 1, until, tenant, name
//	last frame    0, number of streams and marks
//
// Earlier versions wrote the places of all batches in place of the runs:
//
//	streams:  id, 0, stream, number of batches, first, (count, segment, at, size), ...
//
// Appends continue while it is written. A stream that a record is about to change is saved before the change, so that
// the snapshot is the state at one moment.
type snapshot struct {
	number uint32 // number of this snapshot in this Store, from 1
	frame  []byte // the current frame
	saved  uint64 // streams and marks
	done   uint64 // all up to this id are saved
}

const snapshotMagic, oldSnapshotMagic = "reprsnp\x02", "reprsnp\x01"

// tmpName is the name of an incomplete snapshot.
const tmpName = "snapshot.tmp"

func snapshotName(base uint64) string { return fmt.Sprintf("%012d.snapshot", base) }

// save adds st to the current snapshot, if it is not there yet. The caller holds mu for writing.
func (s *state) save(st *stream) {
	snap := s.snapshot
	if snap == nil || st.saved == snap.number {
		return
	}
	st.saved = snap.number
	snap.frame = appendStream(snap.frame, st)
	snap.saved++
}

func appendStream(dst []byte, st *stream) []byte {
	if st.mark {
		dst = appendTime(appendUints(dst, st.id, 1), st.due())
		return appendBytes(appendBytes(dst, st.tenant.name), st.names)
	}
	info := st.info()
	dst = appendInfo(appendUints(dst, st.id, 0), &info)
	dst = appendUints(dst, uint64(st.runs.number()))
	before := uint64(0)
	for r := range st.runs.all() {
		dst = appendUints(dst, r.first-before, uint64(r.segment), uint64(r.space))
		before = r.first
	}
	return dst
}

// stream decodes a stream or a mark of a snapshot.
func (c *cutter) stream(id uint64, head *snapshotHead, values *shared) *stream {
	if c.uint() == 1 {
		until := c.time()
		key := reprise.StreamKey{Tenant: reprise.Tenant(c.text()), Name: c.text()}
		c.bad = c.bad || until.IsZero() || len(key.Name) > maxName
		return values.marked(id, key, until)
	}
	info := c.info()
	c.bad = c.bad || len(info.Key.Name) > maxName
	st := values.stream(id, info)
	n := c.length()
	if head.batches != nil && n > 0 {
		c.oldPlaces(n, st, head)
		return st
	}
	for first := uint64(0); n > 0; n-- {
		first += c.uint()
		st.runs.add(run{first, uint32(c.uint()), uint32(c.uint())})
	}
	return st
}

// oldPlaces decodes the places of batches in a snapshot of an earlier version.
func (c *cutter) oldPlaces(n int, st *stream, head *snapshotHead) {
	for first := c.uint(); n > 0 && !c.bad; n-- {
		b := batch{first: first, count: uint32(c.uint()), segment: uint32(c.uint())}
		b.at, b.size = uint32(c.uint()), uint32(c.uint())
		if b.at < headerBytes || b.end() > head.ends[b.segment] {
			c.bad = true
			return
		}
		if head.batches[b.segment] == nil {
			head.batches[b.segment] = map[uint64]*places{}
		}
		placesOf(head.batches[b.segment], st.id).add(&b)
		st.runs.add(run{first, b.segment, space(int(b.size))})
		first += uint64(b.count)
	}
}

// saveSnapshot starts a segment, writes the state before it as a snapshot, and makes that segment the one from which
// Open reads the log. docs/internals/storage-log.md numbers its steps. A snapshot that pays may use the reserve.
func (s *Store) saveSnapshot(pays bool) error {
	if err := s.disk.remove(tmpName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	base, head, ids, since, err := s.beginSnapshot(pays)
	if err != nil {
		return err
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.snapshot = nil
	}()
	size, err := s.putSnapshot(base, head, ids)
	if err != nil {
		return err
	}
	s.mu.Lock()
	old := s.base
	s.base, s.snapshotBytes = base, size
	s.sinceSnapshot -= since
	s.snapshotAt = s.snapshotAfter()
	s.mu.Unlock()
	if old != 0 {
		// If this fails, the next Open removes the file.
		_ = s.disk.remove(snapshotName(old))
	}
	return nil
}

// putSnapshot writes the file of a snapshot, durable under its name. After a failure it takes no space.
func (s *Store) putSnapshot(base uint64, head []byte, ids []uint64) (size int64, err error) {
	f, err := s.disk.create(tmpName, 0)
	if err != nil {
		return 0, err
	}
	size, err = s.writeSnapshot(f, base, head, ids)
	if err == nil {
		err = f.sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.certain()
	}
	if err == nil {
		err = s.disk.rename(tmpName, snapshotName(base))
	}
	if err != nil {
		return 0, errors.Join(err, s.disk.remove(tmpName))
	}
	return size, s.disk.sync()
}

// certain returns errUncertain if a commit has panicked.
func (s *Store) certain() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.uncertain {
		return errUncertain
	}
	return nil
}

// beginSnapshot rolls to the base. It returns the content of the first frame, the ids to save, and the bytes committed
// since the previous snapshot.
func (s *Store) beginSnapshot(pays bool) (base uint64, head []byte, ids []uint64, since int64, err error) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.uncertain {
		return 0, nil, nil, 0, errUncertain
	}
	roll := s.roll
	if pays {
		roll = s.rollToFree
	}
	if err := roll(0); err != nil {
		return 0, nil, nil, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshots++
	s.snapshot = &snapshot{number: s.snapshots}
	base = s.active.header.number
	head = append(make([]byte, frameBytes), snapshotMagic...)
	head = appendUints(head, s.nextCommit, s.lastID, uint64(len(s.segments)-1))
	for _, seg := range s.segments {
		if seg != s.active {
			head = appendUints(head, seg.header.number, uint64(seg.end))
		}
	}
	return base, head, s.streams.idsOfAll(), s.sinceSnapshot, nil
}

// errStopped ends the work of the keeper when the store is closed.
var errStopped = errors.New("stopped")

// writeSnapshot writes the frames of a snapshot.
func (s *Store) writeSnapshot(f file, base uint64, head []byte, ids []uint64) (size int64, err error) {
	number := uint64(0)
	write := func(frame []byte) error {
		sealFrame(frame, number, base)
		number++
		_, err := f.WriteAt(frame, size)
		size += int64(len(frame))
		return err
	}
	if err := write(head); err != nil {
		return 0, err
	}
	slices.Sort(ids)
	for done := false; !done; {
		if s.keeper.stopped() {
			return 0, errStopped
		}
		var frame []byte
		frame, ids, done = s.saveSome(ids)
		if err := write(frame); err != nil {
			return 0, err
		}
	}
	return size, nil
}

// saveSome saves some of the streams. It returns a frame with these streams and those that were changed meanwhile. The
// last frame holds the total number.
func (s *Store) saveSome(ids []uint64) (frame []byte, rest []uint64, done bool) {
	s.turn <- struct{}{} // nothing that a group has staged goes to rest
	defer func() { <-s.turn }()
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := s.snapshot
	frame = append(make([]byte, frameBytes), snap.frame...)
	snap.frame = frame
	if len(ids) == 0 && len(frame) == frameBytes {
		s.snapshot = nil
		s.streams.shrink()
		return appendUints(frame, 0, snap.saved), nil, true
	}
	n := 0
	for ; n < len(ids) && len(snap.frame) < s.opts.saveChunk; n++ {
		s.saveNext(ids[n])
		snap.done = ids[n]
	}
	frame, snap.frame = snap.frame, nil
	return frame, ids[n:], false
}

// saveNext saves a stream in its turn, and lets it rest if it has not changed since the last time.
func (s *state) saveNext(id uint64) {
	snap := s.snapshot
	if bytes := s.streams.bytes(id); bytes != nil {
		bytes = bytes[:skimSize(bytes)]
		snap.frame = append(snap.frame, bytes...)
		snap.saved++
		s.streams.again(id, bytes)
		return
	}
	st := s.streams.awake[id]
	if st == nil || st.saved == snap.number {
		return
	}
	from := len(snap.frame)
	s.save(st)
	if st.still && !st.trimmed {
		s.streams.rest(id, snap.frame[from:])
	}
	st.still = true
}

// loadSnapshot sets the state to the snapshot with the given base.
func (s *Store) loadSnapshot(base uint64) (head snapshotHead, err error) {
	f, err := s.disk.open(snapshotName(base))
	if err != nil {
		return head, err
	}
	defer f.Close()
	head, err = s.readSnapshot(f, base)
	if err != nil {
		return head, fmt.Errorf("snapshot %d: %w", base, err)
	}
	s.lastID, s.base, s.snapshotBytes = head.lastID, base, head.size
	return head, nil
}

// snapshotHead is frame 0 of a snapshot and the size of the file.
type snapshotHead struct {
	first, lastID uint64
	ends          map[uint32]int64
	size          int64
	batches       map[uint32]map[uint64]*places // of each segment, in one of an earlier version
}

// readSnapshot reads a snapshot into a state that has no streams, and verifies all its checksums.
func (s *state) readSnapshot(f file, base uint64) (head snapshotHead, err error) {
	if head.size, err = f.size(); err != nil {
		return head, err
	}
	var l *loader
	at := int64(0)
	for number := uint64(0); ; number++ {
		frame, found, ok, err := readFrame(f, at, head.size, base, nil) // streams rest in it
		if err != nil {
			return head, err
		}
		if !ok || found != number {
			return head, damaged("frame %d at %d", number, at)
		}
		at += int64(len(frame))
		if number == 0 {
			if err := head.parse(&cutter{b: frame[frameBytes:]}); err != nil {
				return head, err
			}
			l = s.loader(&head)
			continue
		}
		done, ok := l.frame(frame)
		if !ok || done && at != head.size {
			return head, damaged("the content of frame %d at %d", number, at)
		}
		if done {
			l.finish()
			return head, nil
		}
	}
}

func (h *snapshotHead) parse(c *cutter) error {
	switch m := c.take(uint64(len(snapshotMagic))); string(m) {
	case snapshotMagic:
	case oldSnapshotMagic:
		h.batches = map[uint32]map[uint64]*places{}
	default:
		return fmt.Errorf("%w: a snapshot of format %q", ErrNewer, m)
	}
	h.first, h.lastID, h.ends = c.uint(), c.uint(), map[uint32]int64{}
	for range c.length() {
		number := uint32(c.uint())
		h.ends[number] = int64(c.uint())
	}
	if c.bad || len(c.b) > 0 {
		return damaged("the first frame")
	}
	return nil
}

// snapshotPays reports whether a snapshot lets a full disk have back more than it takes: the segments from the base on
// are then no longer needed for their records.
func (s *Store) snapshotPays() bool {
	reserve := s.reserveBytes()
	s.mu.RLock()
	defer s.mu.RUnlock()
	var garbage int64
	for number, seg := range s.segments {
		if uint64(number) >= s.base {
			garbage += seg.end - seg.live
		}
	}
	return garbage > s.leastSegment()+(reserve-s.step)/2
}

// snapshotDue reports whether a snapshot is due. The caller holds mu.
func (s *Store) snapshotDue() bool { return s.sinceSnapshot >= s.snapshotAt }

// snapshotAfter returns how many bytes are committed between two snapshots: enough that the snapshot is no larger than
// what was written since the previous one, and that there is not one for each of the small segments of a disk
// that is nearly full.
func (s *Store) snapshotAfter() int64 {
	return max(s.step, s.snapshotBytes, min(s.opts.SegmentBytes, 16*minSegmentBytes))
}

// postponeSnapshot delays the next snapshot after a failed one.
func (s *Store) postponeSnapshot() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshotAt = s.sinceSnapshot + s.step/4
}
