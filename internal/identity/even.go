package identity

import (
	"context"
	"time"
)

// RefusalTime is the time after which a possibly hidden object is reported as missing. It is longer than a look-up in
// memory, and in most stores.
const RefusalTime = 20 * time.Millisecond

// EvenOut waits until RefusalTime has passed since begun, or a multiple of it if more has passed already. So the time
// of a refusal does not distinguish hidden objects, which may be in memory, from missing ones, which must be looked up
// in the store. It returns early when ctx is done.
func EvenOut(ctx context.Context, begun time.Time) {
	left := RefusalTime - time.Since(begun)%RefusalTime
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
