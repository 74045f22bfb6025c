//go:build !linux

package gateway

import (
	"errors"
	"fmt"
	"log/slog"
)

// Elsewhere than on Linux no command can be started; upstreams at URLs are served.

type spawner struct{}

func newSpawner() *spawner { return &spawner{} }

func (*spawner) close() {}

func startProcess(*spawner, *Upstream, string, *slog.Logger, receiver, func()) (link, error) {
	return nil, fmt.Errorf("commands are run on Linux alone: %w", errors.ErrUnsupported)
}

// KillMarked does nothing here, and reports true.
func KillMarked(string) bool { return true }
