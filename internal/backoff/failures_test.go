package backoff

import (
	"testing"
	"time"
)

// The span doubles up to its bound, all of it is used, and what the server asks for comes on top.
func TestFailuresGrowPauses(t *testing.T) {
	const asked = 7 * time.Second
	spans := []time.Duration{1, 2, 4, 8, 10, 10}
	low, high := make([]time.Duration, len(spans)), make([]time.Duration, len(spans))
	for round := range 2000 {
		b := Failures{Pause: Backoff{First: time.Second, Most: 10 * time.Second}}
		for i, span := range spans {
			wait := b.Next(asked) - asked
			if wait < 0 || wait > span*time.Second {
				t.Fatalf("failure %d: waits %v, at most %v", i+1, wait, span*time.Second)
			}
			if round == 0 {
				low[i] = wait
			}
			low[i], high[i] = min(low[i], wait), max(high[i], wait)
		}
		b.Succeeded()
		if wait := b.Next(asked); wait != 0 {
			t.Fatalf("after a success: waits %v", wait)
		}
		if wait := b.Next(asked) - asked; wait < 0 || wait > time.Second {
			t.Fatalf("second failure after a success: waits %v", wait)
		}
		b.Reset()
		if wait := b.Next(asked); wait < asked || wait > asked+time.Second || b.Tries() != 1 {
			t.Fatalf("after a reset: waits %v at failure %d", wait, b.Tries())
		}
	}
	for i, span := range spans {
		if low[i] > span*time.Second/20 || high[i] < span*time.Second*19/20 {
			t.Errorf("failure %d: waits of %v to %v do not use all of %v", i+1, low[i], high[i], span*time.Second)
		}
	}
}

// A failure that goes on for days must not overflow.
func TestFailuresNeverOverflow(t *testing.T) {
	b := Failures{Pause: Backoff{First: time.Hour, Most: 1<<63 - 2}}
	for range 1000 {
		if wait := b.Next(0); wait < 0 {
			t.Fatal(wait)
		}
	}
}
