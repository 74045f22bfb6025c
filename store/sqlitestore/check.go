package sqlitestore

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"reprise"
)

// Check reads everything and returns what is wrong, a sentence each: pages that SQLite
// finds damaged, checksums that do not hold, streams whose batches have a hole or do
// not reach the tail. It may take long. Appends go on meanwhile.
func (s *Store) Check(ctx context.Context) (wrong []string, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	wrong, err = s.checkPages(ctx)
	s.use.RUnlock()
	if err != nil {
		return wrong, err
	}
	q := reprise.ListQuery{AllNamespaces: true, Limit: 1000}
	for {
		page, err := s.List(ctx, q)
		if err != nil {
			return wrong, err
		}
		for i := range page.Streams {
			fault, err := s.checkStream(ctx, page.Streams[i].Key)
			if err != nil {
				return wrong, err
			}
			if fault != "" {
				wrong = append(wrong, fmt.Sprintf("stream %s: %s", page.Streams[i].Key, fault))
			}
		}
		if q.After = page.Next; q.After == "" {
			return wrong, nil
		}
	}
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

// checkStream reads all batches of a stream. fault says what is wrong.
func (s *Store) checkStream(ctx context.Context, key reprise.StreamKey) (fault string, err error) {
	for after := uint64(0); ; {
		page, err := s.Read(ctx, key, after, 1<<20)
		switch {
		case errors.Is(err, reprise.ErrNotFound), errors.Is(err, reprise.ErrExpired):
			return "", nil // removed meanwhile
		case errors.Is(err, ErrDamaged):
			return err.Error(), nil
		case err != nil:
			return "", err
		}
		if len(page.Batches) == 0 {
			if want := max(after+1, page.Info.Earliest); want <= page.Info.Tail {
				return fmt.Sprintf("events %d to %d are missing", want, page.Info.Tail), nil
			}
			return "", nil
		}
		after = page.Batches[len(page.Batches)-1].Last()
	}
}
