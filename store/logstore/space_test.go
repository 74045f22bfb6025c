package logstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"reprise"
)

// TestSpaceIsBounded churns streams of all ages in a tenth of which nothing is ever removed. At each moment the log
// takes no more than docs/internals/storage-log.md says.
func TestSpaceIsBounded(t *testing.T) {
	o := exploreOptions()
	o.SegmentBytes = 16 << 10
	d := newSimDisk()
	s, err := open(d, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rnd := rand.New(rand.NewPCG(1, 2))
	const streams, window = 100, 20
	infos := make([]reprise.StreamInfo, streams)
	for i := range infos {
		infos[i] = reprise.StreamInfo{Key: testKey(fmt.Sprint("s", i)), Epoch: "e", Earliest: 1}
		if _, err := s.Create(t.Context(), infos[i]); err != nil {
			t.Fatal(err)
		}
	}
	worst := 0.0
	var written int64
	for n := range 8_000 {
		info := &infos[rnd.IntN(streams)]
		req := reprise.AppendRequest{
			Key: info.Key, Epoch: "e", First: info.Tail + 1, Count: 1, Bytes: make([]byte, rnd.IntN(400)),
			Earliest: info.Earliest, Kept: 1,
		}
		if cold := info.Key.Name[len(info.Key.Name)-1] == '7'; !cold {
			req.Earliest = max(1, req.First-min(req.First, window))
		} else if info.Tail > 200 {
			continue
		}
		if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); errs != nil {
			t.Fatal(errs[0])
		}
		info.Tail, info.Earliest = req.First, req.Earliest
		written += int64(len(req.Bytes))
		if n%50 > 0 {
			continue
		}
		if err := s.tidy(); err != nil {
			t.Fatal(err)
		}
		stats, err := s.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		bound := 2*stats.LiveBytes + 4*o.SegmentBytes + 2*stats.SnapshotBytes
		if stats.LogBytes > bound {
			t.Fatalf("append %d: the log has %d bytes, %d of them live; %d are the bound", n, stats.LogBytes,
				stats.LiveBytes, bound)
		}
		worst = max(worst, float64(stats.LogBytes)/float64(bound))
	}
	wrong, err := s.Check(t.Context())
	if err != nil || len(wrong) > 0 {
		t.Errorf("Check: %q, %v", wrong, err)
	}
	var logged int64
	for _, seg := range s.segments {
		logged += seg.end
	}
	t.Logf("%d bytes appended, the log has %d at the end and %.2f of its bound at most, in %d segments of %d", written,
		logged, worst, len(s.segments), s.nextNumber-1)
	if s.nextNumber < 50 || worst < 0.3 {
		t.Error("the log is hardly ever made shorter, so that this says nothing")
	}
}

