//go:build darwin || freebsd || netbsd || openbsd

package command

import (
	"syscall"

	"reprise/internal/spawn"
)

// WithoutCgroups is how a server describes its process tracking.
const WithoutCgroups = "no cgroups: commands are killed by their process group"

// groupTree is the process group of the first process. What leaves the group escapes: a daemon, or
// the background job of an interactive shell.
type groupTree struct {
	bareTree
	first int
}

func newPlainTree(*Plan) tree { return &groupTree{} }

func (t *groupTree) started(pid int) { t.first = pid }

func (t *groupTree) terminate() {
	if t.first > 0 {
		_ = spawn.SignalGroup(t.first, syscall.SIGTERM)
		_ = spawn.SignalGroup(t.first, syscall.SIGCONT)
	}
}

// kill does not count: if the first process has ended, 1 means that there were others.
func (t *groupTree) kill() (others killed) {
	if t.first == 0 {
		return others
	}
	if found, _ := spawn.KillGroup(t.first, killPatience); found {
		others.processes = 1
	}
	return others
}

func (*groupTree) kind() string { return "group" }
