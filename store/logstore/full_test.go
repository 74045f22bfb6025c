package logstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"reprise"
)

// fillDisk appends to stream a until the disk is full, and returns the tail.
func fillDisk(t *testing.T, s *Store) (tail uint64) {
	t.Helper()
	for ; ; tail++ {
		errs := s.Append(t.Context(), []reprise.AppendRequest{{
			Key: testKey("a"), Epoch: "e", First: tail + 1, Count: 1, Bytes: make([]byte, 300), Earliest: 1,
			Kept: int64(tail+1) * 300,
		}})
		switch {
		case errs == nil && tail < 1000:
		case errs == nil || !errors.Is(errs[0], reprise.DiskFull):
			t.Fatalf("append %d: %v", tail+1, errs)
		default:
			return tail
		}
	}
}

// openFull opens a store on a disk of a few segments, with a stream a that fills it.
func openFull(t *testing.T) (s *Store, d *simDisk, tail uint64) {
	t.Helper()
	d = newSimDisk()
	o := exploreOptions()
	d.quota = 8 * o.SegmentBytes
	s, err := open(d, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if _, err := s.Create(t.Context(), reprise.StreamInfo{Key: testKey(name), Epoch: "e"}); err != nil {
			t.Fatal(err)
		}
	}
	return s, d, fillDisk(t, s)
}

// used is the bytes that all files have.
func (d *simDisk) used() (bytes int64) {
	for _, f := range d.names {
		bytes += int64(len(f.data))
	}
	return bytes
}

