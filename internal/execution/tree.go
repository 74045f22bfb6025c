package execution

import (
	"syscall"
	"time"
)

// tree is all processes of one run: what it started, and what those started, in
// other sessions too.
type tree interface {
	// prepare is called before the process is started and adds what its start needs.
	prepare(attr *syscall.SysProcAttr)
	// started is called with the first process.
	started(pid int)
	// terminate sends TERM to every process, and CONT, for one that is stopped does not
	// see TERM. One that is being forked may be missed.
	terminate()
	// kill kills every process and returns when none is left, or after a second
	// where one will not die. It returns how many there were besides the
	// first, which may be too few.
	kill() int
	// usage is what the live processes take, and what all of them have taken of the CPU.
	usage() treeUsage
	// enforce holds what it can of limits in the kernel and says so in in.
	enforce(limits Limits, in *Isolation)
	// kind is how the processes are found; see Isolation.Kill.
	kind() string
	// exceeded names the limit that the kernel has stopped the tree at, or "".
	exceeded() string
	// close frees what the tree takes. There are no processes any more.
	close()
}

type treeUsage struct {
	processes   int64
	memoryBytes int64
	user, sys   time.Duration
	// maxRSS is the peak of the process that has the highest.
	maxRSS int64
}

// killPatience is how long kill waits for processes to be gone.
const killPatience = time.Second
