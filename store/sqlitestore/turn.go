package sqlitestore

import (
	"context"
	"time"
)

// longestWait is how long a call waits for others, even if its context allows more.
const longestWait = 10 * time.Second

// turn is a lock for which callers wait no longer than their context allows, and no longer than longest.
type turn struct {
	held    chan struct{} // full while the turn is taken
	longest time.Duration
}

func (t *turn) init() { t.held, t.longest = make(chan struct{}, 1), longestWait }

// taken takes the turn if it is free, and reports whether it did.
func (t *turn) taken() bool {
	select {
	case t.held <- struct{}{}:
		return true
	default:
		return false
	}
}

// take waits for the turn. If the error is nil, the caller must call leave.
func (t *turn) take(ctx context.Context) error {
	if t.taken() {
		return nil
	}
	timer := time.NewTimer(t.longest)
	defer timer.Stop()
	select {
	case t.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return errBusy
	}
}

func (t *turn) leave() { <-t.held }
