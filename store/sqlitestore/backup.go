package sqlitestore

import (
	"context"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Backup writes the store as it is at one moment into the file path, which must not exist or be empty. Appends
// go on meanwhile; the write-ahead log is not cut back until the backup is done. The file holds no free space
// and opens as any other. It is not synced.
func (s *Store) Backup(ctx context.Context, path string) (err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.use.RUnlock()
	return s.read(ctx, func(conn *sqlite.Conn) error {
		return sqlitex.ExecuteTransient(conn, "VACUUM INTO ?", &sqlitex.ExecOptions{Args: []any{path}})
	})
}
