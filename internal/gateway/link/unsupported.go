//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd

package link

import (
	"errors"
	"fmt"
	"log/slog"

	"reprise/internal/spawn"
)

// StartProcess returns errors.ErrUnsupported: commands are run on Linux, macOS and the BSDs alone.
func StartProcess(*spawn.Spawner, *Command, *slog.Logger) (Link, error) {
	return nil, fmt.Errorf("commands are run on Linux, macOS and the BSDs alone: %w", errors.ErrUnsupported)
}

// KillMarked returns true: there are no processes to kill.
func KillMarked(string) bool { return true }
