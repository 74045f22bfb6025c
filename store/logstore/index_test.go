package logstore

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"reprise"
)

// TestDirectoryOfEarlierVersionOpens: testdata/version1 is the directory of a killed process of the version whose
// snapshots have the places of all batches, and whose segments have no index. It is read, made shorter, and opened
// again with what it had.
func TestDirectoryOfEarlierVersionOpens(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	if err := os.CopyFS(dir, os.DirFS("testdata/version1")); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		s, err := open(folder(dir), exploreOptions())
		if err != nil {
			t.Fatal(err)
		}
		wantVersion1(t, s)
		if inMemory := s.inMemory(); round == 0 && inMemory < 2 || round == 2 && inMemory > 0 {
			t.Errorf("open %d: %d indexes are in memory", round, inMemory)
		}
		if err := errors.Join(s.saveSnapshot(false), s.tidy()); err != nil {
			t.Fatal(err)
		}
		wantVersion1(t, s)
		if wrong, err := s.Check(t.Context()); err != nil || len(wrong) > 0 {
			t.Errorf("Check: %q, %v", wrong, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// inMemory is the number of segments before the newest whose index is in memory.
func (s *Store) inMemory() (n int) {
	for _, seg := range s.segments {
		if seg != s.active && seg.batches != nil {
			n++
		}
	}
	return n
}

// wantVersion1 compares a store with what was written into testdata/version1: 40 rounds of an event in each of six
// streams. Of one the first six are trimmed, three keep five events, and one of these was removed after 30 rounds.
func wantVersion1(t *testing.T, s *Store) {
	t.Helper()
	for i, earliest := range []uint64{1, 7, 1, 36, 36, 6} {
		name := fmt.Sprint("s", i)
		page, err := s.Read(t.Context(), testKey(name), 0, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		round := 41 - page.Info.Tail // of the first event
		if (round == 31) != (i == 5) || page.Info.Earliest != earliest ||
			len(page.Batches) != int(page.Info.Tail+1-earliest) {
			t.Fatalf("%s has %d batches of the events from %d to %d, want them from %d", name, len(page.Batches),
				page.Info.Earliest, page.Info.Tail, earliest)
		}
		for n, b := range page.Batches {
			text := fmt.Sprintf("event %d of %s", uint64(n)+earliest+round-1, name)
			if want := bytes.Repeat([]byte(text), 1+i); b.First != earliest+uint64(n) || !bytes.Equal(b.Bytes, want) {
				t.Fatalf("event %d of %s is %q, want %q", b.First, name, b.Bytes, want)
			}
		}
	}
}

// indexedStore has a stream with 40 events, each of another segment's part, and no index in memory.
func indexedStore(t *testing.T) (*simDisk, *Store, reprise.StreamInfo) {
	t.Helper()
	d := newSimDisk()
	s, info := openWithStream(t, d)
	other := reprise.StreamInfo{Key: testKey("other"), Epoch: "e", Earliest: 1}
	if _, err := s.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		appendTo(t, s, &info, 1, make([]byte, 100))
		appendTo(t, s, &other, 1, make([]byte, 100))
	}
	if err := errors.Join(s.saveSnapshot(false), s.tidy()); err != nil {
		t.Fatal(err)
	}
	if n := s.inMemory(); n > 0 || len(s.segments) < 4 {
		t.Fatalf("of %d segments, %d have their index in memory", len(s.segments), n)
	}
	return d, s, info
}

// TestPagesOverIndexes: a page ends with the batch that reaches its size, wherever the runs of the stream end, and
// whatever else is in them.
func TestPagesOverIndexes(t *testing.T) {
	_, s, info := indexedStore(t)
	for _, size := range []int{1, 100, 101, 700, 2500, 4000, 5000} {
		for after := range info.Tail {
			page, err := s.Read(t.Context(), info.Key, after, size)
			if err != nil {
				t.Fatal(err)
			}
			want := min((size+99)/100, int(info.Tail-after))
			if len(page.Batches) != want || page.Batches[0].First != after+1 {
				t.Fatalf("after %d, a page of %d bytes has %d batches, want %d", after, size, len(page.Batches), want)
			}
		}
	}
}

// TestPageOfSpaceThatCountsElsewhere: the space of a divided run may count at a later one, which then has less than it
// says. A page is not shorter for it.
func TestPageOfSpaceThatCountsElsewhere(t *testing.T) {
	_, s, info := indexedStore(t)
	st := s.get(info.Key)
	list := slices.Collect(maps.Keys(maps.Collect(st.runs.all())))
	slices.SortFunc(list, func(a, b run) int { return cmp.Compare(a.first, b.first) })
	list[1].space += 1000
	st.runs = runs{}
	for _, r := range list {
		st.runs.add(r)
	}
	page, err := s.Read(t.Context(), info.Key, 0, 2000)
	if err != nil || len(page.Batches) != 20 {
		t.Errorf("%d batches, %v", len(page.Batches), err)
	}
}

// TestTrimmedBatchesDoNotCount: what a trim has left of a run whose places are on the disk no longer counts as live
// when the keeper was there.
func TestTrimmedBatchesDoNotCount(t *testing.T) {
	_, s, info := indexedStore(t)
	live := func() (n int64) {
		for _, seg := range s.segments {
			n += seg.live
		}
		return n
	}
	before := live()
	if err := s.Remove(t.Context(), info.Key, reprise.RemoveSpec{Trim: 4, Kept: 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.settleTrimmed(); err != nil {
		t.Fatal(err)
	}
	if freed := before - live(); freed != 3*int64(space(100)) {
		t.Errorf("3 batches of 100 bytes were trimmed, and %d bytes less are live", freed)
	}
	if st := s.get(info.Key); st.trimmed || len(s.trimmed) > 0 {
		t.Error("it is to be settled again")
	}
}

// TestDamagedCommitCostsItsBatchesAlone: the index of a segment is lost, and one of its commits is damaged. The others
// are served.
func TestDamagedCommitCostsItsBatchesAlone(t *testing.T) {
	d, s, info := indexedStore(t)
	oldest, _ := s.get(info.Key).runs.oldest()
	seg := s.segments[oldest.segment]
	var at []int64
	begin := func() { at = nil }
	err := s.places(seg, s.get(info.Key).id, 1, begin, func(b batch) bool {
		at = append(at, int64(b.at))
		return true
	})
	if err != nil || len(at) < 3 {
		t.Fatalf("%d batches, %v", len(at), err)
	}
	data := slices.Clone(d.names[seg.name].data[:seg.end])
	data[at[1]+10] ^= 1
	again, err := open(d.altered(seg.name, data), exploreOptions())
	if err != nil {
		t.Fatal(err)
	}
	for after := range uint64(4) {
		page, err := again.Read(t.Context(), info.Key, after, 1)
		if damaged := after == 1; errors.Is(err, ErrDamaged) != damaged || !damaged && len(page.Batches) != 1 {
			t.Errorf("after %d: %d batches, %v", after, len(page.Batches), err)
		}
	}
	if err := again.tidy(); err != nil && !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	if again.segments[seg.number].batches == nil {
		t.Error("an index that lacks batches was written")
	}
}
