//go:build unix

package httpserver

import "syscall"

// openFiles is the number of files that this process may have open. Package os has raised the soft limit to the
// hard one when the program began.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fallbackFiles
	}
	return int(min(uint64(limit.Cur), maxFiles))
}
