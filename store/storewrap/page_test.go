package storewrap_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"reprise"
	"reprise/store/memstore"
)

// interrupted is a Store that something happens to before a read.
type interrupted struct {
	reprise.Store
	reads  int
	before func(read int)
}

func (s *interrupted) Read(ctx context.Context, key reprise.StreamKey, after uint64,
	maxBytes int,
) (reprise.Page, error) {
	s.reads++
	s.before(s.reads)
	return s.Store.Read(ctx, key, after, maxBytes)
}

// TestPagesStayOneView: a page that takes several reads inside, because batches were less compressed than others
// are, is what a single read would have given at the time of the last.
func TestPagesStayOneView(t *testing.T) {
	const batches, size = 40, 1000
	noise := rand.NewChaCha8([32]byte{1})
	text := make([]string, 2*batches)
	for i := range text {
		b := make([]byte, size)
		noise.Read(b)
		text[i] = string(append([]byte{200}, b...))
	}
	const other reprise.Epoch = "7ZK3M9Q2VTX4WB8B"
	ctx := t.Context()
	trim := func(before uint64) func(s reprise.Store) {
		return func(s reprise.Store) {
			check(t, s.Remove(ctx, key("s"), reprise.RemoveSpec{Trim: before, Kept: 1}))
		}
	}
	for what, test := range map[string]struct {
		happens func(s reprise.Store)
		epoch   reprise.Epoch
		want    []string
		err     error
	}{
		"nothing": {happens: func(reprise.Store) {}, want: text[10:batches]},
		"appended": {happens: func(s reprise.Store) {
			mustAppend(t, s,
				request(key("s"), batches+1, text[batches]))
		}, want: text[10 : batches+1]},
		"trimmed before the page":   {happens: trim(5), want: text[10:batches]},
		"trimmed inside the page":   {happens: trim(13), want: text[12:batches]},
		"trimmed far into the page": {happens: trim(31), want: text[30:batches]},
		"trimmed altogether":        {happens: trim(batches + 1)},
		"removed": {happens: func(s reprise.Store) {
			check(t,
				s.Remove(ctx, key("s"), reprise.RemoveSpec{}))
		}, err: reprise.ErrNotFound},
		"made again, shorter": {epoch: other, want: text[10:12], happens: func(s reprise.Store) {
			makeAgain(t, s, other, text[:12])
		}},
		"made again, longer": {epoch: other, want: text[10 : batches+5], happens: func(s reprise.Store) {
			makeAgain(t, s, other, text[:batches+5])
		}},
	} {
		inner := &interrupted{Store: memstore.New(nil), before: func(int) {}}
		for name, s := range map[string]reprise.Store{"compressed": compress(t, inner), "cached": cache(t, inner, 0)} {
			k := key("s")
			mustCreate(t, s, k)
			for i := range batches {
				mustAppend(t, s, request(k, uint64(i+1), text[i]))
			}
			if name == "cached" { // a part of the page is in memory
				_, err := s.Read(ctx, k, 10, 15*size)
				check(t, err)
			}
			inner.reads = 0
			inner.before = func(read int) {
				if read == 2 {
					test.happens(inner.Store)
				}
			}
			page, err := s.Read(ctx, k, 10, 45*size)
			if inner.reads < 2 {
				t.Errorf("%s, %s: %d reads inside are no test", what, name, inner.reads)
			}
			var got []string
			for _, b := range page.Batches {
				got = append(got, string(b.Bytes))
			}
			if !errors.Is(err, test.err) || !slices.Equal(got, test.want) || test.epoch != "" &&
				page.Info.Epoch != test.epoch {
				t.Errorf("%s, %s: got %d batches of epoch %s, want %d; %v", what, name, len(got), page.Info.Epoch,
					len(test.want), err)
			}
			if n := len(page.Batches); n > 0 && page.Batches[n-1].Last() != page.Info.Tail {
				t.Errorf("%s, %s: the page ends with %d, the tail is %d", what, name, page.Batches[n-1].Last(),
					page.Info.Tail)
			}
			inner.before = func(int) {}
			check(t, s.Remove(ctx, k, reprise.RemoveSpec{}))
		}
		check(t, inner.Close())
	}
}

// makeAgain removes the stream "s" and makes it in another epoch.
func makeAgain(tb testing.TB, s reprise.Store, epoch reprise.Epoch, texts []string) {
	tb.Helper()
	check(tb, s.Remove(tb.Context(), key("s"), reprise.RemoveSpec{}))
	_, err := s.Create(tb.Context(), reprise.StreamInfo{Key: key("s"), Epoch: epoch})
	check(tb, err)
	for i, text := range texts {
		req := request(key("s"), uint64(i+1), text)
		req.Epoch = epoch
		mustAppend(tb, s, req)
	}
}

// TestRatioIsLearned: a Store that is asked again and again needs hardly more than one read for a page.
func TestRatioIsLearned(t *testing.T) {
	inner := &interrupted{Store: memstore.New(nil), before: func(int) {}}
	s := compress(t, inner)
	defer s.Close()
	mustCreate(t, s, key("s"))
	for i := range uint64(2000) {
		mustAppend(t, s, request(key("s"), i+1,
			fmt.Sprintf("%d: go: downloading golang.org/x/sync v0.23.0, and more that gets smaller, smaller, smaller\n",
				i)))
	}
	inner.reads = 0
	pages := 0
	for after := uint64(0); after < 2000; pages++ {
		page, err := s.Read(t.Context(), key("s"), after, 10_000)
		check(t, err)
		after = page.Batches[len(page.Batches)-1].Last()
	}
	if inner.reads > pages+pages/4+3 {
		t.Errorf("%d pages took %d reads", pages, inner.reads)
	}
}
