//go:build !linux

package execution

import (
	"context"

	"reprise/internal/artifact"
)

// gather is Collect of r.artifacts.
func (r *Run) gather(ctx context.Context, keep func(chunk []byte) error) ([]artifact.File, []string, error) {
	return r.artifacts.Collect(ctx, keep)
}

// Supervise does nothing here.
func Supervise() {}
