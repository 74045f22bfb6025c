//go:build !linux

package sqlitestore_test

import "testing"

// smallDisk skips the test: a disk of its own is made on Linux alone.
func smallDisk(t *testing.T, _ int64) string {
	t.Helper()
	t.Skip("a disk of its own is made on Linux alone")
	return ""
}

func remount(*testing.T, string, bool) {}
