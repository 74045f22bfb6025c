//go:build unix

package datadir

import "golang.org/x/sys/unix"

// Free returns the room on the disk that holds dir, in bytes.
func Free(dir string) (uint64, error) {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	return st.Bavail * uint64(st.Bsize), err // a block size is positive
}
