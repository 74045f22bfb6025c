package storewrap_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"reprise"
	"reprise/store/memstore"
	"reprise/store/storewrap"
)

func cache(tb testing.TB, inner reprise.Store, maxBytes int64) reprise.Store {
	tb.Helper()
	s, err := storewrap.Cache(inner, &storewrap.CacheOptions{MaxBytes: maxBytes})
	check(tb, err)
	return s
}

func TestCachedStoreKeepsContract(t *testing.T) {
	for _, maxBytes := range []int64{1 << 20, 1000} { // with much and with hardly any room
		t.Run(fmt.Sprint(maxBytes), func(t *testing.T) {
			conform(t, func(tb testing.TB, inner reprise.Store) reprise.Store { return cache(tb, inner, maxBytes) })
		})
	}
}

// counting is a Store that counts the batches that are read from it.
type counting struct {
	reprise.Store
	pages, batches int
}

func (c *counting) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	page, err := c.Store.Read(ctx, key, after, maxBytes)
	c.pages++
	c.batches += len(page.Batches)
	return page, err
}

func TestBatchesAreReadOnce(t *testing.T) {
	inner := &counting{Store: memstore.New(nil)}
	s := cache(t, inner, 0)
	defer s.Close()
	mustCreate(t, s, key("s"))
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprint("batch ", i))
		mustAppend(t, s, request(key("s"), uint64(i+1), want[i]))
	}
	for range 5 {
		if got := texts(t, s, key("s")); !slices.Equal(got, want) {
			t.Fatalf("got %q", got)
		}
	}
	mustAppend(t, s, request(key("s"), 101, "one more"))
	if got := texts(t, s, key("s")); len(got) != 101 || inner.batches != 101 {
		t.Errorf("got %d, %d batches were read inside", len(got), inner.batches)
	}
	if got := storewrap.StatsOf(s); got.Batches != 101 || got.Hits != 500 || got.Misses != 101 {
		t.Errorf("%+v", got)
	}
}

// TestCacheSeesAppendsOfOtherReplicas: changes by another replica are visible at once.
func TestCacheSeesAppendsOfOtherReplicas(t *testing.T) {
	inner := memstore.New(nil)
	mine, other := cache(t, inner, 0), cache(t, inner, 0)
	defer mine.Close()
	mustCreate(t, mine, key("s"))
	for i := range 10 {
		mustAppend(t, mine, request(key("s"), uint64(i+1), fmt.Sprint(i)))
	}
	same := func(what string, want ...string) {
		t.Helper()
		if got := texts(t, mine, key("s")); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	same("all", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
	check(t, other.Remove(t.Context(), key("s"), reprise.RemoveSpec{Trim: 9, Kept: 2}))
	same("trimmed by another", "8", "9")
	check(t, other.Remove(t.Context(), key("s"), reprise.RemoveSpec{}))
	if _, err := mine.Read(t.Context(), key("s"), 0, 100); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("removed by another: %v", err)
	}
	again := reprise.StreamInfo{Key: key("s"), Epoch: "7ZK3M9Q2VTX4WB8B"}
	_, err := other.Create(t.Context(), again)
	check(t, err)
	for i, text := range []string{"new", "newer"} {
		req := request(key("s"), uint64(i+1), text)
		req.Epoch = again.Epoch
		mustAppend(t, other, req)
	}
	same("made again by another", "new", "newer")
}

// TestCacheIsBounded reads at random from many streams, and compares with what was appended.
func TestCacheIsBounded(t *testing.T) {
	const streams, batches, maxBytes = 20, 50, 20_000
	s := cache(t, memstore.New(nil), maxBytes)
	defer s.Close()
	text := func(i, n int) string { return fmt.Sprintf("%d of stream %d %s", n, i, strings.Repeat("x", n)) }
	for i := range streams {
		mustCreate(t, s, key(fmt.Sprint(i)))
		for n := range batches {
			mustAppend(t, s, request(key(fmt.Sprint(i)), uint64(n+1), text(i, n)))
		}
	}
	for range 3000 {
		i, after, size := rand.IntN(streams), rand.IntN(batches), rand.IntN(2000)
		page, err := s.Read(t.Context(), key(fmt.Sprint(i)), uint64(after), size)
		check(t, err)
		sum := 0
		for n, b := range page.Batches {
			if string(b.Bytes) != text(i, after+n) || sum >= size {
				t.Fatalf("batch %d after %d of %d: %q", n, after, i, b.Bytes)
			}
			sum += len(b.Bytes)
		}
		if last := after + len(page.Batches); sum < size && last != batches {
			t.Fatalf("the page ends with %d", last)
		}
		if got := storewrap.StatsOf(s); got.Bytes > maxBytes || got.Batches > maxBytes/200 {
			t.Fatalf("%+v", got)
		}
	}
	if got := storewrap.StatsOf(s); got.Hits == 0 || got.Bytes < maxBytes/2 {
		t.Errorf("%+v", got)
	}
	mustCreate(t, s, key("large"))
	mustAppend(t, s, request(key("large"), 1, strings.Repeat("x", maxBytes)))
	before := storewrap.StatsOf(s)
	if got := texts(t, s, key("large")); len(got) != 1 || storewrap.StatsOf(s).Batches != before.Batches {
		t.Errorf("a batch that is larger than the cache: %+v, before %+v", storewrap.StatsOf(s), before)
	}
}

// late is a Store whose next Read shows the state of a moment ago.
type late struct {
	reprise.Store
	before *reprise.Page
	reads  int // the later ones
}

func (l *late) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	if page := l.before; page != nil {
		l.before = nil
		return *page, nil
	}
	l.reads++
	return l.Store.Read(ctx, key, after, maxBytes)
}

// TestCacheWithNewerBatchesThanTheState: batches that others have put into memory since the state was read are no hole
// and no loss, and one more read gets the state and what follows them.
func TestCacheWithNewerBatchesThanTheState(t *testing.T) {
	inner := &late{Store: memstore.New(nil)}
	s, err := storewrap.Cache(inner, nil)
	check(t, err)
	mustCreate(t, s, key("s"))
	mustAppend(t, s, request(key("s"), 1, "event"))
	before, err := inner.Read(t.Context(), key("s"), 0, 0)
	check(t, err)
	for first := uint64(2); first <= 3; first++ {
		mustAppend(t, s, request(key("s"), first, "event"))
	}
	_, err = s.Read(t.Context(), key("s"), 0, 1<<20)
	check(t, err)
	for first := uint64(4); first <= 5; first++ {
		mustAppend(t, s, request(key("s"), first, "event"))
	}
	inner.before, inner.reads = &before, 0
	page, err := s.Read(t.Context(), key("s"), 0, 1<<20)
	check(t, err)
	if inner.reads != 1 {
		t.Errorf("%d more reads, want 1", inner.reads)
	}
	if page.Info.Tail != 5 || len(page.Batches) != 5 || page.Batches[0].First != 1 {
		t.Errorf("the tail is %d, with %d batches: %+v", page.Info.Tail, len(page.Batches), page.Batches)
	}

	mustAppend(t, s, request(key("s"), 6, "event"))
	inner.before, inner.reads = &before, 0
	page, err = s.Read(t.Context(), key("s"), 5, 1<<20)
	check(t, err)
	if len(page.Batches) != 1 || page.Batches[0].First != 6 || inner.reads != 1 {
		t.Errorf("after the last in memory: %d more reads, %+v", inner.reads, page.Batches)
	}
	check(t, s.Close())
}
