package storeurl_test

import (
	"slices"
	"testing"

	"reprise/internal/storeurl"
)

// TestPaths: no command may read a file of the store. An embedded log is a directory, beside which nothing lies.
func TestPaths(t *testing.T) {
	for url, want := range map[string][]string{
		"log:/a/log":            {"/a/log"},
		"encrypt+log:/a/log":    {"/a/log"},
		"sqlite:/a/db":          {"/a/db", "/a/db-wal", "/a/db-shm"},
		"compress+sqlite:/a/db": {"/a/db", "/a/db-wal", "/a/db-shm"},
		"memory:":               nil,
		"redis://localhost":     nil,
	} {
		if got := storeurl.Paths("", url); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}

// TestDefault: a data directory goes on with the store that it began with, and a new one begins with the log.
func TestDefault(t *testing.T) {
	dir := t.TempDir()
	want := func(want string) {
		t.Helper()
		if url := storeurl.Default(dir); url != want {
			t.Errorf("%s, want %s", url, want)
		}
	}
	want("log:")
	for _, base := range []string{"log:", "sqlite:"} {
		store, err := storeurl.OpenIn(t.Context(), dir, base, nil)
		check(t, err)
		check(t, store.Close())
		want(base) // SQLite where both are
	}
}
