package logstore

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// segment is a file of commits. Commits are written to the newest one.
type segment struct {
	header
	number uint32 // header.number
	file   file
	name   string
	end    int64 // after the last valid commit
	room   int64 // the length with which the file was made
	live   int64 // bytes of live batches with their checksums; guarded by Store.mu
	failed bool  // a write or sync has failed, so nothing more is written
	stuck  bool  // its batches cannot be copied

	// batches is the index of the segment by stream, if it is in memory, and index the one on the disk otherwise. They
	// are guarded by Store.mu, as is unwritten. Nothing is added to batches once the segment has a successor.
	batches   map[uint64]*places
	index     *index
	unwritten bool // the index stays in memory
	restoring sync.Mutex

	// users is 1 for the Store and 1 for each read under way. At 0 the file is closed.
	users atomic.Int32
}

const maxSegmentBytes = math.MaxUint32

func segmentName(number uint64) string { return fmt.Sprintf("%012d.log", number) }

// newSegment creates the file of a segment, durable with its name and header. If it fails, begun reports that the
// header may nevertheless be found after a crash.
func newSegment(d disk, h header, room int64) (seg *segment, begun bool, err error) {
	var salt [8]byte
	_, _ = rand.Read(salt[:]) // never fails
	h.salt = le.Uint64(salt[:])
	seg = &segment{
		header: h, number: uint32(h.number), name: segmentName(h.number), end: headerBytes, room: room,
		batches: map[uint64]*places{},
	}
	seg.users.Store(1)
	if seg.file, err = d.create(seg.name, room); err != nil {
		return nil, false, err
	}
	_, err = seg.file.WriteAt(h.encode(), 0)
	begun = !isFull(err) // a write without room was short, and lacks the checksum
	if err == nil {
		err = seg.file.sync()
	}
	if err == nil {
		err = d.sync()
	}
	if err != nil {
		return nil, begun, errors.Join(err, seg.file.Close(), d.remove(seg.name))
	}
	return seg, true, nil
}

// release ends the use of seg. The last release closes the file and, if the segment was dropped, removes it.
func (s *Store) release(seg *segment) {
	if seg.users.Add(-1) > 0 {
		return
	}
	if err := errors.Join(seg.file.Close(), s.disk.remove(seg.name)); err != nil {
		s.opts.Logger.Warn("a segment that is not needed any more could not be removed", "file", seg.name, "error", err)
	}
}
