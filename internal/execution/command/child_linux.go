package command

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pollsTerminals: a read from a terminal can have a deadline.
const pollsTerminals = true

// maxRSSUnit is the unit of ru_maxrss in bytes.
const maxRSSUnit = 1 << 10

// pipeBytes is the size of output pipes. It lets a command continue to write while we append. The limit of an
// unprivileged user may be lower.
const pipeBytes = 1 << 20

// pipe makes a pipe whose near end supports deadlines. The far end, for the command, blocks, as commands expect.
func pipe(nearReads bool) (near, far *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe", err)
	}
	n, f := fds[0], fds[1]
	if !nearReads {
		n, f = f, n
	}
	if nearReads {
		_, _ = unix.FcntlInt(uintptr(n), unix.F_SETPIPE_SZ, pipeBytes)
	}
	if err := unix.SetNonblock(n, true); err != nil {
		_ = unix.Close(n)
		_ = unix.Close(f)
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(n), "pipe"), os.NewFile(uintptr(f), "pipe"), nil
}

// signal sends s to the process group of the process, which has not been reaped yet.
func (c *child) signal(s syscall.Signal) error {
	err := syscall.Kill(-c.process.Pid, s)
	if errors.Is(err, syscall.ESRCH) {
		return nil // it ends just now
	}
	return err
}
