package identity_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"reprise/internal/identity"
)

// TestRefusalsTakeWholeUnitsOfTime: a fast and a slightly slower refusal take the same time.
func TestRefusalsTakeWholeUnitsOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const unit = identity.RefusalTime
		for took, want := range map[time.Duration]time.Duration{
			0: unit, unit / 10: unit, unit - 1: unit, unit: 2 * unit, unit + 1: 2 * unit, 5 * unit / 2: 3 * unit,
		} {
			begun := time.Now()
			time.Sleep(took)
			identity.EvenOut(t.Context(), begun)
			if got := time.Since(begun); got != want {
				t.Errorf("after %v: %v, want %v", took, got, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begun := time.Now()
		identity.EvenOut(ctx, begun)
		if time.Since(begun) != 0 {
			t.Errorf("waited for a client that has gone")
		}
	})
}
