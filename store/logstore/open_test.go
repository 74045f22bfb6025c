package logstore_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"reprise"
	"reprise/store/logstore"
)

func TestASecondStoreIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	first, err := logstore.Open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := logstore.Open(t.Context(), dir, nil); !errors.Is(err, logstore.ErrInUse) {
		t.Errorf("a second store: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := logstore.Open(t.Context(), dir, nil)
	if err != nil {
		t.Fatalf("after the first one was closed: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLockHoldsWithoutItsFile: somebody has removed the lock file, and the directory may have another name. An earlier
// version locks the file alone.
func TestLockHoldsWithoutItsFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not remove a file that is open")
	}
	dir := filepath.Join(t.TempDir(), "log")
	first, err := logstore.Open(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if err := os.Remove(filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := logstore.Open(t.Context(), dir, nil); !errors.Is(err, logstore.ErrInUse) {
		t.Errorf("a second store without the lock file: %v", err)
	}
	if err := os.Rename(dir, dir+"2"); err != nil {
		t.Fatal(err)
	}
	if _, err := logstore.Open(t.Context(), dir+"2", nil); !errors.Is(err, logstore.ErrInUse) {
		t.Errorf("a second store in the renamed directory: %v", err)
	}
}

func TestOpenRefusesForeignFolder(t *testing.T) {
	dir := t.TempDir()
	foreign, plain := filepath.Join(dir, "foreign"), filepath.Join(dir, "plain")
	if err := errors.Join(os.Mkdir(foreign, 0o700), os.WriteFile(filepath.Join(foreign, "a"), nil, 0o600),
		os.WriteFile(plain, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		foreign:                       logstore.ErrNotOurs,
		plain:                         reprise.ErrInvalid,
		filepath.Join(dir, "a", "b"):  fs.ErrNotExist,
		filepath.Join(plain, "below"): reprise.ErrInvalid,
		filepath.Join(dir, strings.Repeat("long", 100)): reprise.ErrInvalid,
	} {
		if _, err := logstore.Open(t.Context(), path, nil); !errors.Is(err, want) {
			t.Errorf("%.60s: %v, want %v", path, err, want)
		}
	}
	if entries, err := os.ReadDir(foreign); err != nil || len(entries) != 1 {
		t.Errorf("the foreign directory holds %v now, %v", entries, err)
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("to root no directory is read-only; TestReadOnlyDisk has the errors of the system")
	}
	dir := filepath.Join(t.TempDir(), "log")
	if err := os.Mkdir(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if _, err := logstore.Open(t.Context(), dir, nil); !errors.Is(err, logstore.ErrReadOnly) {
		t.Errorf("open: %v", err)
	}
}
