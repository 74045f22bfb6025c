package pgstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"reprise"
	"reprise/store/pgstore"
)

func mustOpen(tb testing.TB, url string, opts *pgstore.Options) *pgstore.Store {
	tb.Helper()
	s, err := pgstore.Open(tb.Context(), url, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func key(name string) reprise.StreamKey {
	return reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name}
}

// create makes a stream and returns the request for its first append.
func create(tb testing.TB, s *pgstore.Store, name string) reprise.AppendRequest {
	tb.Helper()
	info, err := s.Create(tb.Context(),
		reprise.StreamInfo{Key: key(name), Epoch: reprise.NewEpoch(), Created: time.Now()})
	if err != nil {
		tb.Fatal(err)
	}
	return reprise.AppendRequest{Key: info.Key, Epoch: info.Epoch, First: 1, Count: 1, Earliest: 1}
}

// content is what the batch that begins with seq first of a stream holds.
func content(name string, first uint64, size int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%s/%d.", name, first), size/2)[:size]
}

// put appends one event of size bytes, so that keep events are left.
func put(tb testing.TB, s *pgstore.Store, req *reprise.AppendRequest, size int, keep uint64) {
	tb.Helper()
	req.Bytes = content(req.Key.Name, req.First, size)
	if req.First >= keep {
		req.Earliest = req.First - keep + 1
	}
	req.Kept = int64(req.First+1-req.Earliest) * int64(size)
	if errs := s.Append(tb.Context(), []reprise.AppendRequest{*req}); errs != nil {
		tb.Fatal(errs[0])
	}
	req.First++
}

// intact reads a stream in small pages and compares every event.
func intact(tb testing.TB, s *pgstore.Store, name string, size int) {
	tb.Helper()
	for after := uint64(0); ; {
		page, err := s.Read(tb.Context(), key(name), after, 20_000)
		if err != nil {
			tb.Fatal(err)
		}
		want := max(after+1, page.Info.Earliest)
		if len(page.Batches) == 0 && want <= page.Info.Tail {
			tb.Fatalf("%s: nothing from %d on, the tail is %d", name, want, page.Info.Tail)
		}
		if len(page.Batches) == 0 {
			return
		}
		for _, b := range page.Batches {
			if b.First != want || !bytes.Equal(b.Bytes, content(name, b.First, size)) {
				tb.Fatalf("%s: batch %d, want %d", name, b.First, want)
			}
			want = b.Last() + 1
		}
		after = want - 1
	}
}

// Events that have left their windows go with their partitions, those that have not are moved, and
// readers and writers notice nothing.
func TestTidyDropsOldPartitions(t *testing.T) {
	const size = 3000
	opts := &pgstore.Options{Schema: schema(t, server), PartBytes: 1 << 18, TidyEvery: -1}
	s, other := mustOpen(t, server.URL(), opts), mustOpen(t, server.URL(), opts)
	slow, large := create(t, s, "slow"), create(t, s, "large")
	put(t, s, &slow, size, 1000)
	put(t, s, &large, 3<<20, 1000) // larger than what is moved at a time is moved all the same
	busy := []reprise.AppendRequest{create(t, s, "busy0"), create(t, other, "busy1")}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range 2 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				intact(t, []*pgstore.Store{s, other}[i], fmt.Sprint("busy", n%2), size)
				intact(t, s, "slow", size)
			}
		})
	}
	var most, left int64
	for round := range 40 {
		for n := range 40 {
			put(t, s, &busy[n%2], size, 30)
		}
		if round%5 == 0 {
			put(t, other, &slow, size, 1000)
		}
		wg.Go(func() {
			if err := other.Tidy(t.Context()); err != nil {
				t.Error(err)
			}
		})
		if err := s.Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
		stats, err := s.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, stats.BatchBytes)
		left = stats.Partitions
	}
	close(stop)
	wg.Wait()
	intact(t, s, "slow", size)
	intact(t, s, "large", 3<<20)
	intact(t, s, "busy0", size)
	wrong, err := s.Check(t.Context())
	if err != nil || len(wrong) > 0 {
		t.Errorf("check: %v, %v", wrong, err)
	}
	// 40 rounds have written 4.8 MB beside the 3 MB that are kept.
	if most > 14<<20 || left > 17 {
		t.Errorf("the partitions took up to %d bytes, and there are %d at the end", most, left)
	}
	t.Logf("at most %d bytes, %d partitions at the end", most, left)
}

// However much is kept, there are only so many partitions: the smallest goes when there are too many.
func TestPartitionsAreFew(t *testing.T) {
	s := mustOpen(t, server.URL(), &pgstore.Options{Schema: schema(t, server), PartBytes: 1 << 16, TidyEvery: -1})
	const size = 5000
	slow := create(t, s, "slow")
	sizes := map[string]int{}
	most := int64(0)
	for round := range 30 {
		put(t, s, &slow, size, 1<<40)
		stats, err := s.Stats(t.Context())
		check(t, err)
		name := fmt.Sprint("s", round)
		sizes[name] = int(stats.BatchBytes/7) + 80_000 // enough for a partition
		req := create(t, s, name)
		put(t, s, &req, sizes[name], 1<<40)
		check(t, s.Tidy(t.Context()))
		stats, err = s.Stats(t.Context())
		check(t, err)
		most = max(most, stats.Partitions)
	}
	if most != 16 {
		t.Errorf("there were %d partitions", most)
	}
	intact(t, s, "slow", size)
	for name, size := range sizes {
		intact(t, s, name, size)
	}
}

// A batch that is not what was written is not served, and Check names its stream.
func TestDamageIsNotServed(t *testing.T) {
	name := schema(t, server)
	s := mustOpen(t, server.URL(), &pgstore.Options{Schema: name})
	for _, stream := range []string{"good", "changed", "missing"} {
		req := create(t, s, stream)
		for range 5 {
			put(t, s, &req, 100, 1000)
		}
	}
	sql(t, server.URL(),
		fmt.Sprintf(`UPDATE %q.batches SET bytes = set_byte(bytes, 3, 0) WHERE last = 3 AND stream = (SELECT id FROM %q.streams WHERE key = 'default/changed')`,
			name, name),
		fmt.Sprintf(`DELETE FROM %q.batches WHERE last = 4 AND stream = (SELECT id FROM %q.streams WHERE key = 'default/missing')`,
			name, name))
	intact(t, s, "good", 100)
	for _, stream := range []string{"changed", "missing"} {
		_, err := s.Read(t.Context(), key(stream), 1, 1<<20)
		if !isDamage(err) {
			t.Errorf("read %s: %v", stream, err)
		}
	}
	wrong, err := s.Check(t.Context())
	if err != nil || len(wrong) != 2 {
		t.Errorf("check: %q, %v", wrong, err)
	}
}

func isDamage(err error) bool {
	return errors.Is(err, pgstore.ErrDamaged) && !errors.Is(err, reprise.ErrUnavailable) &&
		!errors.Is(err, reprise.ErrNotFound)
}
