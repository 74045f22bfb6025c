//go:build darwin || freebsd || netbsd || openbsd

package link

import (
	"syscall"
	"time"

	"reprise/internal/spawn"
)

// killPatience is how long killTree waits for processes to be gone.
const killPatience = 2 * time.Second

// terminateTree sends TERM to the process group that first leads, then CONT, because a stopped process does not see
// TERM.
func terminateTree(first int, _ string) {
	_ = spawn.SignalGroup(first, syscall.SIGTERM)
	_ = spawn.SignalGroup(first, syscall.SIGCONT)
}

// killTree kills the process group that first leads, and reports whether none of it is left. A process that has left
// the group escapes.
func killTree(first int, _ string) bool {
	_, gone := spawn.KillGroup(first, killPatience)
	return gone
}

// KillMarked reports true: the environment of other processes, where the mark is, is read on Linux alone.
func KillMarked(string) bool { return true }
