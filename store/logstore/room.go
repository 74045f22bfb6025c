package logstore

import (
	"fmt"
	"math"
	"syscall"
	"time"

	"reprise"
)

// purpose is what the changes of a group need room on the disk for.
type purpose uint8

const (
	toAdd    purpose = iota // appends, new streams and configurations
	toMove                  // copies that let a segment be removed: they may use the reserve
	toRemove                // removals: they may also use the part of a segment that is held back for them
)

const (
	reserveName = "reserve"
	// heldBack is the divisor that yields the part of a segment for removals.
	heldBack = 16
	// diskShare is the part of the free space that a segment takes at most.
	diskShare = 16
)

// errFull refuses what finds too little room before anything is tried.
var errFull = fmt.Errorf("%w: too little is left beside the reserve", syscall.ENOSPC)

// segmentBytes returns the size of a new segment that fits the disk: Options.SegmentBytes, or a sixteenth of what is
// free if that is less. free is how much that is; a disk that does not tell is taken to be large.
func (s *Store) segmentBytes() (bytes, free int64) {
	most := s.opts.SegmentBytes
	free, err := s.disk.free()
	if err != nil {
		return most, math.MaxInt64
	}
	return max(min(most, free/diskShare), s.leastSegment()), free
}

// leastSegment is the size below which no segment is made for being small.
func (s *Store) leastSegment() int64 { return min(minSegmentBytes, s.opts.SegmentBytes) }

// openReserve takes over the reserve that the last program has left, or makes one. Without one, or on a full disk,
// appends go on in the newest segment.
func (s *Store) openReserve() {
	f, err := s.disk.open(reserveName)
	if err != nil {
		f, err = s.disk.create(reserveName, 0)
	}
	if err != nil {
		return
	}
	s.reserveFile = f
	if size, err := f.size(); err == nil {
		s.reserve.Use(f, size)
	}
	_ = s.holdReserve()
}

// reserveBytes is what a full disk needs to give space back: room for a snapshot and for the batches of a segment.
func (s *Store) reserveBytes() int64 {
	const perRun, perMark = 16, 64
	s.mu.RLock() // the keeper drops segments without the turn
	defer s.mu.RUnlock()
	bytes, marks := max(s.step, s.leastSegment()), int64(s.streams.len())
	for _, seg := range s.segments {
		bytes = max(bytes, min(seg.end, s.opts.SegmentBytes))
	}
	for _, tenant := range s.tenants {
		bytes += tenant.size.Overhead
		marks -= tenant.size.Streams
	}
	return bytes + perRun*s.placed + perMark*marks
}

// holdReserve makes the reserve whole, if it is not. It fails only for lack of room: what cannot be reserved for
// another reason is done without. The caller has the turn.
func (s *Store) holdReserve() error {
	want, held := s.reserveBytes(), s.reserve.Held()
	if held >= want && held <= 2*want {
		return nil
	}
	if _, free := s.segmentBytes(); free < want-held+s.leastSegment() {
		return errFull
	}
	if err := s.reserve.Hold(want); isFull(err) {
		return err
	}
	return nil
}

// makeRoom rolls to a new segment if a frame does not fit into the active one. A part of each segment is held back for
// removals, and the reserve for them and for moves, so that both still work when the disk is full. An append that finds
// no room touches nothing.
func (s *Store) makeRoom(size int64, p purpose) error {
	seg, held := s.active, s.step/heldBack
	if p == toRemove {
		held = 0
	}
	fits := !seg.failed && seg.end+size+held <= seg.room
	if p == toAdd {
		return s.makeRoomToAdd(size, fits)
	}
	if fits {
		return nil
	}
	return s.rollToFree(size)
}

// rollToFree is roll for what gives space back. If there is no room, it takes the reserve, and as little as it can.
func (s *Store) rollToFree(size int64) error {
	err := s.roll(size)
	if isFull(err) && s.reserve.Release() {
		err = s.roll(size)
	}
	if isFull(err) {
		err = s.rollTo(headerBytes + size)
	}
	return err
}

// tight reports whether the disk has less left than the reserve, which is made whole if that is possible. room is then
// the most that a segment may have to move.
func (s *Store) tight() (tight bool, room int64) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	err := s.holdReserve()
	_, free := s.segmentBytes()
	if err == nil && free >= s.reserveBytes() {
		return false, 0
	}
	return true, max(s.active.room-s.active.end-s.step/heldBack, free+s.reserve.Held()-s.leastSegment()/4)
}

// makeRoomToAdd is makeRoom for a frame that adds data. After the disk had no room, nothing is tried until it may have.
func (s *Store) makeRoomToAdd(size int64, fits bool) (err error) {
	if time.Now().Before(s.fullUntil) {
		return errFull
	}
	if !fits {
		if err = s.holdReserve(); err == nil {
			err = s.roll(size)
		}
	}
	if isFull(err) {
		s.foundFull(err)
	}
	return err
}

// foundFull has the keeper make room, unless it has done what it could. The caller has the turn.
func (s *Store) foundFull(err error) {
	if err != errFull { //nolint:errorlint // ours, never wrapped
		s.fullUntil = time.Now().Add(s.opts.tryFull)
	}
	if s.tidied != s.nextCommit {
		s.keeper.ask()
	}
}

// roll starts a new segment for the next commit, of size bytes. The caller has the turn.
func (s *Store) roll(size int64) error {
	bytes, free := s.segmentBytes()
	room := max(bytes, headerBytes+size+bytes/heldBack)
	if room > free {
		return errFull
	}
	err := s.rollTo(room)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.step = bytes
		s.keeper.ask() // the index of the segment before can be written
	}
	return err
}

// rollTo is roll to a segment of a size.
func (s *Store) rollTo(room int64) error {
	if room > maxSegmentBytes {
		return fmt.Errorf("%w: a commit of %d bytes", reprise.ErrInvalid, room-headerBytes)
	}
	if s.nextNumber > math.MaxUint32 {
		return fmt.Errorf("%w: %d segments were written", reprise.ErrQuota, s.nextNumber)
	}
	if s.active != nil && s.active.failed { // what is behind its end will not be used
		_ = s.active.file.Truncate(s.active.end)
	}
	h := header{number: s.nextNumber, first: s.nextCommit}
	if s.active != nil {
		h.prev, h.end = s.active.header.number, uint64(s.active.end)
	}
	s.nextNumber++ // even after a failure: no other file may be mistaken for what is left
	seg, begun, err := newSegment(s.disk, h, room)
	if err != nil {
		if begun && s.active != nil {
			s.active.failed = true // a header that may be durable fixes where it ends
		}
		return err
	}
	if s.active != nil {
		// Return the unused space if possible; correctness does not depend on it.
		_ = s.active.file.Truncate(s.active.end)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = seg
	s.segments[seg.number] = seg
	return nil
}
