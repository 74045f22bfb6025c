package sqlitestore

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"reprise"
)

// TestLargeBatchAndJournalAreOneTransaction: a large batch has a row of its own beside the one of the journal. Where
// the second cannot be stored, the first is not there either, and the next append works.
func TestLargeBatchAndJournalAreOneTransaction(t *testing.T) {
	s := openHere(t, filepath.Join(t.TempDir(), "events.db"), nil)
	info := reprise.StreamInfo{
		Key: reprise.StreamKey{Tenant: "t", Name: "s"}, Epoch: reprise.NewEpoch(), Created: time.UnixMilli(1).UTC(),
	}
	if _, err := s.Create(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	store := func(data []byte) error {
		errs := s.Append(t.Context(), []reprise.AppendRequest{{
			Key: info.Key, Epoch: info.Epoch, First: 1, Count: 1, Bytes: data, Earliest: 1, Kept: int64(len(data)),
		}})
		return errors.Join(errs...)
	}
	inTheWay := s.writer.lastCommit + 1
	for _, step := range []struct {
		before string
		fails  bool
	}{
		{`INSERT INTO commits (id, data) VALUES (?, x'00')`, true},
		{`DELETE FROM commits WHERE id = ?`, false},
	} {
		if err := sqlitex.Execute(s.writer.conn, step.before, &sqlitex.ExecOptions{Args: []any{inTheWay}}); err != nil {
			t.Fatal(err)
		}
		if err := store(bytes.Repeat([]byte("x"), 2*largeBytes)); (err != nil) != step.fails {
			t.Fatalf("after %s: append: %v", step.before, err)
		}
		rows := int64(-1)
		err := sqlitex.Execute(s.writer.conn, `SELECT count(*) FROM batches`,
			&sqlitex.ExecOptions{ResultFunc: func(stmt *sqlite.Stmt) error {
				rows = stmt.ColumnInt64(0)
				return nil
			}})
		if want := map[bool]int64{true: 0, false: 1}[step.fails]; err != nil || rows != want {
			t.Errorf("after %s: %d rows of batches (%v), want %d", step.before, rows, err, want)
		}
	}
}
