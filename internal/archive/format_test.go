package archive_test

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"reprise"
	"reprise/internal/archive"
)

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// ended is a stream that has ended, of batches from event first on.
func ended(name string, first uint64, batches ...reprise.Batch) reprise.StreamInfo {
	info := reprise.StreamInfo{
		Key: reprise.StreamKey{Tenant: "default", Name: name}, Epoch: reprise.NewEpoch(),
		Created: time.Unix(1_700_000_000, 123_456_789).UTC(),
		Config: reprise.StreamConfig{
			Retention: reprise.Retention{MaxEvents: 7, MaxBytes: 8, MaxAge: 9},
			Labels:    map[string]string{"a": "b", "\xff": "\x00\xfe"}, Meta: []byte("meta\x00"),
		},
		Owner:    reprise.Owner{Name: "replica-1", Fence: 3},
		Earliest: first, Tail: first - 1, Bytes: 77,
		End: &reprise.End{
			Outcome: "exited", Time: time.UnixMilli(1<<48 - 1).UTC(),
			Expires: time.UnixMilli(1<<48 - 1).Add(1<<63 - 1).UTC(), Data: []byte(`{"code":0}`),
		},
		Producers: []reprise.Producer{{ID: "p\xff", Epoch: 1, Seq: 2, First: 1, Last: 1}},
		Lineage:   []reprise.Ancestor{{Epoch: "BEFORE", Fork: 1 << 63}},
	}
	for _, b := range batches {
		info.Tail = b.Last()
	}
	return info
}

// someBatches are batches of all sizes, n events in all, from event first on.
func someBatches(first uint64, n, size int) (list []reprise.Batch) {
	rnd := rand.New(rand.NewPCG(first, uint64(n)))
	for n > 0 {
		b := reprise.Batch{First: first, Count: min(n, 1+rnd.IntN(5))}
		for range b.Count {
			b.Bytes = append(b.Bytes, bytes.Repeat([]byte{byte(rnd.Uint32())}, rnd.IntN(size))...)
		}
		list, n, first = append(list, b), n-b.Count, b.Last()+1
	}
	return list
}

func all(list []reprise.Batch) iter.Seq2[reprise.Batch, error] {
	return func(yield func(reprise.Batch, error) bool) {
		for _, b := range list {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// wantBatches compares batches byte by byte, which go-cmp is too slow for.
func wantBatches(tb testing.TB, got, want []reprise.Batch) {
	tb.Helper()
	same := func(a, b reprise.Batch) bool {
		return a.First == b.First && a.Count == b.Count && bytes.Equal(a.Bytes, b.Bytes)
	}
	if !slices.EqualFunc(got, want, same) {
		tb.Fatalf("%d batches, which are not the %d that were written", len(got), len(want))
	}
}

func encode(tb testing.TB, info reprise.StreamInfo, batches []reprise.Batch) []byte {
	tb.Helper()
	var file bytes.Buffer
	check(tb, archive.Write(&file, info, all(batches)))
	return file.Bytes()
}

// readAll reads a file in pages of maxBytes.
func readAll(f *archive.File, maxBytes int) (list []reprise.Batch, err error) {
	for after := uint64(0); ; {
		page, err := f.Read(after, maxBytes)
		if err != nil || len(page.Batches) == 0 {
			return list, err
		}
		list = append(list, page.Batches...)
		after = page.Batches[len(page.Batches)-1].Last()
	}
}

func TestFileHoldsWhatWasWritten(t *testing.T) {
	for _, c := range []struct {
		first   uint64
		n, size int
		trim    uint64 // Earliest above first
	}{{1, 0, 1, 0}, {100, 0, 1, 0}, {1, 1, 1, 0}, {1, 1000, 100, 0}, {50, 1000, 100, 1}, {1, 20_000, 200, 0}, {
		1, 10,
		300 << 10, 0,
	}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			batches := someBatches(c.first, c.n, c.size)
			info := ended("builds/linux.amd64", c.first, batches...)
			info.Earliest += min(c.trim, uint64(batches0(batches)-1))
			file := encode(t, info, batches)
			f, err := archive.OpenFile(bytes.NewReader(file), int64(len(file)))
			check(t, err)
			check(t, f.Verify())
			if diff := cmp.Diff(info, f.Info(), cmpopts.EquateEmpty()); diff != "" {
				t.Fatal(diff)
			}
			for _, maxBytes := range []int{1, 1000, 1 << 30} {
				if maxBytes == 1 && c.n > 1000 {
					continue
				}
				got, err := readAll(f, maxBytes)
				check(t, err)
				wantBatches(t, got, batches)
			}
		})
	}
}

// batches0 is how many events the first batch has, at least 1.
func batches0(list []reprise.Batch) int {
	if len(list) == 0 {
		return 1
	}
	return list[0].Count
}

// TestPagesAreThoseOfTheContract compares every page with what a slice of the batches gives.
func TestPagesAreThoseOfTheContract(t *testing.T) {
	batches := someBatches(5, 3000, 1000)
	info := ended("s", 5, batches...)
	file := encode(t, info, batches)
	f, err := archive.OpenFile(bytes.NewReader(file), int64(len(file)))
	check(t, err)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		after, maxBytes := rnd.Uint64N(info.Tail+5), rnd.IntN(100_000)
		var want []reprise.Batch
		left := maxBytes
		for _, b := range batches {
			if b.Last() > after && left > 0 {
				want = append(want, b)
				left -= len(b.Bytes)
			}
		}
		page, err := f.Read(after, maxBytes)
		check(t, err)
		wantBatches(t, page.Batches, want)
	}
}

