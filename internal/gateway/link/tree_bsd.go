//go:build darwin || freebsd || netbsd || openbsd

package link

import (
	"syscall"
	"time"

	"reprise/internal/spawn"
)

// killPatience limits how long killTree waits until processes are gone.
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

// KillMarked returns true: the mark is in the environment of other processes, which can be read only on Linux.
func KillMarked(string) bool { return true }
