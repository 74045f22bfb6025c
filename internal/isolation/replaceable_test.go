package isolation_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"reprise/internal/isolation"
)

// TestReplaceable: what is hidden as a file stays hidden only until it is replaced, unless its directory is hidden too.
func TestReplaceable(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"data", "data2"} {
		if err := os.Mkdir(path(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"tls.key", "data/reprise.db", "data2/file"} {
		if err := os.WriteFile(path(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := isolation.Replaceable([]string{
		path("data"), path("tls.key"), path("data/reprise.db"), path("data/reprise.db-wal"), path("data2/file"),
		path("not-there"), path("tls.key"),
	})
	if want := []string{path("data2/file"), path("not-there"), path("tls.key")}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
