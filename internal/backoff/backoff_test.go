package backoff

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// TestPausesGrowUpToMost: each pause is below its span, and over many rounds pauses come near both ends of it.
func TestPausesGrowUpToMost(t *testing.T) {
	spans := []time.Duration{100, 200, 400, 800, 1000, 1000}
	least, most := make([]time.Duration, len(spans)), make([]time.Duration, len(spans))
	for i := range least {
		least[i] = math.MaxInt64
	}
	b := Backoff{First: 100, Most: 1000}
	for range 2000 {
		for i := range spans {
			d := b.Next()
			least[i], most[i] = min(least[i], d), max(most[i], d)
		}
		b.Reset()
	}
	for i, span := range spans {
		if least[i] < 0 || least[i] > span/10 || most[i] >= span || most[i] < span*9/10 {
			t.Errorf("pause %d is between %d and %d, want the whole span below %d", i, least[i], most[i], span)
		}
	}
}

func TestPausesAtTheBoundsOfDuration(t *testing.T) {
	for _, b := range []Backoff{
		{}, {First: -1, Most: -1}, {First: time.Second}, {First: time.Hour, Most: math.MaxInt64},
	} {
		for range 100 {
			if d := b.Next(); d < 0 || b.Most <= 0 && d != 0 {
				t.Fatalf("a pause of %d with First %d and Most %d", d, b.First, b.Most)
			}
		}
	}
	b := Backoff{First: 1000, Most: 10}
	for range 100 {
		if d := b.Next(); d >= 10 {
			t.Fatalf("a pause of %d, want less than Most", d)
		}
	}
}

func TestWaitReturnsCauseWhenContextIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		began := time.Now()
		time.AfterFunc(time.Second, func() { cancel(why) })
		if err := Sleep(ctx, time.Hour); err != why ||
			time.Since(began) != time.Second { // the cause itself
			t.Errorf("%v after %v", err, time.Since(began))
		}
		b := Backoff{First: time.Hour, Most: time.Hour}
		if err := b.Wait(t.Context()); err != nil || time.Since(began) > time.Hour+time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestRepeatTriesUntilItIsDone: with pauses between the tries, and no longer than its context.
func TestRepeatTriesUntilItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, begin, tries := Backoff{First: time.Hour, Most: time.Hour}, time.Now(), 0
		err := b.Repeat(t.Context(), func() bool { tries++; return tries == 3 })
		if err != nil || tries != 3 || time.Since(begin) == 0 || time.Since(begin) >= 2*time.Hour {
			t.Errorf("%v after %d tries and %v", err, tries, time.Since(begin))
		}
		gone := errors.New("gone")
		ctx, leave := context.WithCancelCause(t.Context())
		if err := b.Repeat(ctx, func() bool { leave(gone); return false }); !errors.Is(err, gone) {
			t.Errorf("%v, want %v", err, gone)
		}
	})
}
