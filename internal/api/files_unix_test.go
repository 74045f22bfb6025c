//go:build unix

package api_test

import (
	"os"
	"syscall"
	"testing"
)

// needFiles skips a test that needs more open files than the hard limit allows; package os has raised the soft limit to
// it. In CI the test fails.
func needFiles(t *testing.T, files uint64) {
	t.Helper()
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	if err == nil && uint64(limit.Cur) >= files {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%d files may be open (%v), the test needs %d", limit.Cur, err, files)
	}
	t.Skipf("%d files may be open (%v), the test needs %d", limit.Cur, err, files)
}
