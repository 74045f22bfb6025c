package sqlitestore

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockData locks a byte of a database for f, far behind the bytes that SQLite locks. Unlike SQLite's locks, this lock
// belongs to the descriptor. Another lock of the byte is the only error: some file systems have no locks.
func lockData(f *os.File) error {
	at := unix.Flock_t{Type: unix.F_WRLCK, Start: 1 << 62, Len: 1}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &at)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return err
	}
	return nil
}
