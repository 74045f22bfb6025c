package logstore

import (
	"errors"
	"os"
	"syscall"
)

// syncData waits until the data of f, and the size that it takes to read them, are on the disk.
func syncData(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR { //nolint:errorlint // an Errno
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// reserve makes f so long. File systems that cannot reserve room, such as NFS, find out that they are full by a write.
func reserve(f *os.File, size int64) error {
	if size == 0 { // which fallocate refuses
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