// TestReopenOnFullDiskKeepsRoomForRemovals: a store that is opened on a disk without room for another segment takes
// what it needs for removals, and no more than it uses.
func TestReopenOnFullDiskKeepsRoomForRemovals(t *testing.T) {
	s, d, tail := openFull(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	d.quota = d.used() + 700
	o := exploreOptions()
	o.SegmentBytes *= 4
	s, err := open(d, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.active.room != int64(len(s.active.file.(*simFile).data)) {
		t.Errorf("it has %d bytes of room, and takes %d", s.active.room, len(s.active.file.(*simFile).data))
	}
	for n := range min(3, tail) {
		if err := s.Remove(t.Context(), testKey("a"), reprise.RemoveSpec{Trim: n + 2, Kept: 1}); err != nil {
			t.Fatalf("trim %d: %v", n, err)
		}
	}
}

// openWithStream opens a store with the empty stream a. It is closed at the end of the test.
func openWithStream(t *testing.T, d *simDisk) (*Store, reprise.StreamInfo) {
	t.Helper()
	s, err := open(d, exploreOptions())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	info := reprise.StreamInfo{Key: testKey("a"), Epoch: "e", Earliest: 1}
	if _, err := s.Create(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	return s, info
}

// TestWriteWithoutRoomClosesNothing: where space cannot be reserved, a full disk is found by a write. The segment goes
// on, so that removals work at once.
func TestWriteWithoutRoomClosesNothing(t *testing.T) {
	for _, file := range []string{"the segment", "the next segment"} {
		t.Run(file, func(t *testing.T) {
			d := newSimDisk()
			s, info := openWithStream(t, d)
			for range 3 {
				appendTo(t, s, &info, 1, make([]byte, 100))
			}
			size := 100
			if file == "the next segment" {
				size = int(s.active.room-s.active.end) - 100 // into the room for removals
			}
			d.before = func(call, name string) error {
				if call == "write" && (name == s.active.name) == (file == "the segment") {
					return errNoRoom
				}
				return nil
			}
			errs := s.Append(t.Context(), []reprise.AppendRequest{{
				Key: info.Key, Epoch: "e", First: 4, Count: 1, Bytes: make([]byte, size), Earliest: 1, Kept: 1,
			}})
			if errs == nil || !errors.Is(errs[0], reprise.DiskFull) {
				t.Fatalf("append: %v", errs)
			}
			if file == "the segment" {
				d.before = nil
			}
			if s.active.failed || s.active.number != 1 {
				t.Errorf("segment %d is the active one, failed: %t", s.active.number, s.active.failed)
			}
			if err := s.Remove(t.Context(), info.Key, reprise.RemoveSpec{Trim: 3, Kept: 1}); err != nil {
				t.Errorf("trim: %v", err)
			}
			again, err := open(d.settled(), exploreOptions())
			if err != nil {
				t.Fatal(err)
			}
			if got := again.get(info.Key).info(); got.Tail != 3 || got.Earliest != 3 {
				t.Errorf("after a crash: %+v", got)
			}
		})
	}
}

// TestRemovalAfterFailedSyncOnFullDisk: a segment of which a sync has failed gives its reserve to the next one, and a
// removal takes a small segment if there is no room for a whole one.
func TestRemovalAfterFailedSyncOnFullDisk(t *testing.T) {
	s, d, tail := openFull(t)
	defer s.Close()
	d.lost = rand.New(rand.NewPCG(1, 1))
	failed := false
	d.before = func(call, _ string) error {
		if call == "sync" && !failed {
			failed = true
			return errFault
		}
		return nil
	}
	trim := func() error {
		return s.Remove(t.Context(), testKey("a"), reprise.RemoveSpec{Trim: tail, Kept: 1})
	}
	if err := trim(); !errors.Is(err, reprise.ErrUnavailable) || !failed {
		t.Fatalf("a trim whose sync fails: %v", err)
	}
	if err := trim(); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// TestSnapshotOnFullDiskLeavesNothing: a snapshot for which the disk has no room takes none. The segments that are dead
// already are removed, though the snapshot fails.
func TestSnapshotOnFullDiskLeavesNothing(t *testing.T) {
	s, d, tail := openFull(t)
	defer s.Close()
	d.quota += 2 * s.opts.SegmentBytes
	if err := s.saveSnapshot(false); err != nil {
		t.Fatal(err)
	}
	for n := range 40 {
		d.quota += 600
		info := reprise.StreamInfo{Key: testKey(fmt.Sprint("more", n)), Epoch: "e"}
		if _, err := s.Create(t.Context(), info); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Remove(t.Context(), testKey("a"), reprise.RemoveSpec{Trim: tail, Kept: 1}); err != nil {
		t.Fatal(err)
	}
	s.snapshotAt = 0
	before := len(s.segments)
	d.before = func(call, name string) error {
		if call == "write" && name == tmpName {
			return errNoRoom
		}
		return nil
	}
	if err := s.tidy(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("tidy: %v", err)
	}
	if d.names[tmpName] != nil {
		t.Error("the snapshot is left")
	}
	if after := len(s.segments); after >= before {
		t.Errorf("%d segments are left of %d", after, before)
	}
}

// TestCancelledChangeThatIsPutBack: the context of a change ends while a group defers it. The change returns, and
// nothing is left in the queue.
func TestCancelledChangeThatIsPutBack(t *testing.T) {
	s, err := open(newSimDisk(), exploreOptions())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	staged, put := make(chan struct{}), make(chan struct{})
	s.turn <- struct{}{}
	result := make(chan error, 1)
	go func() {
		first := true
		result <- s.commit(ctx, &change{stage: func(*group) error {
			if !first {
				return nil
			}
			first = false
			close(staged)
			<-put
			return errLater
		}})
	}()
	for {
		s.queued.mu.Lock()
		n := len(s.queued.changes)
		s.queued.mu.Unlock()
		if n == 1 {
			break
		}
		runtime.Gosched()
	}
	go func() {
		s.commitQueued()
		<-s.turn
	}()
	<-staged
	cancel()
	for range 1000 { // it finds that a group has taken it
		runtime.Gosched()
	}
	close(put)
	select {
	case err := <-result:
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the change does not return")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFirstBatchIsChecked: CreateAppend writes nothing that Open would refuse.
func TestFirstBatchIsChecked(t *testing.T) {
	d := newSimDisk()
	s, err := open(d, exploreOptions())
	if err != nil {
		t.Fatal(err)
	}
	for _, first := range []reprise.AppendRequest{{First: 1}, {First: 2, Count: 1}, {First: 1, Count: 1 << 32}} {
		info := reprise.StreamInfo{Key: testKey("a"), Epoch: "e"}
		first.Key, first.Epoch = info.Key, info.Epoch
		if _, err := s.CreateAppend(t.Context(), info, first); err == nil {
			t.Errorf("%d events from %d are taken", first.Count, first.First)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = open(d, exploreOptions()); err != nil || s.streams.len() != 0 {
		t.Fatalf("after it was opened: %v", err)
	}
}

// TestSegmentThatBecomesShortIsDamaged: a file that is cut while the store is open is damage.
func TestSegmentThatBecomesShortIsDamaged(t *testing.T) {
	s, info := openWithStream(t, newSimDisk())
	appendTo(t, s, &info, 1, make([]byte, 100))
	f := s.active.file.(*simFile)
	f.data = f.data[:s.active.end-50]
	if _, err := s.Read(t.Context(), info.Key, 0, 1); !errors.Is(err, ErrDamaged) {
		t.Errorf("read: %v", err)
	}
	if wrong, err := s.Check(t.Context()); err != nil || len(wrong) == 0 {
		t.Errorf("check: %q, %v", wrong, err)
	}
}
