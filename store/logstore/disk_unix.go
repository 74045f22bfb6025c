//go:build unix

package logstore

import (
	"errors"
	"os"
	"syscall"
)

// lock locks f for this process, or fails at once if another process holds the lock.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// lockDir is lock for a directory. A file system that cannot lock directories, such as NFS, is no error.
func lockDir(f *os.File) error {
	if err := lock(f); errors.Is(err, syscall.EWOULDBLOCK) {
		return err
	}
	return nil
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
