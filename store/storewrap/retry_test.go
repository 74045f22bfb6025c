package storewrap_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/wrap"
	"reprise/store/memstore"
	"reprise/store/storewrap"
)

var errLost = fmt.Errorf("%w: the answer was lost", reprise.ErrUnavailable)

// flaky is a Store whose calls, or their answers, are lost now and then.
type flaky struct {
	reprise.Store
	calls atomic.Int64
	// lose says what happens to a call: 0 nothing, 1 the call is lost, 2 the answer is.
	lose func() int
	// append says the same of an append; nil: lose does.
	append func(reqs []reprise.AppendRequest) int
}

func (f *flaky) call(do func() error) error {
	f.calls.Add(1)
	switch f.lose() {
	case 1:
		return errLost
	case 2:
		if err := do(); err != nil {
			return err
		}
		return errLost
	}
	return do()
}

func (f *flaky) Create(ctx context.Context, info reprise.StreamInfo) (kept reprise.StreamInfo, err error) {
	err = f.call(func() error { kept, err = f.Store.Create(ctx, info); return err })
	return kept, err
}

func (f *flaky) Read(ctx context.Context, key reprise.StreamKey, after uint64,
	maxBytes int,
) (page reprise.Page, err error) {
	err = f.call(func() error { page, err = f.Store.Read(ctx, key, after, maxBytes); return err })
	return page, err
}

func (f *flaky) List(ctx context.Context, q reprise.ListQuery) (list reprise.ListPage, err error) {
	err = f.call(func() error { list, err = f.Store.List(ctx, q); return err })
	return list, err
}

func (f *flaky) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	if spec.Epoch == "" {
		return f.Store.Remove(ctx, key, spec)
	}
	return f.call(func() error { return f.Store.Remove(ctx, key, spec) })
}

func (f *flaky) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	f.calls.Add(1)
	fate := 0
	if len(reqs) == 0 {
		return f.Store.Append(ctx, reqs)
	}
	if f.append != nil {
		fate = f.append(reqs)
	} else {
		fate = f.lose()
	}
	if fate == 1 {
		return slices.Repeat([]error{errLost}, len(reqs))
	}
	errs := f.Store.Append(ctx, reqs)
	if fate == 2 {
		lost := slices.Repeat([]error{errLost}, len(reqs))
		for i, err := range errs {
			if err != nil {
				lost[i] = err
			}
		}
		return lost
	}
	return errs
}

func (f *flaky) Sweep(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
	return f.Store.(reprise.Sweeper).Sweep(ctx, now, remember, limit)
}

func (f *flaky) Sizes(ctx context.Context) (sizes map[reprise.Tenant]reprise.Size, err error) {
	err = f.call(func() error { sizes, err = f.Store.(reprise.Sizer).Sizes(ctx); return err })
	return sizes, err
}

// eager tries again at once.
var eager = &storewrap.RetryOptions{Wait: time.Microsecond, MaxWait: 10 * time.Microsecond, Budget: 1 << 30}

func retry(tb testing.TB, inner reprise.Store, opts *storewrap.RetryOptions) reprise.Store {
	s, err := storewrap.Retry(inner, opts)
	check(tb, err)
	return s
}

// TestRetryingStoreKeepsContract runs the suite over a Store that loses one call in five, until it is to be closed. Of
// appends it loses the answers alone, of those that were stored: the suite has writers that append the same bytes at
// the same seq.
func TestRetryingStoreKeepsContract(t *testing.T) {
	conform(t, func(tb testing.TB, inner reprise.Store) reprise.Store {
		c := &calming{}
		rarely := func(fates ...int) int {
			if n := rand.IntN(10); n < len(fates) && !c.calm.Load() {
				return fates[n]
			}
			return 0
		}
		s, err := storewrap.Retry(&flaky{
			Store: inner, lose: func() int { return rarely(1, 2) },
			append: func([]reprise.AppendRequest) int { return rarely(2, 2) },
		}, eager)
		check(tb, err)
		c.Inner = s
		return c
	})
}

// TestCloseAllowsOneMoreTry closes the Store while the second try of a call is under way, and then loses that try. The
// third one succeeds.
func TestCloseAllowsOneMoreTry(t *testing.T) {
	inner := memstore.New(nil)
	mustCreate(t, inner, key("s"))
	f := &flaky{Store: inner}
	s, err := storewrap.Retry(f, eager)
	check(t, err)
	closed := make(chan error, 1)
	f.lose = func() int {
		switch f.calls.Load() {
		case 1:
			return 1
		case 2:
			go func() { closed <- s.Close() }()
			<-storewrap.Closing(s)
			return 1
		}
		return 0
	}
	if _, err := s.Read(t.Context(), key("s"), 0, 1); err != nil {
		t.Errorf("a read under way at Close: %v", err)
	}
	check(t, <-closed)
	if calls := f.calls.Load(); calls != 3 {
		t.Errorf("%d calls, want 3", calls)
	}
}

// calming is told before it is closed.
type calming struct {
	wrap.Around
	calm atomic.Bool
}

func (c *calming) Close() error {
	c.calm.Store(true)
	return c.Around.Close()
}

