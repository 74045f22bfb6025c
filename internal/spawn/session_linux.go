package spawn

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Session returns the attributes of a process that leads a session of its own and dies with this process.
func Session() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// AwaitExit blocks until a child has ended. The child stays a zombie until it is waited for, so its process id is not
// reused before.
func AwaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR { //nolint:errorlint // an errno
			return
		}
	}
}
