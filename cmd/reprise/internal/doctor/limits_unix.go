//go:build unix

package doctor

import "golang.org/x/sys/unix"

// freeBytes is the room on the disk that holds dir.
func freeBytes(dir string) (uint64, error) {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	return st.Bavail * uint64(st.Bsize), err // a block size is positive
}

// maxFiles is how many files a process may have open.
func maxFiles() (uint64, error) {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return limit.Max, err
}
