package bench

import (
	"context"
	"fmt"
	"path/filepath"

	"reprise"
	"reprise/store/logstore"
	"reprise/store/memstore"
	"reprise/store/sqlitestore"
)

// openDisk opens a store in a file.
func openDisk(ctx context.Context, path string) (reprise.Store, error) {
	return sqlitestore.Open(ctx, path, nil)
}

// openEmbeddedLog opens a store in a directory of segments.
func openEmbeddedLog(ctx context.Context, path string) (reprise.Store, error) {
	return logstore.Open(ctx, path, nil)
}

// openStore opens a store by its kind, "memory", "log" or "sqlite", with its files in dir.
func openStore(ctx context.Context, kind, dir string) (reprise.Store, error) {
	switch kind {
	case "memory":
		return memstore.New(nil), nil
	case "log":
		return openEmbeddedLog(ctx, filepath.Join(dir, "log"))
	case "sqlite":
		return openDisk(ctx, filepath.Join(dir, "events.db"))
	}
	return nil, fmt.Errorf("%w: store %q", errOrder, kind)
}
