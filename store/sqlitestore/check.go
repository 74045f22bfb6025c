package sqlitestore

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"reprise"
	"reprise/internal/storecheck"
)

// Check reads everything and returns one sentence for each fault: a page that SQLite reports as damaged, a checksum
// mismatch, or a stream whose batches have a gap or do not reach the tail. It may take long. Appends may continue
// meanwhile.
func (s *Store) Check(ctx context.Context) (wrong []string, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return nil, err
	}
	wrong, err = s.checkPages(ctx)
	s.use.Leave()
	if err != nil {
		return wrong, err
	}
	faults, err := storecheck.Streams(ctx, s.List, s.checkStream)
	return append(wrong, faults...), err
}

func (s *Store) checkPages(ctx context.Context) (wrong []string, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return sqlitex.ExecuteTransient(conn, "PRAGMA quick_check(20)", &sqlitex.ExecOptions{
			ResultFunc: func(stmt *sqlite.Stmt) error {
				if text := stmt.ColumnText(0); text != "ok" {
					wrong = append(wrong, "file: "+text)
				}
				return nil
			},
		})
	})
	if errors.Is(err, ErrDamaged) {
		return append(wrong, "file: "+err.Error()), nil
	}
	return wrong, err
}

// checkStream reads all batches of a stream. fault describes what is wrong; it is empty if nothing is.
func (s *Store) checkStream(ctx context.Context, key reprise.StreamKey) (fault string, err error) {
	damaged := func(err error) bool { return errors.Is(err, ErrDamaged) }
	fault, err = storecheck.Batches(ctx, s.Read, key, damaged, storecheck.Missing)
	if fault != "" {
		fault = fmt.Sprintf("stream %s: %s", key, fault)
	}
	return fault, err
}
