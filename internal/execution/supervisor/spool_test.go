package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"reprise/internal/execution/command"
)

// fill writes n frames of about size bytes each, a few at a time, and returns their data.
func fill(t testing.TB, w *Writer, n, size int) (all [][]byte) {
	t.Helper()
	for len(all) < n {
		var frames []command.Chunk
		for range min(3, n-len(all)) {
			data := bytes.Repeat([]byte{byte(len(all))}, size/2+rand.N(size))
			all = append(all, data)
			n := len(all)
			kind := command.Stdout + command.Kind(n%2)
			frames = append(frames, command.Chunk{Time: time.Unix(int64(n), 0), Kind: kind, Data: data})
		}
		if err := w.Append(frames); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// readAll reads frames up to last and checks each against what was written. It returns how many were skipped.
func readAll(t testing.TB, r *Reader, last uint64, want [][]byte) (skipped uint64) {
	t.Helper()
	for {
		before := r.Next()
		b, err := r.Read(last, 100<<10)
		if err != nil {
			t.Fatal(err)
		}
		skipped += b.Skipped
		if r.Next() != before+b.Skipped+uint64(len(b.Frames)) {
			t.Fatalf("from %d to %d with %d skipped and %d frames", before, r.Next(), b.Skipped, len(b.Frames))
		}
		for i, f := range b.Frames {
			if f.Index != before+b.Skipped+uint64(i) {
				t.Fatalf("frame %d in place of %d", f.Index, before+b.Skipped+uint64(i))
			}
			if !bytes.Equal(f.Data, want[f.Index-1]) || f.Time.Unix() != int64(f.Index) {
				t.Fatalf("frame %d is another one", f.Index)
			}
			var totals command.Bytes
			for j, data := range want[:f.Index-1] {
				(command.Stdout + command.Kind((j+1)%2)).Count(&totals, len(data))
			}
			if f.Before != totals {
				t.Fatalf("before frame %d were %+v, not %+v", f.Index, totals, f.Before)
			}
		}
		if r.Next() == before {
			return skipped
		}
	}
}

func TestFramesComeBackFromAnyIndex(t *testing.T) {
	dir := t.TempDir()
	w := NewWriter(dir, 1<<30)
	defer w.Release()
	want := fill(t, w, 700, 40<<10) // more than three segments
	for _, from := range []uint64{1, 2, 300, 699, 700, 701} {
		for _, last := range []uint64{700, Unbounded} {
			r := NewReader(dir, from)
			if skipped := readAll(t, r, last, want); skipped != 0 || r.Next() != 701 {
				t.Errorf("from %d: %d skipped, up to %d", from, skipped, r.Next())
			}
			r.Close()
		}
	}
}

// TestReaderFollowsAWriter reads what was written just before, over segments that end meanwhile and are acknowledged.
func TestReaderFollowsAWriter(t *testing.T) {
	dir := t.TempDir()
	w := NewWriter(dir, 0)
	defer w.Release()
	r := NewReader(dir, 1)
	defer r.Close()
	var want [][]byte
	for range 400 {
		data := make([]byte, 100<<10)
		want = append(want, data)
		at := time.Unix(int64(len(want)), 0)
		if err := w.Append([]command.Chunk{{Time: at, Kind: command.Stdout, Data: data}}); err != nil {
			t.Fatal(err)
		}
		b, err := r.Read(w.Progress().Tail, 1<<20)
		if err != nil || len(b.Frames) != 1 || b.Skipped != 0 {
			t.Fatalf("frame %d: %+v, %v", len(want), b, err)
		}
		w.Ack(b.Frames[0].Index)
	}
	names, err := segments(dir)
	if err != nil || len(names) > 2 {
		t.Errorf("segments %v are left, %v", names, err)
	}
}

// TestSpoolSkipsDamagedFrames flips bits, truncates and removes segments. Whatever is read is what was written, and the
// rest is counted.
func TestSpoolSkipsDamagedFrames(t *testing.T) {
	const frames = 500
	for name, damage := range map[string]func(t *testing.T, file string) (most uint64){
		"bit of data": func(t *testing.T, file string) uint64 { return flip(t, file, segmentHeader+frameHeader+1000) },
		"bit of length": func(t *testing.T, file string) uint64 {
			flip(t, file, segmentHeader+1)
			return 3
		},
		"high bit of length": func(t *testing.T, file string) uint64 { return flip(t, file, segmentHeader+3) },
		"bit of index":       func(t *testing.T, file string) uint64 { return flip(t, file, segmentHeader+8) },
		"bit of checksum":    func(t *testing.T, file string) uint64 { return flip(t, file, segmentHeader+4) },
		"header":             func(t *testing.T, file string) uint64 { flip(t, file, 2); return 0 },
		"cut in a frame": func(t *testing.T, file string) uint64 {
			if err := os.Truncate(file, segmentBytes/2); err != nil {
				t.Fatal(err)
			}
			return frames
		},
		"removed": func(t *testing.T, file string) uint64 {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			return frames
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			w := NewWriter(dir, 1<<30)
			defer w.Release()
			want := fill(t, w, frames, 40<<10)
			firsts, err := segments(dir)
			if err != nil || len(firsts) < 3 {
				t.Fatalf("segments %v, %v", firsts, err)
			}
			most := damage(t, segmentName(dir, firsts[1]))
			for _, last := range []uint64{frames, Unbounded} {
				r := NewReader(dir, 1)
				skipped := readAll(t, r, last, want)
				if r.Next() != frames+1 || skipped > most || most > 0 && skipped == 0 {
					t.Errorf("%d frames were skipped, at most %d should be; the next is %d", skipped, most, r.Next())
				}
				r.Close()
			}
		})
	}
}

// flip flips a bit of a file. At most one frame is lost by it.
func flip(t *testing.T, file string, at int64) uint64 {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 4
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	return 1
}

// TestTornEnd: the last frame was cut when the supervisor was killed. It is not there.
func TestTornEnd(t *testing.T) {
	dir := t.TempDir()
	w := NewWriter(dir, 1<<30)
	defer w.Release()
	want := fill(t, w, 10, 1000)
	file := segmentName(dir, 1)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range int64(frameHeader + 500) {
		if err := os.Truncate(file, info.Size()-cut-1); err != nil {
			t.Fatal(err)
		}
		r := NewReader(dir, 1)
		if skipped := readAll(t, r, Unbounded, want); skipped != 0 || r.Next() != 10 {
			t.Fatalf("cut by %d: %d skipped, the next is %d", cut+1, skipped, r.Next())
		}
		r.Close()
	}
}

// TestDataThatLooksLikeFrames is not taken for them, even behind a damaged frame.
func TestDataThatLooksLikeFrames(t *testing.T) {
	dir := t.TempDir()
	w := NewWriter(dir, 1<<30)
	defer w.Release()
	forged := appendFrame(nil, &Frame{Index: 3, Chunk: command.Chunk{Kind: command.Stdout, Data: []byte("forged")}})
	for _, data := range []string{"first", string(forged), "third"} {
		if err := w.Append([]command.Chunk{{Kind: command.Stdout, Data: []byte(data)}}); err != nil {
			t.Fatal(err)
		}
	}
	flip(t, segmentName(dir, 1), segmentHeader+2*frameHeader+int64(len("first"))+int64(len(forged))-1)
	r := NewReader(dir, 1)
	defer r.Close()
	got := ""
	for range 2 {
		b, err := r.Read(3, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range b.Frames {
			got += fmt.Sprint(f.Index, string(f.Data), " ")
		}
	}
	if got != "1first 3third " {
		t.Errorf("read %q", got)
	}
}

// TestFullSpoolWaits: Append waits while what is not acknowledged takes more than the bound, and says how long it
// has.
func TestFullSpoolWaits(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := NewWriter(dir, 2*segmentBytes)
		defer w.Release()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 40 {
				if err := w.Append([]command.Chunk{{Kind: command.Stdout, Data: make([]byte, maxData)}}); err != nil {
					t.Error(err)
				}
			}
		}()
		time.Sleep(time.Second)
		stuck := w.Progress().Tail
		if stuck >= 40 || stuck < 15 {
			t.Errorf("%d frames of 1 MiB were written without an acknowledgement", stuck)
		}
		for w.Progress().Tail < 40 {
			w.Ack(w.Progress().Tail)
			synctest.Wait()
		}
		<-done
		if d := w.Progress().Stalled; d < time.Second {
			t.Errorf("it says it has waited for %v", d)
		}
	})
}

