package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFilesAreSyncedBeforeTheirNames: data is on the disk before the file has its name, and the name before the call
// returns.
func TestFilesAreSyncedBeforeTheirNames(t *testing.T) {
	for name, write := range map[string]func(string) error{
		"Write":  func(path string) error { return Write(path, []byte("new")) },
		"Create": func(path string) error { return Create(path, []byte("new")) },
		"Secret": func(path string) error { _, err := Secret(path); return err },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			var synced []string
			defer func(sync func(*os.File) error) { syncFile = sync }(syncFile)
			syncFile = func(f *os.File) error {
				what := "data"
				if f.Name() == filepath.Dir(path) {
					what = "directory"
				}
				if _, err := os.Stat(path); err == nil {
					what += " with name"
				}
				synced = append(synced, what)
				return nil
			}
			if err := write(path); err != nil {
				t.Fatal(err)
			}
			if want := []string{"data", "directory with name"}; !slices.Equal(synced, want) {
				t.Errorf("synced %q, want %q", synced, want)
			}
			if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
				t.Errorf("files %v, %v", entries, err)
			}
		})
	}
}

// TestFailedSyncLeavesNoFile: what may not be on the disk gets no name.
func TestFailedSyncLeavesNoFile(t *testing.T) {
	defer func(sync func(*os.File) error) { syncFile = sync }(syncFile)
	fault := errors.New("a fault")
	syncFile = func(*os.File) error { return fault }
	dir := t.TempDir()
	for _, write := range []func(string, []byte) error{Write, Create} {
		if err := write(filepath.Join(dir, "file"), nil); !errors.Is(err, fault) {
			t.Errorf("the error is %v", err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("files %v, %v", entries, err)
	}
}

func TestCreateLeavesFileThatExists(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, text := range []string{"first", "second"} {
		if err := Create(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "first" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestShortSecretIsReplaced: a server that lost power may have left an empty file.
func TestShortSecretIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for _, left := range []string{"", "\n", strings.Repeat("x", minSecret-1) + "\n"} {
		if err := os.WriteFile(path, []byte(left), 0o600); err != nil {
			t.Fatal(err)
		}
		if secret, err := ReadSecret(path); err == nil {
			t.Errorf("%q is read as the secret %q", left, secret)
		}
		secret, err := Secret(path)
		if err != nil || len(secret) < minSecret {
			t.Fatalf("%q gives way to %q, %v", left, secret, err)
		}
		if again, err := Secret(path); err != nil || again != secret {
			t.Errorf("the next server has %q, %v, want %q", again, err, secret)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != fs.FileMode(0o600) {
			t.Errorf("the mode is %v, %v", info.Mode(), err)
		}
	}
}

// TestReplaceKeepsMode: and the owner, which only root sees.
func TestReplaceKeepsMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := Replace(path, []byte("new")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	err := errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Chmod(path, 0o440))
	if os.Geteuid() == 0 {
		err = errors.Join(err, os.Chown(path, 4242, 4343))
	}
	before, statErr := os.Stat(path)
	if err := errors.Join(err, statErr, Replace(path, []byte("new"))); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != "new" || after.Mode() != before.Mode() {
		t.Errorf("%q with the mode %v, %v", text, after.Mode(), err)
	}
	wasUser, wasGroup := owner(before)
	if user, group := owner(after); user != wasUser || group != wasGroup {
		t.Errorf("the owner is %d:%d, and was %d:%d", user, group, wasUser, wasGroup)
	}
}

// TestReplaceFollowsNoLink: neither that of a file nor one that waits for what is written beside it.
func TestReplaceFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "file"), filepath.Join(dir, "other")
	for _, link := range []string{path + ".new", filepath.Join(dir, "link")} {
		if err := errors.Join(os.WriteFile(other, []byte("other"), 0o644), os.Symlink(other, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("new")); err != nil {
		t.Error(err)
	}
	if err := Replace(filepath.Join(dir, "link"), []byte("new")); err == nil {
		t.Error("a link was replaced")
	}
	info, err := os.Stat(other)
	text, readErr := os.ReadFile(other)
	if err := errors.Join(err, readErr); err != nil || string(text) != "other" || info.Mode() != 0o644 {
		t.Errorf("%q with the mode %v, %v", text, info.Mode(), err)
	}
}
