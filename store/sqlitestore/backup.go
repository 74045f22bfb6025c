package sqlitestore

import (
	"context"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Backup writes a consistent copy of the store into the file path, which must not exist or be empty. Appends
// continue meanwhile; the write-ahead log is not truncated until the backup is done. The file has no free space
// and opens like any other. It is not synced.
func (s *Store) Backup(ctx context.Context, path string) (err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return err
	}
	defer s.use.Leave()
	return s.read(ctx, func(conn *sqlite.Conn) error {
		return sqlitex.ExecuteTransient(conn, "VACUUM INTO ?", &sqlitex.ExecOptions{Args: []any{path}})
	})
}
