//go:build unix

package datadir

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestLockOfServerThatHasEndedIsWaitedFor: a process that a killed server was about to start has the lock for a moment.
// That of a server that lives is not waited for.
func TestLockOfServerThatHasEndedIsWaitedFor(t *testing.T) {
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	for holder, want := range map[int]error{ended.Process.Pid: nil, os.Getpid(): ErrInUse} {
		dir := t.TempDir()
		lock, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err := flock(lock, false); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(lock, holder)
		if want == nil {
			time.AfterFunc(20*time.Millisecond, func() { lock.Close() })
		} else {
			defer lock.Close()
		}
		taken, err := Lock(dir)
		if !errors.Is(err, want) {
			t.Errorf("holder %d: %v, want %v", holder, err, want)
		}
		if err == nil {
			if err := taken.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestDataDirectoryStaysLockedWithoutItsLockFile, also under another name. Earlier versions lock the file alone.
func TestDataDirectoryStaysLockedWithoutItsLockFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	taken, err := Lock(dir)
	check(t, err)
	earlier, err := os.Open(filepath.Join(dir, LockFile))
	check(t, err)
	defer earlier.Close()
	if err := flock(earlier, false); !errors.Is(err, errLocked) {
		t.Errorf("an earlier version gets the lock: %v", err)
	}
	check(t, os.Remove(filepath.Join(dir, LockFile)))
	refused := func(path string) {
		t.Helper()
		if second, err := Lock(path); !errors.Is(err, ErrInUse) {
			t.Errorf("a second server: %v", errors.Join(err, second.Close()))
		}
	}
	refused(dir)
	check(t, os.Rename(dir, dir+"2"))
	refused(dir + "2")
	check(t, taken.Close())
	again, err := Lock(dir + "2")
	check(t, err)
	check(t, again.Close())
}

// TestDataDirectoryThatEveryUserMayWriteIsRefused: another user could put a token or keys there before the server does.
func TestDataDirectoryThatEveryUserMayWriteIsRefused(t *testing.T) {
	for mode, refused := range map[os.FileMode]bool{
		0o700: false, 0o755: false, 0o770 | os.ModeSetgid: false, 0o777: true, 0o777 | os.ModeSticky: true, 0o702: true,
	} {
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		taken, err := Lock(dir)
		if (err != nil) != refused {
			t.Errorf("mode %v: %v", mode, err)
		}
		files, listErr := os.ReadDir(dir)
		if listErr != nil || refused && len(files) > 0 {
			t.Errorf("mode %v: the refused directory holds %v, %v", mode, files, listErr)
		}
		if taken != nil {
			_ = taken.Close()
		}
	}
}
