package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// parseName returns the number of a segment or snapshot, or 0 for the name of an incomplete snapshot. ours is false for
// any other name.
func parseName(name string) (number uint64, ours bool) {
	if name == tmpName {
		return 0, true
	}
	digits, kind, _ := strings.Cut(name, ".")
	number, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || number == 0 || kind != "log" && kind != "snapshot" || len(digits) != 12 {
		return 0, false
	}
	return number, true
}

// recover reads the newest snapshot and the log after it. Its steps are numbered as in docs/internals/storage-log.md.
func (s *Store) recover() error {
	// Step 1.
	segments, snapshots, err := s.names()
	if err != nil {
		return err
	}
	s.nextNumber, s.nextCommit = 1, 1
	for _, number := range slices.Concat(segments, snapshots) {
		s.nextNumber = max(s.nextNumber, number+1)
	}
	// Step 2.
	base, head := uint64(0), snapshotHead{first: 1}
	if n := len(snapshots); n > 0 {
		base = snapshots[n-1]
		if head, err = s.loadSnapshot(base); err != nil {
			return err
		}
	}
	// Step 3.
	after := segments[len(segmentsBefore(segments, base)):]
	chain, err := s.chain(after, base)
	if err != nil {
		return err
	}
	s.nextCommit, s.snapshotAt = head.first, s.snapshotAfter()
	if err := s.openBefore(segmentsBefore(segments, base), head); err != nil {
		return err
	}
	// Step 4.
	for i, seg := range chain {
		last := i == len(chain)-1
		if !last {
			seg.end = int64(chain[i+1].header.end)
			seg.adoptIndex() // with it, replay makes none
		}
		frame, err := s.replay(seg, last)
		if err != nil {
			return fmt.Errorf("segment %d: %w", seg.number, err)
		}
		if last { // Step 5.
			if err := s.unmarkClosed(); err != nil {
				return err
			}
			if err := s.renew(seg, frame); err != nil {
				return fmt.Errorf("segment %d: %w", seg.number, err)
			}
		}
	}
	// Step 6.
	if err := s.verify(); err != nil {
		return err
	}
	if s.active == nil {
		if err := s.unmarkClosed(); err != nil {
			return err
		}
		if err := s.roll(0); err != nil {
			return err
		}
	}
	// Step 7.
	for i, number := range snapshots {
		if i < len(snapshots)-1 {
			_ = s.disk.remove(snapshotName(number))
		}
	}
	s.dropDead()
	return nil
}

// names returns the numbers of the files, ascending.
func (s *Store) names() (segments, snapshots []uint64, err error) {
	names, err := s.disk.list()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		number, ours := parseName(name)
		switch {
		case !ours:
		case number == 0:
			if err := s.disk.remove(name); err != nil {
				return nil, nil, err
			}
		case strings.HasSuffix(name, ".log"):
			segments = append(segments, number)
		default:
			snapshots = append(snapshots, number)
		}
	}
	slices.Sort(segments)
	slices.Sort(snapshots)
	return segments, snapshots, nil
}

func segmentsBefore(numbers []uint64, base uint64) []uint64 {
	i, _ := slices.BinarySearch(numbers, base)
	return numbers[:i]
}

// openSegment opens a segment and reads its header. begun is false for a file whose creation was interrupted, and to
// which no commit was ever written.
func (s *Store) openSegment(number uint64) (seg *segment, begun bool, err error) {
	f, err := s.disk.open(segmentName(number))
	if err != nil {
		return nil, false, err
	}
	defer func() {
		if err != nil || !begun {
			_ = f.Close()
		}
	}()
	seg = &segment{
		number: uint32(number), name: segmentName(number), end: headerBytes, file: f, batches: map[uint64]*places{},
	}
	seg.users.Store(1)
	size, err := f.size()
	if err != nil {
		return nil, false, err
	}
	seg.room = size
	if size >= headerBytes {
		head := make([]byte, headerBytes)
		if _, err := f.ReadAt(head, 0); err != nil {
			return nil, false, err
		}
		seg.header, err = parseHeader(head)
		if err == nil && seg.header.number != number {
			err = damaged("its header is that of segment %d", seg.header.number)
		}
		if err == nil {
			return seg, true, nil
		}
		if !errors.Is(err, ErrDamaged) {
			return nil, false, fmt.Errorf("segment %d: %w", number, err)
		}
	}
	// The header is durable before anything is written after it.
	empty, zerr := isZero(f, headerBytes, size)
	switch {
	case zerr != nil:
		return nil, false, zerr
	case !empty:
		return nil, false, damaged("segment %d: no header before its commits", number)
	}
	return nil, false, nil
}

