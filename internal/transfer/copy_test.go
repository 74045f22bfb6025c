package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"reprise"
	"reprise/internal/shared"
	"reprise/internal/transfer"
	"reprise/store/memstore"
)

// copyAll copies and wants it to succeed.
func copyAll(t *testing.T, from, to reprise.Store) transfer.Result {
	t.Helper()
	result, err := transfer.Copy(t.Context(), from, to, nil)
	check(t, err)
	if len(result.Failed) != 0 {
		t.Fatal(result.Failed)
	}
	return result
}

// wantSame wants both stores to hold the same.
func wantSame(t *testing.T, from, to reprise.Store) {
	t.Helper()
	want, got := infos(t, from), infos(t, to)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatal(diff)
	}
	same := func(a, b reprise.Event) bool { // go-cmp takes seconds for long streams
		return a.Seq == b.Seq && a.Time.Equal(b.Time) && a.Type == b.Type && a.Format == b.Format &&
			bytes.Equal(a.Data, b.Data)
	}
	for k := range want {
		if a, b := events(t, from, k), events(t, to, k); !slices.EqualFunc(a, b, same) {
			t.Fatalf("%s: the %d events of the copy are not the %d of the source", k, len(b), len(a))
		}
	}
}

func TestCopyKeepsEverything(t *testing.T) {
	eachPair(t, func(t *testing.T, from, to reprise.Store) {
		n := fill(t, from)
		result := copyAll(t, from, to)
		if result.Copied != int64(n) || len(result.Moving) != 0 {
			t.Fatalf("%+v, want %d copied", result, n)
		}
		wantSame(t, from, to)
		if again := copyAll(t, from, to); again.Present != int64(n) || again.Events != 0 {
			t.Fatalf("the second copy: %+v", again)
		}
		wantSame(t, from, to)
	})
}

// TestCursorsAreValidInCopy continues in the copy with a cursor of the source.
func TestCursorsAreValidInCopy(t *testing.T) {
	from, to, keys := memory(t), sqlite(t), reprise.NewKeyset()
	open := func(store reprise.Store) *reprise.Log {
		log, err := reprise.Open(t.Context(), store, &reprise.Options{Keys: keys, SweepEvery: -1})
		check(t, err)
		t.Cleanup(func() { _ = log.Close() })
		return log
	}
	s := create(t, open(from), key("s"), reprise.StreamConfig{}, nobody)
	add(t, s, 20, 3, reprise.AppendOptions{})
	copyAll(t, from, to)
	moved, err := open(to).Stream(t.Context(), key("s"))
	check(t, err)
	add(t, moved, 1, 1, reprise.AppendOptions{})
	r, err := moved.Reader(t.Context(), reprise.After(s.Cursor(17)))
	check(t, err)
	defer r.Close()
	want := uint64(18)
	for e, err := range r.Events(t.Context()) {
		check(t, err)
		if e.Seq != want {
			t.Fatalf("event %d, want %d", e.Seq, want)
		}
		if want++; want > 21 {
			break
		}
	}
}

// TestLineageIsCopied: a cursor of an epoch before the last failover of the source is as good on the copy.
func TestLineageIsCopied(t *testing.T) {
	hub, to, keys := shared.New(memstore.New(nil)), sqlite(t), reprise.NewKeyset()
	from := hub.Store()
	t.Cleanup(func() { check(t, from.Close()) })
	log, err := reprise.Open(t.Context(), from, &reprise.Options{Keys: keys, SweepEvery: -1})
	check(t, err)
	s := create(t, log, key("s"), reprise.StreamConfig{}, nobody)
	add(t, s, 20, 1, reprise.AppendOptions{})
	below, beyond := s.Cursor(12), s.Cursor(17)
	check(t, log.Close())
	check(t, hub.Lose(t.Context(), key("s"), 15))
	copyAll(t, from, to)
	wantSame(t, from, to)
	if log, err = reprise.Open(t.Context(), to, &reprise.Options{Keys: keys, SweepEvery: -1}); err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	moved, err := log.Stream(t.Context(), key("s"))
	check(t, err)
	r, err := moved.Reader(t.Context(), reprise.After(below))
	check(t, err)
	check(t, r.Close())
	_, err = moved.Reader(t.Context(), reprise.After(beyond))
	if window, ok := errors.AsType[*reprise.WindowError](err); !ok || window.Fork.Seq != 15 {
		t.Errorf("a cursor beyond the fork: %v", err)
	}
}

