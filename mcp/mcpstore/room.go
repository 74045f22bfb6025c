package mcpstore

import (
	"sync"
	"time"
)

// room is what may still be held in memory.
type room struct {
	size int64

	mu      sync.Mutex
	used    int64
	changed chan struct{} // closed when there is more; nil while no goroutine waits
}

// take takes n bytes, and waits for them up to wait.
func (r *room) take(n int64, wait time.Duration) bool {
	if n > r.size {
		return false
	}
	var timeout <-chan time.Time
	for {
		changed := r.tryTake(n)
		if changed == nil {
			return true
		}
		if timeout == nil {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-changed:
		case <-timeout:
			return false
		}
	}
}

// tryTake returns nil if it has taken n bytes, and otherwise what is closed when there is more.
func (r *room) tryTake(n int64) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n <= r.size-r.used {
		r.used += n
		return nil
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed
}

func (r *room) give(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}