func isZero(f io.ReaderAt, from, to int64) (bool, error) {
	chunk := make([]byte, min(max(to-from, 0), 1<<20))
	zero := make([]byte, len(chunk))
	for at := from; at < to; at += int64(len(chunk)) {
		part := chunk[:min(int64(len(chunk)), to-at)]
		if _, err := f.ReadAt(part, at); err != nil {
			return false, err
		}
		if !bytes.Equal(part, zero[:len(part)]) {
			return false, nil
		}
	}
	return true, nil
}

// chain opens the linked segments from base on, oldest first: each header names the previous segment. Other segments
// are remains of failures without content, and are removed.
func (s *Store) chain(numbers []uint64, base uint64) (chain []*segment, err error) {
	defer func() {
		if err != nil {
			for _, seg := range chain {
				_ = seg.file.Close()
			}
		}
	}()
	for _, number := range slices.Backward(numbers) {
		seg, begun, err := s.openSegment(number)
		if err != nil {
			return chain, err
		}
		follows := len(chain) == 0 || chain[len(chain)-1].prev == number
		if begun && follows {
			chain = append(chain, seg)
			continue
		}
		if !begun && follows && len(chain) > 0 {
			return chain, damaged("segment %d has no header", number)
		}
		if begun {
			if err := closeLeftover(seg); err != nil {
				return chain, err
			}
		}
		if err := s.disk.remove(segmentName(number)); err != nil {
			return chain, err
		}
	}
	slices.Reverse(chain)
	if err := checkBegin(chain, base); err != nil {
		return chain, err
	}
	for _, seg := range chain {
		s.segments[seg.number] = seg
	}
	return chain, nil
}

// closeLeftover closes a segment to which the following one does not link. If it holds commits, it is damaged.
func closeLeftover(seg *segment) error {
	empty, err := isZero(seg.file, headerBytes, seg.room)
	_ = seg.file.Close()
	if err == nil && !empty {
		err = damaged("segment %d is not named by the one after it", seg.number)
	}
	return err
}

// checkBegin verifies that a chain begins with the segment base, or with the first segment ever made if base is 0.
func checkBegin(chain []*segment, base uint64) error {
	switch {
	case base == 0 && len(chain) > 0 && (chain[0].prev != 0 || chain[0].first != 1):
		return damaged("segment %d is missing", chain[0].prev)
	case base != 0 && (len(chain) == 0 || chain[0].header.number != base):
		return damaged("segment %d is missing", base)
	}
	return nil
}

// openBefore opens the segments before the base that are listed in the snapshot, and removes the others.
func (s *Store) openBefore(numbers []uint64, head snapshotHead) error {
	for _, number := range numbers {
		end, known := head.ends[uint32(number)]
		if !known {
			if err := s.disk.remove(segmentName(number)); err != nil {
				return err
			}
			continue
		}
		seg, begun, err := s.openSegment(number)
		if err != nil {
			return err
		}
		if !begun {
			return damaged("segment %d has no header", number)
		}
		s.segments[seg.number] = seg
		if seg.end = end; end > seg.room {
			return damaged("segment %d has %d bytes and ends at %d", number, seg.room, end)
		}
		seg.batches = head.batches[seg.number]
		seg.live = s.missing[seg.number]
		delete(s.missing, seg.number)
		seg.adoptIndex()
	}
	return nil
}

