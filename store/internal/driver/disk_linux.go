package driver

import (
	"errors"
	"os"
	"syscall"
)

// Allocate extends f to size and reserves the space for it. A file system that cannot reserve space, such as NFS,
// reports a full disk only on a write.
func Allocate(f *os.File, size int64) error {
	if size == 0 { // fallocate rejects 0
		return nil
	}
	for {
		err := syscall.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOSYS):
			return f.Truncate(size)
		default:
			return os.NewSyscallError("fallocate", err)
		}
	}
}
