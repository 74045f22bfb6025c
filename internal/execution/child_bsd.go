//go:build darwin || freebsd || netbsd || openbsd

package execution

import (
	"os"
	"runtime"
	"syscall"

	"reprise/internal/spawn"
)

// pollsTerminals: a read from a terminal can have a deadline. On macOS the events of kqueue(2) for terminals cannot be
// relied on. There a read lasts until the kernel takes the terminal away, when the command has ended.
const pollsTerminals = runtime.GOOS != "darwin" && runtime.GOOS != "ios"

// maxRSSUnit is the unit of ru_maxrss in bytes.
var maxRSSUnit = func() int64 {
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return 1
	}
	return 1 << 10
}()

// pipe makes a pipe whose near end can be waited for. The far end blocks once os.StartProcess has taken it, as a
// command expects.
func pipe(nearReads bool) (near, far *os.File, err error) {
	r, w, err := os.Pipe()
	if nearReads {
		return r, w, err
	}
	return w, r, err
}

// signal sends s to the process group that the process leads. It has not been reaped.
func (c *child) signal(s syscall.Signal) error { return spawn.SignalGroup(c.process.Pid, s) }
