//go:build darwin || freebsd || netbsd || openbsd

package command

import (
	"os"
	"runtime"
	"syscall"

	"reprise/internal/spawn"
)

// pollsTerminals reports whether a read from a terminal can have a deadline. On macOS, kqueue(2) does not report
// terminals reliably. There a read lasts until the kernel revokes the terminal, after the command has ended.
const pollsTerminals = runtime.GOOS != "darwin" && runtime.GOOS != "ios"

// maxRSSUnit is the unit of ru_maxrss in bytes.
var maxRSSUnit = func() int64 {
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return 1
	}
	return 1 << 10
}()

// pipe makes a pipe whose near end supports deadlines. The far end blocks once os.StartProcess has passed it on, as
// commands expect.
func pipe(nearReads bool) (near, far *os.File, err error) {
	r, w, err := os.Pipe()
	if nearReads {
		return r, w, err
	}
	return w, r, err
}

// signal sends s to the process group of the process, which has not been reaped yet.
func (c *child) signal(s syscall.Signal) error { return spawn.SignalGroup(c.process.Pid, s) }
