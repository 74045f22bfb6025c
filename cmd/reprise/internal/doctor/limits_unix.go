//go:build unix

package doctor

import "golang.org/x/sys/unix"

// maxFiles is how many files a process may have open.
func maxFiles() (uint64, error) {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return limit.Max, err
}