// TestReadOnlyDisk has the system refuse what a store writes.
func TestReadOnlyDisk(t *testing.T) {
	d := newSimDisk()
	s, err := open(d, exploreOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	info := reprise.StreamInfo{Key: testKey("a"), Epoch: "e"}
	if _, err := s.Create(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	d.before = func(string, string) error { return syscall.EROFS }
	if _, err := s.Create(t.Context(), reprise.StreamInfo{Key: testKey("b")}); !errors.Is(err, reprise.ReadOnly) {
		t.Errorf("create: %v", err)
	}
	if _, err := s.Read(t.Context(), info.Key, 0, 1); err != nil {
		t.Errorf("read: %v", err)
	}
	_, err = open(d, exploreOptions())
	if err := openError(t.Context(), "x", err); !errors.Is(err, ErrReadOnly) {
		t.Errorf("open: %v", err)
	}
	d.before = nil
	if _, err := s.Create(t.Context(), reprise.StreamInfo{Key: testKey("b")}); err != nil {
		t.Errorf("create when it can be written to again: %v", err)
	}
}

// BenchmarkReopen opens a store of so many streams with an event each, all of it from the log or most of it from a
// snapshot.
func BenchmarkReopen(b *testing.B) {
	for _, streams := range []int{100_000, 1_000_000} {
		for _, snapshot := range []bool{false, true} {
			b.Run(fmt.Sprintf("streams=%d/snapshot=%v", streams, snapshot), func(b *testing.B) {
				dir := filepath.Join(b.TempDir(), "log")
				s, err := Open(b.Context(), dir, &Options{SegmentBytes: 1 << 30})
				if err != nil {
					b.Fatal(err)
				}
				makeStreams(b, s, streams)
				if snapshot {
					start := time.Now()
					if err := s.saveSnapshot(false); err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms/snapshot")
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				s = nil
				for b.Loop() {
					before := heapBytes()
					if s, err = Open(b.Context(), dir, nil); err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(float64(heapBytes()-before)/float64(streams), "heap-B/stream")
					if err := s.Close(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// makeStreams makes streams with an event each, a thousand in a commit.
func makeStreams(b *testing.B, s *Store, streams int) {
	const chunk = 1000
	for from := 0; from < streams; from += chunk {
		var reqs []reprise.AppendRequest
		err := s.commit(b.Context(), &change{stage: func(g *group) error {
			for i := range chunk {
				key := testKey(fmt.Sprintf("stream/%d", from+i))
				info := reprise.StreamInfo{Key: key, Epoch: reprise.NewEpoch(), Created: day(1), Earliest: 1}
				reqs = append(reqs, reprise.AppendRequest{
					Key: key, Epoch: info.Epoch, First: 1, Count: 1, Bytes: make([]byte, 220), Earliest: 1, Kept: 220,
				})
				if _, err := g.create(info); err != nil {
					return err
				}
			}
			return nil
		}})
		if err != nil {
			b.Fatal(err)
		}
		if errs := s.Append(b.Context(), reqs); errs != nil {
			b.Fatal(errs[0])
		}
	}
}

// unreadable is a file that cannot be read.
type unreadable struct{ file }

func (unreadable) ReadAt([]byte, int64) (int, error) { return 0, syscall.EIO }

// appendTo appends a batch to a stream and moves the window to earliest.
func appendTo(t *testing.T, s *Store, info *reprise.StreamInfo, earliest uint64, b []byte) {
	t.Helper()
	req := reprise.AppendRequest{
		Key: info.Key, Epoch: info.Epoch, First: info.Tail + 1, Count: 1, Bytes: b, Earliest: earliest, Kept: 1,
	}
	if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); errs != nil {
		t.Fatal(errs[0])
	}
	info.Tail, info.Earliest = req.First, earliest
}

// TestSpaceIsGivenBackBesideSegmentThatCannotBeRead: a segment that the disk cannot read keeps its space, and the
// others give back theirs.
func TestSpaceIsGivenBackBesideSegmentThatCannotBeRead(t *testing.T) {
	s, err := open(newSimDisk(), exploreOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	kept := reprise.StreamInfo{Key: testKey("kept"), Epoch: "e", Earliest: 1}
	dropped := reprise.StreamInfo{Key: testKey("dropped"), Epoch: "e", Earliest: 1}
	for _, info := range []reprise.StreamInfo{kept, dropped} {
		if _, err := s.Create(t.Context(), info); err != nil {
			t.Fatal(err)
		}
	}
	for range 40 { // each segment has a little that is live
		appendTo(t, s, &kept, 1, make([]byte, 20))
		appendTo(t, s, &dropped, dropped.Tail+1, make([]byte, 400))
	}
	appendTo(t, s, &kept, 3, nil) // the first segment has the least
	if err := s.saveSnapshot(false); err != nil {
		t.Fatal(err)
	}
	first := s.victim(nil, false, 0)
	first.file = unreadable{first.file}
	before := len(s.segments)
	if err := s.tidy(); !errors.Is(err, syscall.EIO) {
		t.Errorf("tidy: %v", err)
	}
	if after := len(s.segments); after > before/2 || s.segments[first.number] != first {
		t.Errorf("%d segments of %d are left", after, before)
	}
}

// TestBatchWithoutBytesIsKept: a segment whose live batches are all empty is kept.
func TestBatchWithoutBytesIsKept(t *testing.T) {
	d := newSimDisk()
	s, err := open(d, exploreOptions())
	if err != nil {
		t.Fatal(err)
	}
	kept := reprise.StreamInfo{Key: testKey("kept"), Epoch: "e", Earliest: 1}
	dropped := reprise.StreamInfo{Key: testKey("dropped"), Epoch: "e", Earliest: 1}
	for _, info := range []reprise.StreamInfo{kept, dropped} {
		if _, err := s.Create(t.Context(), info); err != nil {
			t.Fatal(err)
		}
	}
	appendTo(t, s, &kept, 1, nil)
	for range 20 {
		appendTo(t, s, &dropped, dropped.Tail+1, make([]byte, 400))
	}
	err = errors.Join(s.saveSnapshot(false), s.tidy(), s.Close())
	if err != nil {
		t.Fatal(err)
	}
	if s, err = open(d, exploreOptions()); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	page, err := s.Read(t.Context(), kept.Key, 0, 1)
	if err != nil || len(page.Batches) != 1 || page.Batches[0].Count != 1 {
		t.Errorf("%+v, %v", page, err)
	}
}
