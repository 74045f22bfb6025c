package logstore

import (
	"errors"
	"os"
	"syscall"
)

// syncData waits until the data of f, and the file size needed to read them, are on the disk.
func syncData(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR { //nolint:errorlint // an Errno
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// reserve extends f to size. A file system that cannot reserve space, such as NFS, reports a full disk only on a write.
func reserve(f *os.File, size int64) error {
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
