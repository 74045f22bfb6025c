package bench

import (
	"context"

	"reprise"
	"reprise/store/sqlitestore"
)

// openDisk opens a store in a file.
func openDisk(ctx context.Context, path string) (reprise.Store, error) {
	return sqlitestore.Open(ctx, path, nil)
}
