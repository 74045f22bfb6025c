//go:build unix

package sqlitestore_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"reprise/store/sqlitestore"
)

// TestLockOfProcessAboutToStartIsWaitedFor: a process that is about to execute a program has the lock of the one that
// has started it, which may have ended or have closed the store.
func TestLockOfProcessAboutToStartIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { lock.Close() })
	s, err := sqlitestore.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
