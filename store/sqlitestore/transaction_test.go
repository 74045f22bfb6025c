package sqlitestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
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

// TestEachAppendIsOneCommit counts the commits in the write-ahead log. A row that is written in place takes two
// statements; between two commits of them, a crash would leave a row of zeros.
func TestEachAppendIsOneCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := openHere(t, path, nil)
	info := createHere(t, s, "s")
	sizes := []int{100, inPlaceBytes - 1000, inPlaceBytes, largeBytes - 1, largeBytes, 100_000}
	batch := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, sizes[i]) }
	for i, size := range sizes {
		before := countCommits(t, path+"-wal")
		seq := uint64(i + 1)
		errs := s.Append(t.Context(), []reprise.AppendRequest{{
			Key: info.Key, Epoch: info.Epoch, First: seq, Count: 1, Bytes: batch(i), Earliest: 1, Kept: int64(size),
		}})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if n := countCommits(t, path+"-wal") - before; n != 1 {
			t.Errorf("%d bytes took %d commits", size, n)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openHere(t, path, nil)
	for i, size := range sizes {
		page, err := s.Read(t.Context(), info.Key, uint64(i), size)
		if err != nil || len(page.Batches) == 0 || !bytes.Equal(page.Batches[0].Bytes, batch(i)) {
			t.Errorf("the batch of %d bytes is another one: %v", size, err)
		}
	}
}

// countCommits returns the number of transactions in a write-ahead log: the headers of 24 bytes of its frames, each
// before a page, hold the size of the database if the frame is the last one of a transaction.
// See https://www.sqlite.org/fileformat2.html#walformat.
func countCommits(t *testing.T, wal string) (n int) {
	t.Helper()
	frames, err := os.ReadFile(wal)
	if err != nil {
		t.Fatal(err)
	}
	const header, frameHeader = 32, 24
	for at := header; at+frameHeader+pageSize <= len(frames); at += frameHeader + pageSize {
		if binary.BigEndian.Uint32(frames[at+4:]) > 0 {
			n++
		}
	}
	return n
}

// TestStatementThatCannotBePrepared: SQLite reads the schema when a connection prepares its first statement, which
// fails if that part of the file cannot be read or is damaged. Each call returns that as an error, with every
// connection, and works again afterwards.
func TestStatementThatCannotBePrepared(t *testing.T) {
	s := openHere(t, filepath.Join(t.TempDir(), "events.db"), &Options{FoldAfter: time.Hour})
	info := createHere(t, s, "s")
	large := next(&info, bytes.Repeat([]byte("x"), 2*largeBytes))
	if errs := s.Append(t.Context(), []reprise.AppendRequest{large}); errs != nil {
		t.Fatal(errs[0])
	}
	now := time.Now()
	calls := map[string]func() error{
		"read": func() error {
			_, err := s.Read(t.Context(), info.Key, 0, 1)
			return err
		},
		"read of another stream": func() error {
			_, err := s.Read(t.Context(), reprise.StreamKey{Tenant: "t", Name: "other"}, 0, 1)
			if errors.Is(err, reprise.ErrNotFound) {
				return nil
			}
			return err
		},
		"list": func() error {
			_, err := s.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 1})
			return err
		},
		"sweep": func() error {
			_, err := s.Sweep(t.Context(), now, now, 1)
			return err
		},
		"sizes": func() error {
			_, err := s.Sizes(t.Context())
			return err
		},
		"stats": func() error {
			_, err := s.Stats(t.Context())
			return err
		},
	}
	for _, broken := range []bool{true, false} {
		for _, table := range []string{"streams", "batches"} {
			change := "ALTER TABLE " + table + " RENAME TO away_" + table
			if !broken {
				change = "ALTER TABLE away_" + table + " RENAME TO " + table
			}
			if err := sqlitex.ExecuteTransient(s.writer.conn, change, nil); err != nil {
				t.Fatal(err)
			}
		}
		// A connection that has not seen the change of the schema prepares a statement, and fails when it runs it.
		// After the first call each has seen it.
		for _, name := range slices.Sorted(maps.Keys(calls)) {
			for range cap(s.readers) {
				if err := calls[name](); (err != nil) != broken {
					t.Errorf("%s, broken=%t: %v", name, broken, err)
				}
			}
		}
	}
}
