package reprise

import (
	"context"
	"sync"
)

// background is the work that a Log does for nobody in particular. All of it ends with the Log.
type background struct {
	ctx  context.Context //nolint:containedctx // the life of the Log
	stop context.CancelCauseFunc

	mu      sync.Mutex
	stopped bool
	work    sync.WaitGroup
}

func (b *background) init() {
	b.ctx, b.stop = context.WithCancelCause(context.Background())
}

// start runs f in a goroutine of its own; f must return when its context is cancelled. It
// returns false, and does nothing, once the Log is being closed.
func (b *background) start(f func(context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return false
	}
	b.work.Go(func() { f(b.ctx) })
	return true
}

// end cancels all work and waits for it.
func (b *background) end() {
	b.mu.Lock()
	b.stopped = true
	b.mu.Unlock()
	b.stop(ErrClosed)
	b.work.Wait()
}