// replay applies the commits of a segment. It returns the last one, or nil if there is none. All segments but the last
// must have every commit up to their end. In the last segment the first incomplete commit is the one that was being
// written when the program ended, and nothing may follow it.
func (s *Store) replay(seg *segment, last bool) (frame []byte, err error) {
	if seg.first != s.nextCommit {
		return nil, damaged("it begins with commit %d, %d is the next one", seg.first, s.nextCommit)
	}
	at, limit := int64(headerBytes), seg.end
	if last {
		limit = seg.room
	}
	if limit > seg.room {
		return nil, damaged("it has %d bytes and ends at %d", seg.room, limit)
	}
	buf := []byte(nil)
	for at < limit {
		next, commit, ok, err := readFrame(seg.file, at, limit, seg.salt, buf)
		if err != nil {
			return nil, err
		}
		buf = next
		if !ok || commit != s.nextCommit {
			break
		}
		frame = next
		if err := records(frame, at, func(r *record) error { return s.apply(r, seg) }); err != nil {
			return nil, fmt.Errorf("commit %d at %d: %w", commit, at, err)
		}
		at += int64(len(frame))
		s.sinceSnapshot += int64(len(frame))
		s.nextCommit++
	}
	if !last {
		if at != limit {
			return nil, damaged("no commit %d at %d", s.nextCommit, at)
		}
		return nil, nil
	}
	seg.end = at
	if frame != nil { // buf may hold data read after it
		frame = make([]byte, len(frame))
		if _, err := seg.file.ReadAt(frame, at-int64(len(frame))); err != nil {
			return nil, err
		}
	}
	return frame, s.nothingBehind(seg)
}

// nothingBehind looks for a commit after the end of the last segment. A commit is written only when the previous one is
// durable. If there is one, the data at the end was acknowledged and is damaged.
func (s *Store) nothingBehind(seg *segment) error {
	const overlap = 24
	salt := le.AppendUint64(nil, seg.salt)
	chunk := make([]byte, min(seg.room-seg.end, 1<<20))
	var buf []byte
	for at := seg.end; at < seg.room; at += int64(len(chunk) - overlap) {
		part := chunk[:min(int64(len(chunk)), seg.room-at)]
		if _, err := seg.file.ReadAt(part, at); err != nil {
			return err
		}
		for i := 0; ; i++ {
			n := bytes.Index(part[i:], salt)
			if n < 0 {
				break
			}
			i += n
			var ok bool
			var commit uint64
			var err error
			start := at + int64(i) - 16
			buf, commit, ok, err = readFrame(seg.file, start, seg.room, seg.salt, buf)
			if err != nil {
				return err
			}
			if ok && start >= seg.end && commit >= s.nextCommit {
				return damaged("no commit %d at %d, and commit %d behind it", s.nextCommit, seg.end, commit)
			}
		}
		if len(part) <= overlap || at+int64(len(part)) >= seg.room {
			break
		}
	}
	return nil
}

// renew makes the data read from the last segment durable and makes that segment the active one. It writes the header
// and the last commit again: a sync that failed in the previous program may have left them in memory only, which cannot
// be detected.
func (s *Store) renew(seg *segment, frame []byte) error {
	if err := seg.file.Truncate(seg.end); err != nil {
		return err
	}
	if err := s.reserveAll(seg); err != nil {
		return err
	}
	if _, err := seg.file.WriteAt(seg.header.encode(), 0); err != nil {
		return err
	}
	if _, err := seg.file.WriteAt(frame, seg.end-int64(len(frame))); err != nil {
		return err
	}
	if err := seg.file.sync(); err != nil {
		return err
	}
	s.active = seg
	return s.disk.sync()
}

// reserveAll reserves the rest of a segment, or on a full disk as much of it as there is, mostly for removals. Without
// any the next commit rolls.
func (s *Store) reserveAll(seg *segment) error {
	seg.room = max(s.step, seg.end)
	for seg.file.Allocate(seg.room) != nil {
		if err := seg.file.Truncate(seg.end); err != nil { // some file systems keep what they could reserve
			return err
		}
		if seg.room -= (seg.room - seg.end + 1) / 2; seg.room-seg.end < leastReserve {
			seg.room = seg.end
			break
		}
	}
	return nil
}

// leastReserve is the room for which it is worth to reserve space.
const leastReserve = 256

// verify checks that what lies in a segment lies in one that exists. What was dropped before the snapshot may count
// still.
func (s *Store) verify() error {
	ids := s.trimmed
	s.trimmed = nil
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		if st := s.wake(id); st != nil && !st.mark {
			st.trimmed = false
			s.dropBatches(st, st.earliest)
		}
	}
	for number, live := range s.missing {
		if live != 0 {
			return damaged("%d bytes of streams lie in segment %d, which is not there", live, number)
		}
	}
	for _, seg := range s.segments {
		if seg.live > seg.end-headerBytes {
			return damaged("segment %d has %d bytes, and streams have %d of it", seg.number, seg.end, seg.live)
		}
	}
	return nil
}
