//go:build unix

package freeport

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// locks is a file of which a process locks one byte for each port that it was given. The system lets go of the locks
// when the process ends, however it does. The file stays open: to close it would let go of all of them.
var locks = sync.OnceValue(func() *os.File {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("reprise-ports-%d", os.Getuid()))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil
	}
	return file
})

// reserve reports false for a port that another process has been given. Where there is no place for the file nothing
// is known of others.
func reserve(port int) bool {
	file := locks()
	if file == nil {
		return true
	}
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: int64(port), Len: 1}
	return syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &lock) == nil
}
