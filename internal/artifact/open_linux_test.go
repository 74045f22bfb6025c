package artifact

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNothingButFilesIsOpened: what has come to the name of a file since it was found is not opened, which the kernel
// would tell.
func TestNothingButFilesIsOpened(t *testing.T) {
	f := newFixture(t)
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	f.ok(err)
	defer unix.Close(watch)
	opened := func() bool {
		n, err := unix.Read(watch, make([]byte, 4096))
		return err == nil && n > 0
	}
	c := f.open("work", "*")
	f.ok(unix.Mkfifo(f.path("work/fifo"), 0o600))
	for name, want := range map[string]bool{"token": true, "fifo": false} {
		_, err = unix.InotifyAddWatch(watch, f.path("work/"+name), unix.IN_OPEN)
		f.ok(err)
		file, _ := c.open(name, nil)
		if (file != nil) != want || opened() != want {
			t.Errorf("%s: opened %v", name, file)
		}
		if err := file.Close(); err != nil && !errors.Is(err, os.ErrInvalid) {
			t.Error(err)
		}
	}
}
