package client

import (
	"context"
	"fmt"
	"time"
)

// saver saves the cursor of what was handled.
type saver struct {
	store   CursorStore // nil for none
	every   time.Duration
	pending string // handled and not saved
	saved   time.Time
}

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

// handled notes that everything up to cursor was handled.
func (s *saver) handled(cursor string) {
	if s.store != nil {
		s.pending = cursor
	}
}

// saveIfDue saves what is pending, unless a save was a short while ago.
func (s *saver) saveIfDue(ctx context.Context) error {
	if s.pending == "" || s.every > 0 && time.Since(s.saved) < s.every {
		return nil
	}
	return s.flush(ctx)
}

// flush saves what is pending. What was handled is saved even if ctx is cancelled.
func (s *saver) flush(ctx context.Context) error {
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
