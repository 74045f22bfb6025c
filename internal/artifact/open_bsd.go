//go:build darwin || freebsd || netbsd || openbsd

package artifact

import (
	"os"

	"golang.org/x/sys/unix"
)

// openFile opens the file name in the directory at.
func openFile(at *os.File, name string) (*os.File, *unix.Stat_t, error) {
	return openAt(at, name, unix.O_RDONLY)
}
