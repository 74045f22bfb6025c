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
