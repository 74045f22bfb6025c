package identity

import (
	"context"
	"time"
)

// RefusalTime is how long it takes to say that something does not exist which may be hidden: longer than to look for it
// in memory, and in most stores.
const RefusalTime = 20 * time.Millisecond

// EvenOut waits until RefusalTime has passed since begun, or a multiple of it where that much has passed already, so
// that the time of a refusal does not tell what exists and is hidden from what does not: the first may be in memory and
// the other has to be looked for in the store. It returns early when ctx is done.
func EvenOut(ctx context.Context, begun time.Time) {
	left := RefusalTime - time.Since(begun)%RefusalTime
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