func TestWriteRefuses(t *testing.T) {
	batches := []reprise.Batch{{First: 1, Count: 2, Bytes: []byte("ab")}, {First: 3, Count: 1, Bytes: []byte("c")}}
	info := ended("s", 1, batches...)
	open := info
	open.End = nil
	if err := archive.Write(&bytes.Buffer{}, open, all(batches)); !errors.Is(err, reprise.ErrInvalid) {
		t.Error("an open stream:", err)
	}
	torn := errors.New("torn")
	if err := archive.Write(&bytes.Buffer{}, info,
		func(yield func(reprise.Batch, error) bool) { yield(reprise.Batch{}, torn) }); !errors.Is(err, torn) {
		t.Error("an error:", err)
	}
	for name, list := range map[string][]reprise.Batch{
		"nothing": nil, "the end missing": batches[:1], "the start missing": batches[1:],
		"twice": {batches[0], batches[0], batches[1]}, "a hole": {{First: 1, Count: 1}, batches[1]},
		"too much": {batches[0], batches[1], {First: 4, Count: 1}}, "no events": {{First: 1}, batches[0], batches[1]},
	} {
		if err := archive.Write(&bytes.Buffer{}, info, all(list)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// whole reads all that is in a file, or fails with ErrDamaged.
func whole(tb testing.TB, file []byte) (reprise.StreamInfo, []reprise.Batch, bool) {
	tb.Helper()
	f, err := archive.OpenFile(bytes.NewReader(file), int64(len(file)))
	var list []reprise.Batch
	if err == nil {
		if list, err = readAll(f, 1<<30); err == nil {
			check(tb, f.Verify())
			return f.Info(), list, true
		}
		if f.Verify() == nil {
			tb.Error("a file that cannot be read is verified")
		}
	}
	if !errors.Is(err, archive.ErrDamaged) {
		tb.Fatal(err)
	}
	return reprise.StreamInfo{}, nil, false
}

// TestEveryFlippedBitIsDetected flips each bit of a file, truncates the file at each offset and drops each byte. The
// damage is always detected, and nothing that differs from the original is returned.
func TestEveryFlippedBitIsDetected(t *testing.T) {
	batches := someBatches(3, 20, 10)
	file := encode(t, ended("s", 3, batches...), batches)
	_, got, ok := whole(t, file)
	if !ok {
		t.Fatal("the file itself is not whole")
	}
	wantBatches(t, got, batches)
	for i := range file {
		for bit := range 8 {
			flipped := bytes.Clone(file)
			flipped[i] ^= 1 << bit
			if _, _, ok := whole(t, flipped); ok {
				t.Errorf("bit %d of byte %d of %d makes no difference", bit, i, len(file))
			}
		}
		if _, _, ok := whole(t, file[:i]); ok {
			t.Errorf("the first %d bytes of %d are taken for the whole", i, len(file))
		}
		if _, _, ok := whole(t, append(bytes.Clone(file[:i]), file[i+1:]...)); ok {
			t.Errorf("the file without byte %d is taken for the whole", i)
		}
	}
	if _, _, ok := whole(t, append(bytes.Clone(file), 0)); ok {
		t.Error("a byte too many is not found")
	}
}

// FuzzFile: whatever is in a file, it is read without a panic, and what is read can be written again
// and is the same.
func FuzzFile(f *testing.F) {
	for _, n := range []int{0, 1, 20} {
		batches := someBatches(3, n, 10)
		f.Add(encode(f, ended("s", 3, batches...), batches))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		info, batches, ok := whole(t, file)
		if !ok {
			return
		}
		again, list, ok := whole(t, encode(t, info, batches))
		if !ok || cmp.Diff(info, again, cmpopts.EquateEmpty()) != "" {
			t.Fatal("it is another file when it is written again")
		}
		wantBatches(t, list, batches)
	})
}
