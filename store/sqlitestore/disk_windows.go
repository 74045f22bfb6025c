package sqlitestore

import (
	"os"

	"golang.org/x/sys/windows"
)

// lock locks f for this process, or fails at once if another process holds the lock.
func lock(f *os.File) error {
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, new(windows.Overlapped))
}
