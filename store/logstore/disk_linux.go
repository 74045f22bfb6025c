package logstore

import (
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
