package artifact

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openFile opens the regular file name in the directory at. Nothing else that may have the name by now is opened: the
// open of a pipe or a device has effects.
func openFile(at *os.File, name string) (*os.File, *unix.Stat_t, error) {
	place, st, err := openAt(at, name, unix.O_PATH)
	if err != nil {
		return nil, nil, err
	}
	defer place.Close()
	if !isRegular(st) {
		return nil, nil, os.ErrInvalid
	}
	f, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", place.Fd()), unix.O_NONBLOCK, 0)
	return f, st, err
}
