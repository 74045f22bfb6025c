package logstore

import (
	"errors"
	"slices"
	"testing"

	"reprise"
)

// TestCommitOfAnotherNumberIsNotTaken: behind the last commit lies a copy of it, as a disk may leave that shows an
// older state of a sector.
func TestCommitOfAnotherNumberIsNotTaken(t *testing.T) {
	d := newSimDisk()
	s, info := openWithStream(t, d)
	appendTo(t, s, &info, 1, []byte("first"))
	from := s.active.end
	appendTo(t, s, &info, 1, []byte("second"))
	end := s.active.end
	data := slices.Clone(d.names[s.active.name].data)
	copy(data[end:], data[from:end])
	again, err := open(d.altered(s.active.name, data), exploreOptions())
	if err != nil {
		t.Fatal(err)
	}
	if tail := again.get(info.Key).tail; tail != 2 || again.active.end != end {
		t.Errorf("the tail is %d, and the log ends at %d, want 2 and %d", tail, again.active.end, end)
	}
}

// TestDamageIsFoundOverTheEdgeOfABlock: the log is searched a MiB at a time for a commit behind the first bad one. Its
// salt lies on the edge.
func TestDamageIsFoundOverTheEdgeOfABlock(t *testing.T) {
	d, o := newSimDisk(), exploreOptions()
	o.SegmentBytes = 4 << 20
	s, err := open(d, o)
	if err != nil {
		t.Fatal(err)
	}
	info := reprise.StreamInfo{Key: testKey("a"), Epoch: "e", Earliest: 1}
	if _, err := s.Create(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	const size = 1<<20 - 100
	from := s.active.end
	appendTo(t, s, &info, 1, make([]byte, size))
	heads := s.active.end - from - size
	from = s.active.end
	appendTo(t, s, &info, 1, make([]byte, 1<<20-20-heads))
	if n := s.active.end - from; n != 1<<20-20 {
		t.Fatalf("the commit has %d bytes", n)
	}
	appendTo(t, s, &info, 1, []byte("behind"))
	data := slices.Clone(d.names[s.active.name].data)
	data[from] ^= 1
	if _, err := open(d.altered(s.active.name, data), o); !errors.Is(err, ErrDamaged) {
		t.Errorf("open: %v", err)
	}
}

// TestMarkReplacedDuringSnapshotIsInIt: a snapshot has the state at its beginning, also of a mark whose name is used
// again while the snapshot is written.
func TestMarkReplacedDuringSnapshotIsInIt(t *testing.T) {
	d := newSimDisk()
	s, info := openWithStream(t, d)
	if err := s.Remove(t.Context(), info.Key, reprise.RemoveSpec{Remember: day(3)}); err != nil {
		t.Fatal(err)
	}
	replaced := false
	d.before = func(call, name string) error {
		if call == "write" && name == tmpName && !replaced {
			replaced = true
			_, err := s.Create(t.Context(), reprise.StreamInfo{Key: info.Key, Epoch: "e2"})
			return err
		}
		return nil
	}
	if err := s.saveSnapshot(false); err != nil || !replaced {
		t.Fatalf("%v, replaced: %t", err, replaced)
	}
	saved := newState()
	_, err := saved.readSnapshot(d.names[snapshotName(s.base)], s.base)
	if st := saved.get(info.Key); err != nil || saved.streams.len() != 1 || !st.mark {
		t.Errorf("the snapshot has %d streams and marks, %v", saved.streams.len(), err)
	}
}

// TestBatchTrimmedMeanwhileIsNotMoved: between the reading of a batch that is to be moved and the commit with its copy,
// the batch is trimmed.
func TestBatchTrimmedMeanwhileIsNotMoved(t *testing.T) {
	s, info := openWithStream(t, newSimDisk())
	appendTo(t, s, &info, 1, []byte("first"))
	appendTo(t, s, &info, 1, []byte("second"))
	st, seg := s.get(info.Key), s.active
	if err := s.saveSnapshot(false); err != nil { // which begins another segment
		t.Fatal(err)
	}
	var moves []record
	p := seg.batches[st.id]
	for b := range p.from(1) {
		bytes := make([]byte, b.size)
		if err := readAll(seg.file, bytes, int64(b.at)+sumBytes); err != nil {
			t.Fatal(err)
		}
		moves = append(moves, record{
			kind: kindMove, id: st.id, first: b.first, count: uint64(b.count), bytes: bytes, at: int64(b.at),
		})
	}
	if err := s.Remove(t.Context(), info.Key, reprise.RemoveSpec{Trim: 2, Kept: 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.moveBatches(moves, seg); err != nil {
		t.Fatal(err)
	}
	page, err := s.Read(t.Context(), info.Key, 0, 1<<20)
	if err != nil || len(page.Batches) != 1 || string(page.Batches[0].Bytes) != "second" {
		t.Errorf("%+v, %v", page, err)
	}
}
