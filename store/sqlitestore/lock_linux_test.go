package sqlitestore_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"reprise"
	"reprise/store/sqlitestore"
)

// TestLockHoldsWithoutItsFile: somebody has removed the lock file, and the database may have another name.
func TestLockHoldsWithoutItsFile(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "events.db"), filepath.Join(dir, "other.db")
	first, err := sqlitestore.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.Remove(path + ".lock"))
	check(os.Link(path, link))
	for _, name := range []string{path, link} {
		if _, err := sqlitestore.Open(t.Context(), name, nil); !errors.Is(err, sqlitestore.ErrInUse) {
			t.Errorf("a second store on %s: %v", filepath.Base(name), err)
		}
	}
	_, err = first.Create(t.Context(), reprise.StreamInfo{
		Key: reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "a"}, Epoch: "e", Earliest: 1,
	})
	check(err)
	check(first.Close())
	check(os.Remove(link))
	again, err := sqlitestore.Open(t.Context(), path, nil)
	check(err)
	check(again.Close())
}
