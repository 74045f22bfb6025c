package memstore_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/store/memstore"
)

var (
	_ reprise.Store   = (*memstore.Store)(nil)
	_ reprise.Sweeper = (*memstore.Store)(nil)
	_ reprise.Sizer   = (*memstore.Store)(nil)

	_ reprise.CreateAppender = (*memstore.Store)(nil)
)

const epoch reprise.Epoch = "7ZK3M9Q2VTX4WB8A"

func key(name string) reprise.StreamKey {
	return reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name}
}

func mustCreate(tb testing.TB, s *memstore.Store, name string) {
	tb.Helper()
	if _, err := s.Create(tb.Context(), reprise.StreamInfo{Key: key(name), Epoch: epoch}); err != nil {
		tb.Fatal(err)
	}
}

func mustAppend(tb testing.TB, s *memstore.Store, req reprise.AppendRequest) {
	tb.Helper()
	if errs := s.Append(tb.Context(), []reprise.AppendRequest{req}); errs != nil {
		tb.Fatal(errs[0])
	}
}

// TestPagesMatchModelOfBatches appends batches of any counts, of which some follow each other in memory and some do
// not, trims now and then, and compares every page with that of a plain slice of batches.
func TestPagesMatchModelOfBatches(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		s := memstore.New(nil)
		mustCreate(t, s, "s")
		var model []reprise.Batch
		var block []byte
		req := reprise.AppendRequest{Key: key("s"), Epoch: epoch, First: 1, Earliest: 1}
		for range rnd.IntN(60) {
			size := rnd.IntN(40)
			if cap(block)-len(block) < size || rnd.IntN(8) == 0 {
				block = make([]byte, 0, size+rnd.IntN(200))
			}
			from := len(block)
			for range size {
				block = append(block, byte(rnd.Uint32()))
			}
			req.Bytes, req.Count = block[from:], 1+rnd.IntN(3)
			if rnd.IntN(3) == 0 {
				req.Earliest += rnd.Uint64N(req.First + uint64(req.Count) - req.Earliest + 1)
			}
			mustAppend(t, s, req)
			model = append(model, reprise.Batch{First: req.First, Count: req.Count, Bytes: req.Bytes})
			req.First += uint64(req.Count)
		}
		for range 50 {
			after, maxBytes := rnd.Uint64N(req.First+2), rnd.IntN(300)
			page, err := s.Read(t.Context(), key("s"), after, maxBytes)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, page.Batches, expected(model, max(after+1, page.Info.Earliest), maxBytes))
		}
	}
}

// expected is the batches that a page from the event on holds.
func expected(model []reprise.Batch, from uint64, maxBytes int) []reprise.Batch {
	var out []reprise.Batch
	for _, b := range model {
		if b.Last() >= from && maxBytes > 0 {
			out = append(out, b)
			maxBytes -= len(b.Bytes)
		}
	}
	return out
}

func compare(t *testing.T, got, want []reprise.Batch) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d batches, want %d", len(got), len(want))
	}
	for i := range got {
		g, w := got[i], want[i]
		if g.First != w.First || g.Count != w.Count || string(g.Bytes) != string(w.Bytes) {
			t.Fatalf("batch %d is %v, want %v", i, g, w)
		}
		if cap(g.Bytes) != len(g.Bytes) {
			t.Fatalf("batch %d can be appended to, over what follows", i)
		}
	}
}

// TestBatchesOfManyEvents has batches whose events cannot be counted in 32 bits.
func TestBatchesOfManyEvents(t *testing.T) {
	s := memstore.New(nil)
	mustCreate(t, s, "s")
	var from arena
	var model []reprise.Batch
	first := uint64(1)
	for _, count := range []int{3, math.MaxInt32, math.MaxInt32, math.MaxInt32, 1, math.MaxInt / 8, 2, 1, math.MaxInt} {
		b := reprise.Batch{First: first, Count: count, Bytes: from.next(8)}
		mustAppend(t, s, reprise.AppendRequest{
			Key: key("s"), Epoch: epoch, First: b.First, Count: b.Count, Bytes: b.Bytes, Earliest: 1,
		})
		model = append(model, b)
		first += uint64(count)
	}
	for i, b := range model {
		for _, after := range []uint64{b.First - 1, b.First + uint64(b.Count)/2 - 1, b.Last() - 1} {
			page, err := s.Read(t.Context(), key("s"), after, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, page.Batches, model[i:])
		}
	}
}

func TestMaxStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(&memstore.Options{MaxStreams: 3})
		for i := range 3 {
			mustCreate(t, s, strconv.Itoa(i))
		}
		info := reprise.StreamInfo{Key: key("more"), Epoch: epoch}
		if _, err := s.Create(t.Context(), info); !errors.Is(err, reprise.ErrQuota) {
			t.Fatalf("one stream too many: %v, want ErrQuota", err)
		}
		for i, hours := range []time.Duration{2, 1} {
			spec := reprise.RemoveSpec{Remember: time.Now().Add(hours * time.Hour)}
			if err := s.Remove(t.Context(), key(strconv.Itoa(i)), spec); err != nil {
				t.Fatal(err)
			}
		}
		mustCreate(t, s, "more")
		for name, want := range map[string]error{
			"0": reprise.ErrExpired, "1": reprise.ErrNotFound, "2": nil,
			"more": nil,
		} {
			if _, err := s.Read(t.Context(), key(name), 0, 0); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v: the mark with the least time left goes first", name, err, want)
			}
		}
	})
}

func TestListManyWithHoles(t *testing.T) {
	s := memstore.New(nil)
	var names []string // newest last
	for i := range 5000 {
		mustCreate(t, s, strconv.Itoa(i))
		names = append(names, strconv.Itoa(i))
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for len(names) > 0 {
		for range min(len(names), 700) {
			i := rnd.IntN(len(names))
			if err := s.Remove(t.Context(), key(names[i]), reprise.RemoveSpec{}); err != nil {
				t.Fatal(err)
			}
			names = append(names[:i], names[i+1:]...)
		}
		q := reprise.ListQuery{Tenant: reprise.DefaultTenant, Limit: 1 + rnd.IntN(1000)}
		for left := len(names); ; {
			page, err := s.List(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, info := range page.Streams {
				left--
				if info.Key.Name != names[left] {
					t.Fatalf("got %s, want %s", info.Key.Name, names[left])
				}
			}
			if q.After = page.Next; q.After == "" {
				if left != 0 {
					t.Fatalf("%d streams are missing", left)
				}
				break
			}
		}
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	s := memstore.New(nil)
	mustCreate(t, s, "s")
	var from arena
	reqs := []reprise.AppendRequest{{Key: key("s"), Epoch: epoch, Count: 1, Earliest: 1}}
	allocs := testing.AllocsPerRun(10_000, func() {
		reqs[0].First++
		reqs[0].Earliest = max(1, reqs[0].First-min(reqs[0].First, 1000))
		reqs[0].Bytes = from.next(200)
		if errs := s.Append(t.Context(), reqs); errs != nil {
			t.Fatal(errs)
		}
	})
	if allocs >= 1 {
		t.Errorf("%v allocations an append, want less than one", allocs)
	}
}

// TestAppendToLastStreamThatIsGone: an append that has found its stream without the lock of the Store, before the
// stream was removed, is refused and counts nothing.
func TestAppendToLastStreamThatIsGone(t *testing.T) {
	for want, remove := range map[error]func(*memstore.Store) error{
		reprise.ErrNotFound: func(s *memstore.Store) error {
			return s.Remove(t.Context(), key("s"), reprise.RemoveSpec{})
		},
		reprise.ErrClosed: (*memstore.Store).Close,
	} {
		s := memstore.New(nil)
		mustCreate(t, s, "other")
		mustCreate(t, s, "s")
		req := reprise.AppendRequest{Key: key("s"), Epoch: epoch, First: 1, Count: 1, Bytes: []byte("e"), Kept: 1}
		mustAppend(t, s, req)
		again := memstore.Last(s)
		if err := remove(s); err != nil {
			t.Fatal(err)
		}
		again()
		req.First, req.Kept = 2, 2
		if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); len(errs) != 1 || !errors.Is(errs[0], want) {
			t.Errorf("the append is answered with %v, want %v", errs, want)
		}
		if errors.Is(want, reprise.ErrClosed) {
			continue
		}
		sizes, err := s.Sizes(t.Context())
		if kept := sizes[reprise.DefaultTenant]; err != nil || kept.Events != 0 || kept.Bytes != 0 {
			t.Errorf("the tenant keeps %+v, %v; want nothing", kept, err)
		}
	}
}
