//go:build !linux

package gateway

import (
	"errors"
	"fmt"
	"log/slog"

	"reprise/internal/spawn"
)

// Elsewhere than on Linux no command can be started; upstreams at URLs are served.

func startProcess(*spawn.Spawner, *Upstream, string, *slog.Logger, receiver, func()) (link, error) {
	return nil, fmt.Errorf("commands are run on Linux alone: %w", errors.ErrUnsupported)
}

// KillMarked does nothing here, and reports true.
func KillMarked(string) bool { return true }
