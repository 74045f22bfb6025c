package logstore

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"reprise"
)

// segment is a file of commits. The newest one is written to.
type segment struct {
	header
	number uint32 // header.number
	file   file
	name   string
	end    int64 // behind the last commit that counts
	room   int64 // the length that the file was made with
	live   int64 // bytes of batches that are in the state; guarded by Store.mu
	failed bool  // a write or sync has failed, so that nothing more is written to it
	stuck  bool  // its batches cannot be copied
	// users is 1 for the Store and 1 for each read under way. At 0 the file goes.
	users atomic.Int32
}

const maxSegmentBytes = math.MaxUint32

func segmentName(number uint64) string { return fmt.Sprintf("%012d.log", number) }

// newSegment makes the file of a segment, durable with its name and header. If it fails, begun says that the header may
// be found after a crash all the same.
func newSegment(d disk, h header, room int64) (seg *segment, begun bool, err error) {
	var salt [8]byte
	_, _ = rand.Read(salt[:]) // which never fails
	h.salt = le.Uint64(salt[:])
	seg = &segment{header: h, number: uint32(h.number), name: segmentName(h.number), end: headerBytes, room: room}
	seg.users.Store(1)
	if seg.file, err = d.create(seg.name, room); err != nil {
		return nil, false, err
	}
	_, err = seg.file.WriteAt(h.encode(), 0)
	if err == nil {
		err = seg.file.sync()
	}
	if err == nil {
		err = d.sync()
	}
	if err != nil {
		return nil, true, errors.Join(err, seg.file.Close(), d.remove(seg.name))
	}
	return seg, true, nil
}

// roll begins a new segment, in which the next commit is the first. The caller has the turn.
func (s *Store) roll(least int64) error {
	room := max(s.opts.SegmentBytes, headerBytes+least)
	if room > maxSegmentBytes {
		return fmt.Errorf("%w: a commit of %d bytes", reprise.ErrInvalid, least)
	}
	if s.nextNumber > math.MaxUint32 {
		return fmt.Errorf("%w: %d segments were written", reprise.ErrQuota, s.nextNumber)
	}
	h := header{number: s.nextNumber, first: s.nextCommit}
	if s.active != nil {
		h.prev, h.end = s.active.header.number, uint64(s.active.end)
	}
	s.nextNumber++ // also if it fails: whatever is left of the file is not taken for another
	seg, begun, err := newSegment(s.disk, h, room)
	if err != nil {
		if begun && s.active != nil {
			s.active.failed = true // a header that may be durable says where it ends
		}
		return err
	}
	if s.active != nil {
		// The space behind the end is given back, if it can be: nothing relies on it.
		_ = s.active.file.truncate(s.active.end)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = seg
	s.segments[seg.number] = seg
	return nil
}

// release is called by who has used seg. The last one closes the file and, if it was dropped, removes it.
func (s *Store) release(seg *segment) {
	if seg.users.Add(-1) > 0 {
		return
	}
	if err := errors.Join(seg.file.Close(), s.disk.remove(seg.name)); err != nil {
		s.opts.Logger.Warn("a segment that is not needed any more could not be removed", "file", seg.name, "error", err)
	}
}
