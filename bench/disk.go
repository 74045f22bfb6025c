package bench

import (
	"context"

	"reprise"
	"reprise/sqlitestore"
)

// openDisk opens a store in a file.
func openDisk(ctx context.Context, path string) (reprise.Store, error) {
	return sqlitestore.Open(ctx, path, nil)
}