// TestAckWhileFramesAreWritten: an acknowledgement removes a full segment while the next one is written to, which
// changes nothing for the frames. The race detector sees a write that looks at the segments meanwhile.
func TestAckWhileFramesAreWritten(t *testing.T) {
	batch := func(n int) (frames []command.Chunk) {
		for range n {
			frames = append(frames, command.Chunk{Kind: command.Stdout, Data: make([]byte, maxData)})
		}
		return frames
	}
	const full, more = segmentBytes / maxData, 12
	for range 4 {
		dir := t.TempDir()
		w := NewWriter(dir, 1<<30)
		if err := errors.Join(w.Append(batch(full)), w.Append(batch(1))); err != nil {
			t.Fatal(err)
		}
		acked := make(chan error)
		go func() {
			for {
				info, err := os.Stat(segmentName(dir, full+1))
				if err != nil || info.Size() > 2*maxData { // it is written to
					w.Ack(full + 1)
					acked <- err
					return
				}
			}
		}()
		if err := errors.Join(w.Append(batch(more)), <-acked); err != nil {
			t.Fatal(err)
		}
		if firsts, err := segments(dir); err != nil || len(firsts) != 1 {
			t.Errorf("segments %v, %v", firsts, err)
		}
		r := NewReader(dir, full+1)
		for r.Next() <= full+1+more {
			if b, err := r.Read(full+1+more, 1<<30); err != nil || b.Skipped > 0 {
				t.Fatalf("%d frames are skipped before %d, %v", b.Skipped, r.Next(), err)
			}
		}
		r.Close()
		w.Release()
	}
}

