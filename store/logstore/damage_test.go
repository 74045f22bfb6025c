package logstore

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"reprise"
)

// smallStore is a closed store that has a snapshot, segments before and behind it, and marks.
func smallStore(t *testing.T) (d *simDisk, content string) {
	t.Helper()
	d = newSimDisk()
	s, err := open(d, exploreOptions())
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(7, 7))
	m := &model{streams: map[string]*modelStream{}}
	for n := 0; n < 60 || s.liveBeforeBase() < 300 || s.segments[uint32(s.base+1)] == nil; n++ {
		next := m.next(rnd)
		if err := next.call(s); err != nil {
			t.Fatal(err)
		}
		m = next.after
		if n%40 == 20 {
			if err := s.tidy(); err != nil {
				t.Fatal(err)
			}
		}
		if n == 1000 {
			t.Fatalf("there is never a segment before the snapshot and one behind its base, but%v", d)
		}
	}
	for range 2 { // what is dead is removed when it is opened again
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = open(d, exploreOptions()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	delete(d.names, reserveName) // whose content says nothing
	t.Logf("the store is%v", d)
	return d, m.print()
}

// liveBeforeBase is the bytes of batches in segments that are not read when the store is opened.
func (s *Store) liveBeforeBase() (bytes int64) {
	for number, seg := range s.segments {
		if uint64(number) < s.base {
			bytes += seg.live
		}
	}
	return bytes
}

// altered is a copy of a disk with another content of one file, nil for none.
func (d *simDisk) altered(name string, data []byte) *simDisk {
	c := newSimDisk()
	for n, f := range d.names {
		c.names[n] = &simFile{disk: c, name: n, data: f.data, durable: f.data}
	}
	if data == nil {
		delete(c.names, name)
	} else {
		c.names[name].data, c.names[name].durable = data, data
	}
	c.durable = maps.Clone(c.names)
	return c
}

// newest is the name of the newest segment.
func (d *simDisk) newest() (name string) {
	for n := range d.names {
		if strings.HasSuffix(n, ".log") {
			name = max(name, n)
		}
	}
	return name
}

// TestFlipsOfAnyByteAreDetected changes every byte of a small store. The change is told when the store is opened, by a
// read of what it concerns, or by Check, and nothing but what was stored is ever served.
func TestFlipsOfAnyByteAreDetected(t *testing.T) {
	d, want := smallStore(t)
	bytes, opened, ends := 0, 0, d.ends(t)
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		data := d.names[name].data
		if name == closedName {
			continue // a mark that cannot be read says nothing
		}
		for i := range data {
			if testing.Short() && i%7 > 0 {
				continue
			}
			for _, flip := range []byte{1 << (i % 8), 0xff} {
				bytes++
				changed := slices.Clone(data)
				changed[i] ^= flip
				if isOpen := flipped(t, d.altered(name, changed), want, i >= ends[name]); isOpen {
					opened++
				}
				if t.Failed() {
					t.Fatalf("byte %d of %s, changed by %#x", i, name, flip)
				}
			}
		}
	}
	if opened == 0 || opened == bytes {
		t.Errorf("%d of %d changed stores were opened: the test looks at one kind alone", opened, bytes)
	}
	t.Logf("%d changes, %d of them found after the store was opened", bytes, opened)
}

// ends returns where the commits of each segment end, and the length of each other file. An index lies behind.
func (d *simDisk) ends(t *testing.T) map[string]int {
	ends := map[string]int{}
	indexes := 0
	for name, f := range d.names {
		ends[name] = len(f.data)
	}
	s, err := open(d.altered("", nil), exploreOptions())
	if err != nil {
		t.Fatal(err)
	}
	for _, seg := range s.segments {
		if ends[seg.name] > int(seg.end) {
			indexes++
		}
		ends[seg.name] = int(seg.end)
	}
	if indexes < 2 {
		t.Fatalf("%d segments have an index", indexes)
	}
	return ends
}

