package command

import (
	"syscall"
	"time"
)

// tree is the set of processes of one run: all descendants of its command, including those in other sessions.
type tree interface {
	// prepare is called before the process is started and adds what its start needs.
	prepare(attr *syscall.SysProcAttr)
	// started is called with the first process.
	started(pid int)
	// terminate sends TERM to every process, and CONT, for one that is stopped does not
	// see TERM.
	terminate()
	// kill kills every process and returns when none is left, or after a second if one does not die. It returns the
	// processes besides the first, of which some may be missing.
	kill() killed
	// usage returns the memory of the live processes, and the CPU time of all processes so far.
	usage() treeUsage
	// enforce enforces limits in the kernel where possible and records that in in.
	enforce(limits Limits, in *Isolation)
	// kind is how the processes are found; see Isolation.Kill.
	kind() string
	// exceeded names the limit that the kernel has stopped the tree at, or "".
	exceeded() string
	// close frees the resources of the tree. It is called after all processes have ended, and reports whether one has
	// not, because it sleeps in the kernel.
	close() (left bool)
}

// bareTree is a tree of which nothing is known. It has what other trees do not need.
type bareTree struct{}

func (bareTree) prepare(*syscall.SysProcAttr) {}
func (bareTree) started(int)                  {}
func (bareTree) terminate()                   {}
func (bareTree) kill() killed                 { return killed{} }
func (bareTree) usage() treeUsage             { return treeUsage{} }
func (bareTree) enforce(Limits, *Isolation)   {}
func (bareTree) kind() string                 { return "" }
func (bareTree) exceeded() string             { return "" }
func (bareTree) close() bool                  { return false }

// killed are the processes that kill has found.
type killed struct {
	processes int
	// commands are the command lines of the first maxKilled of them.
	commands []string
}

// maxKilled is how many command lines of killed processes are kept, of killedBytes at most each.
const (
	maxKilled   = 5
	killedBytes = 100
)

// and returns both.
func (k killed) and(other killed) killed {
	k.processes += other.processes
	k.commands = append(k.commands, other.commands...)
	k.commands = k.commands[:min(len(k.commands), maxKilled)]
	return k
}

type treeUsage struct {
	processes   int64
	memoryBytes int64
	user, sys   time.Duration
	// maxRSS is the peak of the process that has the highest.
	maxRSS int64
}

// killPatience limits how long kill waits until processes are gone.
const killPatience = time.Second