func TestCopyOfALongStream(t *testing.T) {
	from, to := memory(t), sqlite(t)
	log := openLog(t, from)
	s := create(t, log, key("long"), reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: 1 << 30}}, nobody)
	add(t, s, 100_000, 100, reprise.AppendOptions{})
	end(t, s)
	if result := copyAll(t, from, to); result.Events != 100_001 {
		t.Fatalf("%+v", result)
	}
	wantSame(t, from, to)
}

// breaking is a Store whose appends fail after some, as if the program had been killed then.
type breaking struct {
	reprise.Store
	left int
	stop func()
}

func (b *breaking) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	if b.left--; b.left < 0 {
		b.stop()
		errs := make([]error, len(reqs))
		for i := range errs {
			errs[i] = context.Cause(ctx)
		}
		return errs
	}
	return b.Store.Append(ctx, reqs)
}

// TestCopyGoesOn stops a copy after each number of commits and runs it again.
func TestCopyGoesOn(t *testing.T) {
	eachPair(t, func(t *testing.T, from, to reprise.Store) {
		fill(t, from)
		interrupted := 0
		for left := 1; ; left += 7 {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := transfer.Copy(ctx, from, &breaking{to, left, cancel},
				&transfer.Options{Parallel: 3, PageBytes: 1000})
			cancel()
			if err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			interrupted++
		}
		if interrupted == 0 {
			t.Fatal("no copy was interrupted")
		}
		wantSame(t, from, to)
	})
}

// meanwhile is a Store that does something as soon as a stream was read for the nth time.
type meanwhile struct {
	reprise.Store
	reads int
	do    func()
}

func (m *meanwhile) Read(ctx context.Context, k reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	page, err := m.Store.Read(ctx, k, after, maxBytes)
	if m.reads--; m.reads == 0 {
		m.do()
	}
	return page, err
}

// TestSourceThatChanges changes the stream after each read of the copy in turn.
func TestSourceThatChanges(t *testing.T) {
	changes := map[string]func(t *testing.T, log *reprise.Log, s *reprise.Stream){
		"append": func(t *testing.T, _ *reprise.Log, s *reprise.Stream) { add(t, s, 5, 1, reprise.AppendOptions{}) },
		"end":    func(t *testing.T, _ *reprise.Log, s *reprise.Stream) { end(t, s) },
		"trim":   func(t *testing.T, _ *reprise.Log, s *reprise.Stream) { check(t, s.Trim(t.Context(), 25)) },
		"trim and append": func(t *testing.T, _ *reprise.Log, s *reprise.Stream) {
			add(t, s, 5, 1, reprise.AppendOptions{})
			check(t, s.Trim(t.Context(), 33))
		},
		"remove": func(t *testing.T, log *reprise.Log,
			s *reprise.Stream,
		) {
			check(t, log.Remove(t.Context(), s.Key()))
		},
		"another life": func(t *testing.T, log *reprise.Log, s *reprise.Stream) {
			check(t, log.Remove(t.Context(), s.Key()))
			add(t, create(t, log, s.Key(), reprise.StreamConfig{}, nobody), 3, 1, reprise.AppendOptions{})
		},
	}
	for name, change := range changes {
		for reads := 1; reads <= 12; reads++ {
			t.Run(fmt.Sprint(name, " after read ", reads), func(t *testing.T) {
				from, to := memory(t), memory(t)
				log := openLog(t, from)
				s := create(t, log, key("s"), reprise.StreamConfig{}, nobody)
				add(t, s, 30, 5, reprise.AppendOptions{})
				source := &meanwhile{from, reads, func() { change(t, log, s) }}
				_, err := transfer.Copy(t.Context(), source, to, &transfer.Options{PageBytes: 300})
				check(t, err)
				_, err = transfer.Copy(t.Context(), from, to, nil)
				if name == "another life" && errors.Is(err, reprise.ErrConflict) {
					return // it came after the other was copied whole
				}
				check(t, err)
				if name != "remove" { // what is removed after it was copied stays
					wantSame(t, from, to)
				}
			})
		}
	}
}

