package sqlitestore

import (
	"context"
	"time"
)

// longestWait is how long a call waits for others, whatever its context allows.
const longestWait = 10 * time.Second

// turn is a lock that is not waited for longer than a context allows, nor than longest.
type turn struct {
	held    chan struct{} // is full while somebody has the turn
	longest time.Duration
}

func (t *turn) init() { t.held, t.longest = make(chan struct{}, 1), longestWait }

// taken takes the turn if nobody has it.
func (t *turn) taken() bool {
	select {
	case t.held <- struct{}{}:
		return true
	default:
		return false
	}
}

// take waits for the turn. If the error is nil, the caller calls leave.
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
