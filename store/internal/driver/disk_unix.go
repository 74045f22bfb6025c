//go:build unix

package driver

import "syscall"

// FreeBytes returns the free space on the disk that holds a directory. A file system that does not tell its size is an
// error.
func FreeBytes(dir string) (int64, error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return 0, err
	}
	if disk.Blocks == 0 {
		return 0, syscall.ENOTSUP
	}
	return int64(disk.Bavail) * int64(disk.Bsize), nil
}
