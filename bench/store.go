package bench

import (
	"context"
	"os"
	"time"

	"reprise"
)

// keepAll is a retention that no race reaches.
var keepAll = reprise.Retention{MaxEvents: 1 << 30, MaxBytes: 1 << 40, MaxAge: time.Hour}

// fill appends n events, a hundred at a time.
func fill(ctx context.Context, s *reprise.Stream, n int) error {
	batch := make([]reprise.Event, 100)
	for i := range batch {
		batch[i].Data = newPayload()
	}
	for left := n; left > 0; left -= len(batch) {
		if left < len(batch) {
			batch = batch[:left]
		}
		if _, err := s.Append(ctx, batch...); err != nil {
			return err
		}
	}
	return nil
}

// tempDir is a folder on the disk, not in memory, and what removes it.
func tempDir() (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp("", "reprise-bench-")
	return dir, func() error { return os.RemoveAll(dir) }, err
}
