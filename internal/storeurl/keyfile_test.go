package storeurl_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"reprise"
	"reprise/internal/storeurl"
	"reprise/store/memstore"
	"reprise/store/storewrap"
)

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	if _, err := storeurl.LoadKeyFile(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	check(t, storeurl.CreateKeyFile(path, "2026-11"))
	if err := storeurl.CreateKeyFile(path, "2026-12"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made twice: %v", err)
	}
	set, err := storeurl.LoadKeyFile(path)
	check(t, err)
	if _, err := storewrap.Encrypt(memstore.New(nil), set); err != nil {
		t.Error(err)
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o620, 0o644} {
		check(t, os.Chmod(path, mode))
		if _, err := storeurl.LoadKeyFile(path); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("mode %#o: %v", mode, err)
		}
	}
}