// TestAppendsInDoubt: whatever is lost, what was acknowledged is there once and in order.
func TestAppendsInDoubt(t *testing.T) {
	f := &flaky{Store: memstore.New(nil), lose: func() int { return max(0, rand.IntN(6)-3) }}
	s := retry(t, f, eager)
	const streams, rounds = 8, 200
	for i := range streams {
		mustCreate(t, s, key(fmt.Sprint(i)))
	}
	want := make([][]string, streams)
	for round := range rounds {
		var reqs []reprise.AppendRequest
		for i := range streams {
			text := fmt.Sprint("round ", round, " of ", i)
			req := request(key(fmt.Sprint(i)), uint64(round+1), text)
			if round == rounds-1 {
				req.End = &reprise.End{Outcome: "completed", Time: created, Expires: created}
			}
			reqs = append(reqs, req)
			want[i] = append(want[i], text)
		}
		if errs := s.Append(t.Context(), reqs); errs != nil {
			t.Fatal(errs)
		}
	}
	for i := range streams {
		if got := texts(t, s, key(fmt.Sprint(i))); !slices.Equal(got, want[i]) {
			t.Errorf("stream %d has %d batches, want %d", i, len(got), len(want[i]))
		}
	}
	check(t, s.Close())
}

// TestRetryDoesNotAdoptAppendOfAnotherWriter: a retry does not report the append of another writer as its own.
func TestRetryDoesNotAdoptAppendOfAnotherWriter(t *testing.T) {
	inner := memstore.New(nil)
	defer inner.Close()
	var fate int
	f := &flaky{Store: inner, lose: func() int { return 0 }}
	f.append = func(reqs []reprise.AppendRequest) int {
		if fate == 1 { // while the call is lost, somebody else is faster
			fate = 0
			mustAppend(t, inner, request(reqs[0].Key, reqs[0].First, "of another"))
			return 1
		}
		return 0
	}
	s := retry(t, f, eager)
	mustCreate(t, s, key("s"))
	for _, first := range []uint64{1, 2} {
		fate = 1
		if errs := s.Append(t.Context(), []reprise.AppendRequest{request(key("s"), first, "mine")}); !errors.Is(errs[0],
			reprise.ErrConflict) {
			t.Errorf("at %d: %v", first, errs)
		}
	}
	// What was trimmed meanwhile cannot be told.
	fate = 1
	trimmed := &trimming{flaky: f}
	s = retry(t, trimmed, eager)
	if errs := s.Append(t.Context(), []reprise.AppendRequest{request(key("s"), 3, "mine")}); !errors.Is(errs[0],
		reprise.ErrUnavailable) {
		t.Errorf("trimmed meanwhile: %v", errs)
	}
	if calls := trimmed.reads; calls != 1 {
		t.Errorf("it was asked for %d times", calls)
	}
}

// trimming is a Store in which everything is trimmed before each read.
type trimming struct {
	*flaky
	reads int
}

func (s *trimming) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	s.reads++
	if err := s.flaky.Store.Remove(ctx, key, reprise.RemoveSpec{Trim: 4}); err != nil {
		return reprise.Page{}, err
	}
	return s.flaky.Read(ctx, key, after, maxBytes)
}

func TestRetryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{Store: memstore.New(nil), lose: func() int { return 1 }}
		defer f.Close()
		s := retry(
			t,
			f,
			&storewrap.RetryOptions{
				Timeout: 5 * time.Second,
				Wait:    100 * time.Millisecond,
				MaxWait: time.Second,
				Budget:  60,
			},
		)
		call := func(ctx context.Context) error {
			_, err := s.Read(ctx, key("s"), 0, 1)
			return err
		}
		start := time.Now()
		if err := call(t.Context()); !errors.Is(err, errLost) {
			t.Errorf("the error is %v", err)
		}
		if took, calls := time.Since(start), f.calls.Load(); took > 5*time.Second || took < 4*time.Second ||
			calls < 6 ||
			calls > 30 {
			t.Errorf("%d tries in %v", calls, took)
		}
		cause := errors.New("the cause")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(30*time.Millisecond, func() { cancel(cause) })
		if err := call(ctx); !errors.Is(err, cause) {
			t.Errorf("cancelled while it waits: %v", err)
		}
		if errs := s.Append(ctx, []reprise.AppendRequest{request(key("s"), 1, "x")}); !errors.Is(errs[0], cause) {
			t.Errorf("append with a cancelled context: %v", errs)
		}
		for range 20 { // the budget is used up
			_ = call(t.Context())
		}
		before, start := f.calls.Load(), time.Now()
		_ = call(t.Context())
		if calls := f.calls.Load() - before; calls != 1 || time.Since(start) > 0 {
			t.Errorf("without a budget there are %d tries in %v", calls, time.Since(start))
		}
		f.lose = func() int { return 0 }
		for range 10 { // gives back one try
			_ = call(t.Context())
		}
		f.lose = func() int { return 1 }
		before = f.calls.Load()
		_ = call(t.Context())
		if calls := f.calls.Load() - before; calls != 2 {
			t.Errorf("after ten calls that have succeeded there are %d tries", calls)
		}
	})
}

// TestRemoveWithoutEpochIsTriedOnce: by the second time the name may be another stream's.
func TestRemoveWithoutEpochIsTriedOnce(t *testing.T) {
	inner := &removing{Store: memstore.New(nil)}
	defer inner.Close()
	s := retry(t, inner, eager)
	if err := s.Remove(t.Context(), key("s"), reprise.RemoveSpec{}); !errors.Is(err, errLost) || inner.tries != 1 {
		t.Errorf("%d tries, %v", inner.tries, err)
	}
	if err := s.Remove(t.Context(), key("s"), reprise.RemoveSpec{Epoch: epoch}); err != nil || inner.tries != 3 {
		t.Errorf("%d tries in all, %v", inner.tries, err)
	}
}

// removing is a Store that loses two removals.
type removing struct {
	reprise.Store
	tries int
}

func (s *removing) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	if s.tries++; s.tries <= 2 {
		return errLost
	}
	return s.Store.Remove(ctx, key, spec)
}
