package spawn

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Session returns the attributes of a process that leads a session of its own and dies with us.
func Session() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// AwaitExit blocks until a child of ours has ended. It stays a zombie, so that its number still means it and no other,
// until it is waited for.
func AwaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR { //nolint:errorlint // an errno
			return
		}
	}
}
