package logstore

import (
	"os"

	"golang.org/x/sys/windows"
)

// lock locks f for this process, or fails at once if another process holds the lock.
func lock(f *os.File) error {
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, new(windows.Overlapped))
}

// lockDir does nothing: Windows locks files alone, and does not let anybody remove one that is open.
func lockDir(*os.File) error { return nil }

// syncFolder does nothing: NTFS journals names, and Windows cannot sync directories.
func syncFolder(string) error { return nil }
