package client

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// saver saves the cursor of the last handled event at intervals. Save is never called while the body of the loop runs:
// the goroutine of the loop calls it between two events, and a timer calls it while that goroutine waits for bytes.
type saver struct {
	store CursorStore   // nil for none
	every time.Duration // negative: after each event

	mu      sync.Mutex
	pending string // handled and not saved
	saved   time.Time
	waiting bool // the loop waits for bytes
	timer   *time.Timer
}

// defaultSaveEvery spares most of the cost of syncing a file for each event.
const defaultSaveEvery = 100 * time.Millisecond

// saveTimeout bounds the last save of a loop whose context is cancelled.
const saveTimeout = 5 * time.Second

func (s *saver) load(ctx context.Context) (string, error) {
	if s.store == nil {
		return "", nil
	}
	cursor, err := s.store.Load(ctx)
	if err != nil {
		return "", fmt.Errorf("load the cursor: %w", err)
	}
	return cursor, nil
}

// handled notes that everything up to cursor was handled, and saves it if a save is due.
func (s *saver) handled(ctx context.Context, cursor string) error {
	if s.store == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = cursor
	if s.untilDue() > 0 {
		return nil
	}
	return s.save(ctx)
}

// untilDue is the time until the next save. s.mu is held.
func (s *saver) untilDue() time.Duration { return s.every - time.Since(s.saved) }

// beginWait arms the timer that saves a pending cursor while the loop waits. An error of the save goes to fail.
func (s *saver) beginWait(ctx context.Context, fail context.CancelCauseFunc) {
	if s.store == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending == "" {
		return
	}
	s.waiting = true
	s.timer = time.AfterFunc(s.untilDue(), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.waiting {
			return
		}
		if err := s.save(ctx); err != nil {
			fail(err)
		}
	})
}

// endWait returns once the timer saves nothing more.
func (s *saver) endWait() {
	if s.store == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = false
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// flush saves a pending cursor, whether or not it is due.
func (s *saver) flush(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.save(ctx)
}

// save saves a pending cursor, even if ctx is cancelled. The caller holds s.mu.
func (s *saver) save(ctx context.Context) error {
	if s.pending == "" {
		return nil
	}
	cursor := s.pending
	s.pending = ""
	s.saved = time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	if err := s.store.Save(ctx, cursor); err != nil {
		return fmt.Errorf("save the cursor %s: %w", cursor, err)
	}
	return nil
}
