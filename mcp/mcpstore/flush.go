package mcpstore

import (
	"sync"
	"time"

	"reprise/internal/backoff"
)

const (
	// flushPause and flushPauseMax are the spans of the first and of the longest pause after the store has failed.
	flushPause, flushPauseMax = 50 * time.Millisecond, 2 * time.Second
	// flushers is how many streams are stored at the same time.
	flushers = 16
)

// markDirty leaves a writer to flushDirty.
func (k *keeper) markDirty(w *writer) {
	k.mu.Lock()
	k.dirty[w] = struct{}{}
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// flushDirty stores what waits for the store, as soon as that is back.
func (k *keeper) flushDirty() {
	pause := backoff.Backoff{First: flushPause, Most: flushPauseMax}
	for {
		if !k.dirtyLeft() {
			select {
			case <-k.ctx.Done():
				return
			case <-k.wake:
			}
		}
		if pause.Wait(k.ctx) != nil {
			return
		}
		if k.flushAll() {
			pause.Reset()
		}
	}
}

func (k *keeper) dirtyLeft() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.dirty) > 0
}

// flushAll tries each dirty writer, and stops at the first for which the store is away. It reports whether all were
// stored.
func (k *keeper) flushAll() bool {
	k.mu.Lock()
	writers := make(chan *writer, len(k.dirty))
	for w := range k.dirty {
		writers <- w
	}
	k.mu.Unlock()
	close(writers)
	var (
		tasks  sync.WaitGroup
		mu     sync.Mutex
		failed bool
	)
	for range min(flushers, len(writers)) {
		tasks.Go(func() {
			for w := range writers {
				mu.Lock()
				stop := failed
				mu.Unlock()
				if stop || k.ctx.Err() != nil {
					return
				}
				if err := w.flush(); mayPass(err) {
					mu.Lock()
					failed = true
					mu.Unlock()
					continue
				}
				k.clean(w)
			}
		})
	}
	tasks.Wait()
	return !failed
}

// clean ends the care for a writer, unless more has come.
func (k *keeper) clean(w *writer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) > 0 || w.trim > 0 {
		return
	}
	w.dirty = false
	delete(k.dirty, w)
}
