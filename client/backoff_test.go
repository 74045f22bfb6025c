package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The span doubles up to its bound, all of it is used, and what the server asks for comes on top.
func TestBackoff(t *testing.T) {
	const asked = 7 * time.Second
	spans := []time.Duration{1, 2, 4, 8, 10, 10}
	low, high := make([]time.Duration, len(spans)), make([]time.Duration, len(spans))
	for round := range 2000 {
		b := backoff{min: time.Second, max: 10 * time.Second}
		for i, span := range spans {
			wait := b.next(asked) - asked
			if wait < 0 || wait > span*time.Second {
				t.Fatalf("failure %d: waits %v, at most %v", i+1, wait, span*time.Second)
			}
			if round == 0 {
				low[i] = wait
			}
			low[i], high[i] = min(low[i], wait), max(high[i], wait)
		}
		b.succeeded()
		if wait := b.next(0); wait > time.Second {
			t.Fatalf("after a success: waits %v", wait)
		}
	}
	for i, span := range spans {
		if low[i] > span*time.Second/20 || high[i] < span*time.Second*19/20 {
			t.Errorf("failure %d: waits of %v to %v do not use all of %v", i+1, low[i], high[i], span*time.Second)
		}
	}
}

// A failure that goes on for days must not overflow.
func TestBackoffNeverOverflows(t *testing.T) {
	b := backoff{min: time.Hour, max: 1<<63 - 2}
	for range 1000 {
		if wait := b.next(0); wait < 0 {
			t.Fatal(wait)
		}
	}
}

func TestSleepIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		begun := time.Now()
		if err := sleep(ctx, time.Hour); err != why || time.Since(begun) != time.Second { //nolint:errorlint // the cause itself
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}