func TestMovingStreamIsTold(t *testing.T) {
	from, to := memory(t), memory(t)
	log := openLog(t, from)
	s := create(t, log, key("s"), reprise.StreamConfig{}, nobody)
	add(t, s, 3, 3, reprise.AppendOptions{})
	source := &meanwhile{from, 1, func() { add(t, s, 1, 1, reprise.AppendOptions{}) }}
	result := copyAll(t, source, to)
	if len(result.Moving) != 1 || result.Moving[0] != key("s") || result.Events != 3 {
		t.Fatalf("%+v", result)
	}
}

func TestCopyRefuses(t *testing.T) {
	t.Run("itself", func(t *testing.T) {
		store := memory(t)
		if _, err := transfer.Copy(t.Context(), store, store, nil); !errors.Is(err, reprise.ErrInvalid) {
			t.Fatal(err)
		}
	})
	for name, spoil := range map[string]func(t *testing.T, to reprise.Store){
		"another life": func(t *testing.T, to reprise.Store) {
			create(t, openLog(t, to), key("s"), reprise.StreamConfig{}, nobody)
		},
		"gone on": func(t *testing.T, to reprise.Store) {
			s, err := openLog(t, to).Stream(t.Context(), key("s"))
			check(t, err)
			add(t, s, 1, 1, reprise.AppendOptions{})
		},
		"ended there": func(t *testing.T, to reprise.Store) {
			s, err := openLog(t, to).Stream(t.Context(), key("s"))
			check(t, err)
			end(t, s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := memory(t), memory(t)
			log := openLog(t, from)
			add(t, create(t, log, key("s"), reprise.StreamConfig{}, nobody), 3, 1, reprise.AppendOptions{})
			if name != "another life" {
				copyAll(t, from, to)
			}
			spoil(t, to)
			add(t, create(t, log, key("fine"), reprise.StreamConfig{}, nobody), 3, 1, reprise.AppendOptions{})
			before := infos(t, to)[key("s")]
			result, err := transfer.Copy(t.Context(), from, to, nil)
			if !errors.Is(err, reprise.ErrConflict) || len(result.Failed) != 1 || result.Failed[0].Key != key("s") ||
				result.Copied != 1 {
				t.Fatalf("%+v, %v", result, err)
			}
			if diff := cmp.Diff(before, infos(t, to)[key("s")]); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

// flipping is a Store that answers reads with a changed byte.
type flipping struct{ reprise.Store }

func (f flipping) Read(ctx context.Context, k reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	page, err := f.Store.Read(ctx, k, after, maxBytes)
	for i := range page.Batches {
		b := append([]byte(nil), page.Batches[i].Bytes...)
		b[len(b)-1] ^= 1
		page.Batches[i].Bytes = b
	}
	return page, err
}

func TestCopyIsVerified(t *testing.T) {
	from, to := memory(t), memory(t)
	add(t, create(t, openLog(t, from), key("s"), reprise.StreamConfig{}, nobody), 3, 1, reprise.AppendOptions{})
	result, err := transfer.Copy(t.Context(), from, flipping{to}, nil)
	if err == nil || len(result.Failed) != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
}

func TestCopyReportsProgress(t *testing.T) {
	from, to := memory(t), memory(t)
	n := int64(fill(t, from))
	var last transfer.Progress
	result, err := transfer.Copy(t.Context(), from, to,
		&transfer.Options{Progress: func(p transfer.Progress) { last = p }})
	check(t, err)
	if last.Found != n || last.Done != n || last.Events != result.Events || last.Bytes != result.Bytes {
		t.Fatalf("%+v, %+v", last, result)
	}
}
