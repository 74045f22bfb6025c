//go:build unix

package logstore

import (
	"errors"
	"os"
	"syscall"
)

// lock locks f for this process, or fails at once if another process holds the lock.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
