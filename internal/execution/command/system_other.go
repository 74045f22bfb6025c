//go:build !linux

package command

import (
	"errors"
	"fmt"

	"reprise/internal/spawn"
)

// Systems other than Linux have no cgroups, no adopters of orphans, and no access to the environment of other
// processes, by which the processes of a dead server could be found.

var errNeedsLinux = fmt.Errorf("only Linux supports it: %w", errors.ErrUnsupported)

// HoldsLimits: memory, processes and CPU time of a command can be bounded.
const HoldsLimits = false

type (
	cgroups struct{}
	reaper  struct{}
)

func openCgroups(*spawn.Spawner) (*cgroups, error) { return nil, errNeedsLinux }

func (*cgroups) close() {}

func (*System) newTree(p *Plan) tree { return newPlainTree(p) }

func (*System) killedFirst(f func()) { f() }

// KillMarked does nothing here.
func KillMarked([]string) {}

// KillLeft does nothing here.
func KillLeft(string) bool { return false }