// TestFramesThatAreNotAcknowledgedStay: a segment goes with its last frame, and on a full disk, which leaves no other
// space, the last segment goes with the last frame.
func TestFramesThatAreNotAcknowledgedStay(t *testing.T) {
	dir := t.TempDir()
	w := NewWriter(dir, 1<<30)
	defer w.Release()
	all := fill(t, w, 60, 1<<19) // about half a MiB each
	list, err := segments(dir)
	if err != nil || len(list) < 3 {
		t.Fatalf("segments %v, %v", list, err)
	}
	tail := uint64(len(all))
	for _, acked := range []uint64{list[1] - 2, list[1] - 1, list[1], list[2] - 2, list[2], tail - 1} {
		w.Ack(acked)
		if w.makeRoom() {
			t.Errorf("frames after %d of %d are removed to make room", acked, tail)
		}
		r := NewReader(dir, acked+1)
		if skipped := readAll(t, r, tail, all); skipped > 0 || r.Next() != tail+1 {
			t.Errorf("after an acknowledgement of %d, %d frames are missing before %d", acked, skipped, r.Next())
		}
		r.Close()
	}
	w.Ack(tail)
	if list, err := segments(dir); !w.makeRoom() || err != nil || len(list) != 1 {
		t.Errorf("with all frames acknowledged %v are there, and stay, %v", list, err)
	}
}

// TestWriterOfARemovedDirectory fails and does not wait.
func TestWriterOfARemovedDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w := NewWriter(dir, 0)
	defer w.Release()
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := w.Append([]command.Chunk{{Kind: command.Stdout}}); !errors.Is(err, ErrRemoved) {
		t.Errorf("append: %v", err)
	}
}

// FuzzReader reads any bytes without a panic, without end, and without a frame that is not there.
func FuzzReader(f *testing.F) {
	good := appendSegmentHeader(nil, "")
	for i := range uint64(3) {
		good = appendFrame(good, &Frame{Index: i + 1, Chunk: command.Chunk{Kind: command.Stdout, Data: []byte("data")}})
	}
	f.Add(good)
	f.Add(good[:len(good)-2])
	f.Add([]byte("REPSPOOL"))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(segmentName(dir, 1), text, 0o600); err != nil {
			t.Fatal(err)
		}
		r := NewReader(dir, 1)
		defer r.Close()
		for {
			before := r.Next()
			b, err := r.Read(Unbounded, 1<<20)
			if _, newer := errors.AsType[*VersionError](err); newer {
				return
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			for _, f := range b.Frames {
				if !bytes.Contains(text, appendFrame(nil, &f)) {
					t.Fatalf("frame %d is not in the file", f.Index)
				}
			}
			if r.Next() == before {
				return
			}
		}
	})
}

// TestWriterReusesTheFileOfAnotherOne: the second spool has the file of the first, and nothing of its content. A large
// file is not recycled.
func TestWriterReusesTheFileOfAnotherOne(t *testing.T) {
	dir := t.TempDir()
	w := NewWriter(dir, 0)
	if first, ok := w.Recycle(); first != nil || !ok {
		t.Errorf("before the first frame: %v, %t", first, ok)
	}
	fill(t, w, 5, 1000)
	before, err := os.Stat(filepath.Join(dir, FirstSegment))
	if err != nil {
		t.Fatal(err)
	}
	first, ok := w.Recycle()
	if first == nil || !ok {
		t.Fatalf("after five frames: %v, %t", first, ok)
	}
	w = NewWriter(dir, 0)
	w.Reuse(first)
	after, err := os.Stat(filepath.Join(dir, FirstSegment))
	if err != nil || after.Size() != 0 || !os.SameFile(before, after) {
		t.Errorf("%+v, %v", after, err)
	}
	readAll(t, NewReader(dir, 1), Unbounded, nil)
	want := fill(t, w, 3, 500)
	readAll(t, NewReader(dir, 1), 3, want)
	readAll(t, NewReader(dir, 1), Unbounded, want)

	fill(t, w, 300, 2000)
	if _, ok := w.Recycle(); ok {
		t.Error("a large file is recycled")
	}
	w.Release()
}

// TestSegmentOfAnotherRunIsIgnored: after a crash of the machine the file may have its content from before it was used
// again.
func TestSegmentOfAnotherRunIsIgnored(t *testing.T) {
	earlier := filepath.Join(t.TempDir(), "earlier")
	if err := Create(earlier); err != nil {
		t.Fatal(err)
	}
	w := NewWriter(earlier, 0)
	want := fill(t, w, 3, 500)
	w.Release()
	readAll(t, NewReader(earlier, 1), 3, want)
	later := filepath.Join(filepath.Dir(earlier), "later")
	if err := os.Rename(earlier, later); err != nil {
		t.Fatal(err)
	}
	for _, last := range []uint64{3, Unbounded} {
		b, err := NewReader(later, 1).Read(last, 1<<20)
		if err != nil || len(b.Frames) > 0 || last == 3 && b.Skipped != 3 {
			t.Errorf("up to %d: %d frames, %d skipped, %v", last, len(b.Frames), b.Skipped, err)
		}
	}
}
