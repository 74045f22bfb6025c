//go:build unix

package datadir

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// errLocked is the error of flock for a file that another process has locked.
const errLocked = unix.EWOULDBLOCK

// flock locks f for this process. If another process has the lock, it waits, or fails with errLocked.
func flock(f *os.File, wait bool) error {
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// exists reports whether there is a process with this id, or may be one if the id is unknown.
func exists(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err != nil || n <= 0 || !errors.Is(unix.Kill(n, 0), unix.ESRCH)
}
