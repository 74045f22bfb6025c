package sqlitestore_test

import (
	"os"
	"path/filepath"
	"testing"

	"reprise"
	"reprise/store/sqlitestore"
	"reprise/store/storetest"
)

// open makes a place in a temporary folder. A crash leaves what the files hold at that moment.
func open(tb testing.TB) storetest.Harness {
	dir := tb.TempDir()
	generation := 0
	path := func() string { return filepath.Join(dir, string(rune('a'+generation)), "events.db") }
	return storetest.Harness{
		Persistent: true,
		Open: func() (reprise.Store, error) {
			if err := os.MkdirAll(filepath.Dir(path()), 0o700); err != nil {
				return nil, err
			}
			return sqlitestore.Open(tb.Context(), path(), nil)
		},
		Crash: func(reprise.Store) error {
			from := filepath.Dir(path())
			generation++
			return os.CopyFS(filepath.Dir(path()), os.DirFS(from))
		},
	}
}

func TestStoreKeepsContract(t *testing.T) {
	storetest.Run(t, open, &storetest.Options{Streams: suiteStreams})
}