// flipped opens a damaged store, if that is possible, and looks at all of it. A damaged index is made again.
func flipped(t *testing.T, d *simDisk, want string, inIndex bool) (opened bool) {
	s, err := open(d, exploreOptions())
	if err != nil {
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("open: %v", err)
		}
		return false
	}
	defer s.Close()
	got, err := printStore(s)
	if err == nil && got != want {
		t.Errorf("the store holds something else: %s", difference(got, []string{want}))
	}
	if err != nil && !errors.Is(err, ErrDamaged) {
		t.Errorf("read: %v", err)
	}
	wrong, cerr := s.Check(t.Context())
	if cerr != nil || (len(wrong) == 0) != inIndex || inIndex && err != nil {
		t.Errorf("Check finds %q, %v, a read %v", wrong, cerr, err)
	}
	return true
}

// TestMissingAndShortFiles removes and shortens the files of a closed store, other than the mark that it was closed.
func TestMissingAndShortFiles(t *testing.T) {
	d, want := smallStore(t)
	ends := d.ends(t)
	for name, f := range d.names {
		if name == closedName {
			continue
		}
		for length := -1; length < ends[name]; length += 97 {
			var left []byte
			if length >= 0 {
				left = f.data[:length:length]
			}
			s, err := open(d.altered(name, left), exploreOptions())
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("%s of %d bytes: %v", name, length, err)
			}
			if err == nil {
				got, err := printStore(s)
				t.Errorf("it holds what it held: %v, %v", got == want, err)
			}
		}
		for length := ends[name]; length < len(f.data); length += 7 {
			s, err := open(d.altered(name, f.data[:length:length]), exploreOptions())
			if err != nil {
				t.Fatalf("%s without a part of its index: %v", name, err)
			}
			if got, err := printStore(s); err != nil || got != want {
				t.Errorf("%s without a part of its index: %v, %s", name, err, difference(got, []string{want}))
			}
		}
	}
}

