package bench

import (
	"context"

	"reprise"
	"reprise/store/logstore"
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
