// Package backoff computes the pauses between the attempts of a failing operation. It imports only the standard
// library, so that every package of the module, including the root, can import it.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff computes the pauses between attempts. A pause is a random part of a span, which is First for the first pause
// and doubles with each further one, up to Most. The whole span is random (full jitter), so that clients that one fault
// has cut off do not return together. The zero Backoff has pauses of length 0.
//
// A Backoff is not safe for concurrent use. A copy continues independently.
type Backoff struct {
	// First is the span of the first pause, Most the longest. A First above Most counts as Most.
	First, Most time.Duration

	span time.Duration // of the last pause, 0 before the first
}

// Next returns the next pause. It is at least 0 and less than its span.
func (b *Backoff) Next() time.Duration {
	switch {
	case b.span == 0:
		b.span = min(b.First, b.Most)
	case b.span > b.Most/2:
		b.span = b.Most
	default:
		b.span *= 2
	}
	return rand.N(max(b.span, 1))
}

// Reset makes the next pause the first one. It is called when a try has succeeded.
func (b *Backoff) Reset() { b.span = 0 }

// Wait waits for the next pause. It returns early, with the cause, when ctx is done.
func (b *Backoff) Wait(ctx context.Context) error { return Sleep(ctx, b.Next()) }

// Repeat calls try until it returns true, with a pause after each call that does not. The error is the cause if ctx is
// done before. b does not change.
func (b Backoff) Repeat(ctx context.Context, try func() bool) error {
	for !try() {
		if err := b.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Sleep waits for d. It returns early, with the cause, when ctx is done.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
