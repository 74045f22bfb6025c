//go:build !linux

package execution_test

import (
	"os"
	"testing"
)

// keepOnExec skips the test: commands are run on Linux alone.
func keepOnExec(t *testing.T, _ *os.File) {
	t.Helper()
	t.Skip("commands are run on Linux alone")
}
