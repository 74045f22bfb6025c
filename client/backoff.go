package client

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff says how long to wait after each failure in a row.
type backoff struct {
	min, max time.Duration
	tries    int       // failures since the last success
	since    time.Time // when the first of them was
}

// next counts a failure and returns the time to wait: what the server asks for, and on top
// of it a random part of a span that doubles with each failure. All of
// the span is random (full jitter), so that those whom one fault has cut off
// do not come back together.
func (b *backoff) next(asked time.Duration) time.Duration {
	if b.tries == 0 {
		b.since = time.Now()
	}
	span := b.max
	if b.tries < 32 && b.min<<b.tries > 0 {
		span = min(b.min<<b.tries, b.max)
	}
	b.tries++
	return asked + rand.N(span+1)
}

// succeeded makes the next failure the first one.
func (b *backoff) succeeded() { b.tries = 0 }

// outlasts reports whether waiting would go beyond a bound on the time since the
// first failure; 0 is no bound.
func (b *backoff) outlasts(bound, wait time.Duration) bool {
	return bound < 0 || bound > 0 && time.Since(b.since)+wait > bound
}

// sleep waits, or returns the cause if ctx is cancelled.
func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
