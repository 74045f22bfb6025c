package logstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"reprise"
)

// TestSegmentsFitTheDisk: a segment and the reserve take a sixteenth of what is free, or what a commit needs.
func TestSegmentsFitTheDisk(t *testing.T) {
	for quota, want := range map[int64]int64{1 << 30: 4 << 20, 40 << 20: 40 << 20 / 16, 1 << 20: 64 << 10} {
		d := newSimDisk()
		d.quota = quota
		o := Options{SegmentBytes: 4 << 20, idle: true}
		s, err := open(d, o.withDefaults())
		if err != nil {
			t.Fatal(err)
		}
		if s.active.room != want || s.reserve.Held() < want*3/4 || s.reserve.Held() > want*5/4 {
			t.Errorf("of %d bytes a segment takes %d and the reserve %d, want %d", quota, s.active.room,
				s.reserve.Held(), want)
		}
		if quota == 40<<20 {
			info := reprise.StreamInfo{Key: testKey("a"), Epoch: "e", Earliest: 1}
			if _, err := s.Create(t.Context(), info); err != nil {
				t.Fatal(err)
			}
			appendTo(t, s, &info, 1, make([]byte, 3<<20))
			appendTo(t, s, &info, 1, make([]byte, 3<<20))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// mixedDisk is a full disk with 20 streams and two more. One of every three batches in each segment is of the stream
// dropped and large, and the others are of the stream kept and have a size. tidy is called after each append.
func mixedDisk(t *testing.T, d disk, o Options, size int64, tidy func(*Store, int)) (
	s *Store, kept reprise.StreamInfo,
) {
	t.Helper()
	s, err := open(d, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	kept = reprise.StreamInfo{Key: testKey("kept"), Epoch: "e", Earliest: 1}
	dropped := reprise.StreamInfo{Key: testKey("dropped"), Epoch: "e", Earliest: 1}
	for _, info := range []reprise.StreamInfo{kept, dropped} {
		if _, err := s.Create(t.Context(), info); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 20 {
		info := reprise.StreamInfo{Key: testKey(fmt.Sprint("other", n)), Epoch: "e"}
		info.Config.Meta = make([]byte, 100)
		if _, err := s.Create(t.Context(), info); err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; ; n++ {
		if tidy != nil {
			tidy(s, n)
		}
		info, size := &kept, size
		if n%3 == 0 {
			info, size = &dropped, o.SegmentBytes/8
		}
		errs := s.Append(t.Context(), []reprise.AppendRequest{{
			Key: info.Key, Epoch: "e", First: info.Tail + 1, Count: 1, Bytes: make([]byte, size), Earliest: 1, Kept: 1,
		}})
		switch {
		case errs == nil && n < 10_000:
			info.Tail++
		case errs == nil || !errors.Is(errs[0], reprise.DiskFull):
			t.Fatalf("append %d: %v", n, errs)
		default:
			return s, kept
		}
	}
}

// TestFullDiskGivesBackWhatIsMoved: each segment of a full disk has something that is live, in a log without a
// snapshot, with one at its begin, or with one in each few segments. After a removal new streams can be made.
func TestFullDiskGivesBackWhatIsMoved(t *testing.T) {
	always := func(s *Store, _ int) { _ = s.tidy() }
	once := func(s *Store, n int) {
		if n == 0 {
			_ = s.saveSnapshot(false)
			s.snapshotAt = 1 << 30 // as after a large snapshot
		}
	}
	for _, c := range []struct {
		size   int64
		tidy   func(*Store, int)
		killed bool
		most   int64 // part of the disk that is then used, in percent
	}{
		{10, nil, false, 45},
		{10, nil, true, 45},
		{10, once, false, 45},
		{400, always, false, 94},
		{400, always, true, 94},
	} {
		d, o := newSimDisk(), exploreOptions()
		d.quota = 40 * o.SegmentBytes
		s, kept := mixedDisk(t, d, o, c.size, c.tidy)
		if c.killed {
			var err error
			if s, err = open(d, o); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
		}
		if err := s.Remove(t.Context(), testKey("dropped"), reprise.RemoveSpec{}); err != nil {
			t.Fatalf("removal on a full disk: %v", err)
		}
		if err := s.tidy(); err != nil {
			t.Errorf("tidy on a full disk: %v", err)
		}
		if used := 100 * d.used() / d.quota; used > c.most {
			t.Errorf("batches of %d, killed %t: %d percent are still used, on%v", c.size, c.killed, used, d)
		}
		for n := range 10 {
			info := reprise.StreamInfo{Key: testKey(fmt.Sprint("new", n)), Epoch: "e", Earliest: 1}
			if _, err := s.Create(t.Context(), info); err != nil {
				t.Fatalf("a new stream after a removal: %v, on%v", err, d)
			}
			appendTo(t, s, &info, 1, make([]byte, o.SegmentBytes/8))
		}
		if s.reserve.Held() < o.SegmentBytes {
			t.Errorf("the reserve has %d bytes", s.reserve.Held())
		}
		page, err := s.Read(t.Context(), kept.Key, 0, 1<<20)
		if err != nil || page.Info.Tail != kept.Tail || len(page.Batches) != int(kept.Tail) {
			t.Errorf("%d batches up to %d of %d, %v", len(page.Batches), page.Info.Tail, kept.Tail, err)
		}
	}
}

// TestRefusedAppendTouchesNothing: an append that a full disk refuses changes nothing on it, and room that others make
// is found by the next one.
func TestRefusedAppendTouchesNothing(t *testing.T) {
	d, o := newSimDisk(), exploreOptions()
	d.quota = 20 * o.SegmentBytes
	s, kept := mixedDisk(t, d, o, 10, nil)
	_, free := s.segmentBytes()
	d.quota += s.reserveBytes() - s.reserve.Held() + s.leastSegment() - free // the reserve, and no segment beside it
	if err := s.holdReserve(); err != nil {
		t.Fatal(err)
	}
	d.before = func(call, name string) error {
		t.Errorf("%s of %s", call, name)
		return nil
	}
	req := reprise.AppendRequest{
		Key: kept.Key, Epoch: "e", First: kept.Tail + 1, Count: 1, Bytes: make([]byte, 2000), Earliest: 1, Kept: 1,
	}
	for range 100 {
		if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); errs == nil ||
			!errors.Is(errs[0], reprise.DiskFull) {
			t.Fatalf("append on a full disk: %v", errs)
		}
	}
	d.before = nil
	d.quota += 4 * o.SegmentBytes
	appendTo(t, s, &kept, 1, req.Bytes)
}

// silentDisk is a disk that does not tell how much is free, as with a quota of its user.
type silentDisk struct{ *simDisk }

func (silentDisk) free() (int64, error) { return 0, errors.ErrUnsupported }

// TestFullDiskIsNotTriedAgainAtOnce: where only a try can tell that there is room, there is one in a while.
func TestFullDiskIsNotTriedAgainAtOnce(t *testing.T) {
	d, o := newSimDisk(), exploreOptions()
	d.quota, o.tryFull = 20*o.SegmentBytes, time.Hour
	s, kept := mixedDisk(t, silentDisk{d}, o, 10, nil)
	d.quota += 4 * o.SegmentBytes
	tries := 0
	d.before = func(string, string) error {
		tries++
		return nil
	}
	errs := s.Append(t.Context(), []reprise.AppendRequest{{Key: kept.Key, Epoch: "e", First: kept.Tail + 1, Count: 1}})
	if errs == nil || !errors.Is(errs[0], reprise.DiskFull) || tries > 0 {
		t.Errorf("append: %v, after %d changes of the disk", errs, tries)
	}
	s.fullUntil = time.Time{} // an hour later
	appendTo(t, s, &kept, 1, make([]byte, 2000))
}

// boundedFolder is a directory on a disk of quota bytes.
type boundedFolder struct {
	folder
	quota int64
}

func (d boundedFolder) free() (int64, error) {
	left := d.quota
	entries, err := os.ReadDir(string(d.folder))
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			left -= info.Size()
		}
	}
	return max(0, left), err
}

func (d boundedFolder) create(name string, size int64) (file, error) {
	if free, err := d.free(); err != nil || free < size {
		return nil, errors.Join(err, syscall.ENOSPC)
	}
	return d.folder.create(name, size)
}

// TestAppendAfterRemovalOnFullDisk: an append waits until the space of a removal is given back, and is not refused.
func TestAppendAfterRemovalOnFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	o := exploreOptions()
	o.SegmentBytes, o.idle = 64<<10, false
	s, kept := mixedDisk(t, boundedFolder{folder(dir), 40 * o.SegmentBytes}, o, 1000, nil)
	if err := s.Remove(t.Context(), testKey("dropped"), reprise.RemoveSpec{}); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		appendTo(t, s, &kept, 1, make([]byte, o.SegmentBytes/5))
	}
}

// TestAppendsLeaveTheReserve: what a removal has left of the reserve is not for appends, before the reserve is whole.
func TestAppendsLeaveTheReserve(t *testing.T) {
	d, o := newSimDisk(), exploreOptions()
	d.quota = 20 * o.SegmentBytes
	s, kept := mixedDisk(t, d, o, 10, nil)
	d.quota += 10 * o.SegmentBytes
	if err := s.holdReserve(); err != nil {
		t.Fatal(err)
	}
	d.quota = d.used()
	for n := uint64(1); s.reserve.Held() > 0; n++ { // each removes a batch, or nothing
		if err := s.Remove(t.Context(), kept.Key, reprise.RemoveSpec{Trim: n + 1, Kept: 1}); err != nil {
			t.Fatal(err)
		}
		if n > kept.Tail {
			t.Fatal("the removals never need the reserve")
		}
	}
	errs := s.Append(t.Context(), []reprise.AppendRequest{{
		Key: kept.Key, Epoch: "e", First: kept.Tail + 1, Count: 1, Bytes: make([]byte, 1800), Earliest: 1, Kept: 1,
	}})
	if errs == nil || !errors.Is(errs[0], reprise.DiskFull) {
		t.Errorf("an append takes the reserve: %v, on%v", errs, d)
	}
}
