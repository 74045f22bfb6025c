//go:build unix

package sqlitestore

import (
	"os"
	"syscall"
)

// lock locks f for this process, or fails at once if another process holds the lock.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
