//go:build unix

package logstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"reprise/store/logstore"
)

// TestLockFileIsThatOfEarlierVersions, which lock it and not the directory.
func TestLockFileIsThatOfEarlierVersions(t *testing.T) {
	dir := t.TempDir()
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := logstore.Open(t.Context(), dir, nil); !errors.Is(err, logstore.ErrInUse) {
		t.Errorf("beside an earlier version: %v", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	s, err := logstore.Open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("an earlier version beside a store gets the lock: %v", err)
	}
}
