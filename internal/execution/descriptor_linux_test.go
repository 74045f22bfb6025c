package execution_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// keepOnExec makes f one of the descriptors that programs inherit.
func keepOnExec(t *testing.T, f *os.File) {
	t.Helper()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
}