// TestNewestFileIsCut cuts the newest file of a store at 19 places. If the store was closed, it is told as damage.
// Otherwise it is what a write that was under way may have left: the store opens, holds what came before, and goes on;
// so does a closed one whose mark is missing or damaged, as that of an earlier version.
func TestNewestFileIsCut(t *testing.T) {
	const cuts = 19
	for _, c := range []struct {
		name  string
		close bool
		mark  []byte // in place of the one
	}{{"closed", true, nil}, {"killed", false, nil}, {"mark is damaged", true, make([]byte, frameBytes)}} {
		t.Run(c.name, func(t *testing.T) {
			d := newSimDisk()
			s, info := openWithStream(t, d)
			for range 20 {
				appendTo(t, s, &info, 1, []byte("event"))
			}
			end := int(s.active.end)
			if c.close {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if c.mark != nil {
				d = d.altered(closedName, c.mark)
			}
			data := d.names[d.newest()].data
			for n := 1; n <= cuts; n++ {
				cut := d.altered(d.newest(), data[:headerBytes+(end-headerBytes)*n/(cuts+1)])
				again, err := open(cut, exploreOptions())
				if told := c.close && c.mark == nil; told {
					if !errors.Is(err, ErrDamaged) {
						t.Errorf("cut %d: %v", n, err)
					}
					continue
				}
				if err != nil {
					t.Fatalf("cut %d: %v", n, err)
				}
				if st := again.get(info.Key); st != nil {
					info := st.info()
					appendTo(t, again, &info, 1, []byte("after"))
				}
				if err := again.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestLogBehindItsMarkOpens: an earlier version, which does not know the mark, has gone on after it.
func TestLogBehindItsMarkOpens(t *testing.T) {
	d := newSimDisk()
	s, info := openWithStream(t, d)
	appendTo(t, s, &info, 1, []byte("event"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mark := d.names[closedName].data
	if s, err := open(d, exploreOptions()); err != nil {
		t.Fatal(err)
	} else {
		appendTo(t, s, &info, 1, []byte("event"))
	}
	if d.names[closedName] != nil {
		t.Error("the mark is there while the store is open")
	}
	if _, err := d.create(closedName, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := open(d.altered(closedName, mark), exploreOptions()); err != nil {
		t.Error(err)
	}
}

// TestFailedSyncStopsWrites: after a failed sync the file receives no further write or sync. Data of the failed sync
// does not reappear when the next commit is durable.
func TestFailedSyncStopsWrites(t *testing.T) {
	for _, call := range []string{"sync", "write"} {
		d := newSimDisk()
		d.lost = rand.New(rand.NewPCG(1, 1))
		s, err := open(d, exploreOptions())
		if err != nil {
			t.Fatal(err)
		}
		failed := ""
		d.before = func(c, name string) error {
			switch {
			case c == call && failed == "":
				failed = name
				return errFault
			case name == failed && (c == "write" || c == "sync"):
				t.Errorf("%s of %s after its %s has failed", c, name, call)
			}
			return nil
		}
		info := reprise.StreamInfo{Key: testKey("a"), Epoch: "e"}
		if _, err := s.Create(t.Context(), info); !errors.Is(err, reprise.ErrUnavailable) {
			t.Fatalf("create: %v", err)
		}
		if _, err := s.Read(t.Context(), info.Key, 0, 1); !errors.Is(err, reprise.ErrNotFound) {
			t.Errorf("what was not acknowledged is read: %v", err)
		}
		info.Key.Name = "b"
		if _, err := s.Create(t.Context(), info); err != nil {
			t.Fatalf("create after a failed %s: %v", call, err)
		}
		if err := s.tidy(); err != nil {
			t.Error(err)
		}
		again, err := open(d.settled(), exploreOptions())
		if err != nil {
			t.Fatal(err)
		}
		if again.get(testKey("a")) != nil || again.get(testKey("b")) == nil {
			t.Errorf("after a crash: %v", again.streams.awake)
		}
	}
}

// TestHeaderIsWrittenAgain: a header whose sync has failed and that a program finds all the same, since its system
// still shows it, is durable before anything relies on it.
func TestHeaderIsWrittenAgain(t *testing.T) {
	for seed := range uint64(20) {
		d := newSimDisk()
		d.lost = rand.New(rand.NewPCG(seed, 1))
		s, err := open(d, exploreOptions())
		if err != nil {
			t.Fatal(err)
		}
		second := segmentName(2)
		d.before = func(call, name string) error {
			if name == second && (call == "sync" || call == "remove") {
				return errFault
			}
			return nil
		}
		if err := s.saveSnapshot(false); !errors.Is(err, errFault) {
			t.Fatalf("a snapshot on a disk that fails: %v", err)
		}
		d.before = nil
		for _, killed := range []bool{true, false} { // and then a loss of power
			disk := d
			if !killed {
				disk = d.settled()
			}
			if s, err = open(disk, exploreOptions()); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			key := testKey("a")
			if _, err := s.Create(t.Context(), reprise.StreamInfo{Key: key, Epoch: "e"}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestDiskFull fills a disk, which refuses appends and serves what it has; removals go on, and make room for appends.
func TestDiskFull(t *testing.T) {
	d := newSimDisk()
	o := exploreOptions()
	d.quota = 20 * o.SegmentBytes
	s, err := open(d, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	req := func(name string, seq uint64) reprise.AppendRequest {
		return reprise.AppendRequest{
			Key: testKey(name), Epoch: "e", First: seq, Count: 1, Bytes: make([]byte, 300), Earliest: 1,
			Kept: int64(seq) * 300,
		}
	}
	for _, name := range names {
		if _, err := s.Create(t.Context(), reprise.StreamInfo{Key: testKey(name), Epoch: "e"}); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		seqs := map[string]uint64{}
		for _, name := range names {
			page, err := s.Read(t.Context(), testKey(name), 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			seqs[name] = page.Info.Tail
		}
		for n := 0; ; n++ {
			name := names[n%len(names)]
			errs := s.Append(t.Context(), []reprise.AppendRequest{req(name, seqs[name]+1)})
			if errs != nil {
				if !errors.Is(errs[0], reprise.DiskFull) {
					t.Fatalf("append %d of round %d: %v", n, round, errs[0])
				}
				break
			}
			seqs[name]++
			if n%8 == 7 {
				_ = s.tidy() // which fails when the disk is nearly full
			}
			if n > 1000 {
				t.Fatal("the disk never gets full")
			}
		}
		for _, name := range names {
			page, err := s.Read(t.Context(), testKey(name), 0, 1<<30)
			if err != nil || page.Info.Tail != seqs[name] {
				t.Fatalf("on a full disk %s has the tail %d, %v, want %d", name, page.Info.Tail, err, seqs[name])
			}
			trim := reprise.RemoveSpec{Trim: seqs[name], Kept: 300}
			if err := s.Remove(t.Context(), testKey(name), trim); err != nil {
				t.Fatalf("trim on a full disk: %v", err)
			}
		}
		if err := s.tidy(); err != nil {
			t.Logf("round %d: %v", round, err)
		}
		if errs := s.Append(t.Context(), []reprise.AppendRequest{req("a", seqs["a"]+1)}); errs != nil {
			t.Fatalf("append after a trim on a full disk, round %d: %v, on%v", round, errs[0], d)
		}
	}
}

// TestPanicUnderTheTurn: a panic in a commit reaches its caller, and no other call waits for the turn for ever. If the
// commit was being written, later changes are refused, also the one at Close, and what was acknowledged is there when
// the store is opened again. Otherwise the store goes on.
func TestPanicUnderTheTurn(t *testing.T) {
	for _, at := range []string{"stage", "write", "sync"} {
		t.Run(at, func(t *testing.T) {
			d := newSimDisk()
			s, err := open(d, exploreOptions())
			if err != nil {
				t.Fatal(err)
			}
			info := reprise.StreamInfo{Key: testKey("a"), Epoch: "e"}
			if _, err := s.Create(t.Context(), info); err != nil {
				t.Fatal(err)
			}
			d.before = func(call, _ string) error {
				if call == at {
					panic("a fault")
				}
				return nil
			}
			waits := &change{done: make(chan struct{}), stage: func(*group) error { return nil }}
			s.queued.changes = []*change{waits} // of the same group
			func() {
				defer func() {
					if recover() == nil {
						t.Error("no panic")
					}
				}()
				_ = s.commit(t.Context(), &change{stage: func(g *group) error {
					if at == "stage" {
						panic("a fault")
					}
					_, err := g.create(reprise.StreamInfo{Key: testKey("b"), Epoch: "e", Earliest: 1})
					return err
				}})
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			select {
			case <-waits.done:
				if !errors.Is(waits.err, reprise.ErrUnavailable) {
					t.Errorf("another change of the group: %v", waits.err)
				}
			case <-ctx.Done():
				t.Fatal("another change of the group has no result")
			}
			d.before = nil
			_, err = s.Create(ctx, reprise.StreamInfo{Key: testKey("c"), Epoch: "e"})
			if goesOn := at == "stage"; (err == nil) != goesOn || !goesOn && !errors.Is(err, reprise.ErrUnavailable) {
				t.Errorf("the next call: %v", err)
			}
			if at != "stage" {
				req := reprise.AppendRequest{Key: testKey("b"), Epoch: "e", First: 1, Count: 1, Bytes: []byte("b")}
				errs := s.Append(ctx, []reprise.AppendRequest{req})
				if errs == nil || !errors.Is(errs[0], reprise.ErrUnavailable) {
					t.Errorf("an append to the stream whose creation panicked: %v", errs)
				}
			}
			if err := s.saveSnapshot(false); (err == nil) != (at == "stage") {
				t.Errorf("a snapshot: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = open(d, exploreOptions()); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := s.Read(t.Context(), info.Key, 0, 1); err != nil {
				t.Errorf("what was acknowledged: %v", err)
			}
		})
	}
}
