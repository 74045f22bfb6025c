package sqlitestore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

var (
	//go:embed schema.sql
	schema string
	//go:embed schema2.sql
	schema2 string
	//go:embed schema3.sql
	schema3 string
	//go:embed indexes.sql
	indexes string
)

const (
	// applicationID marks our files: "rpse", see https://www.sqlite.org/pragma.html#pragma_application_id.
	applicationID = 0x72707365
	// version is that of the schema and of all formats within.
	version = 3
	// pageSize keeps a lone append small; see docs/internals/storage-sqlite.md for what was measured.
	pageSize = 4096
)

// Sync says when an append is acknowledged.
type Sync uint8

const (
	// SyncFull acknowledges an append when it is on the disk: it survives a loss of power.
	SyncFull Sync = iota
	// SyncNormal acknowledges an append when the operating system has it: it survives a crash of the program, but a
	// loss of power may lose the newest appends.
	SyncNormal
)

// lockPatience is how long to wait for a lock whose owner may have ended. A child process holds all descriptors of its
// parent until it executes its program, even if the parent has ended meanwhile.
const lockPatience = time.Second

// lockFile opens or creates the file at path and locks it. The lock that keeps other processes out of a database is on
// a separate file, and lockData of the database holds when somebody removes that. SQLite's own locks are released when
// any descriptor of the database is closed.
func lockFile(path string, lock func(*os.File) error) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(lockPatience / 100) {
		if lock(f) == nil {
			return f, nil
		}
		if time.Now().After(deadline) {
			_ = f.Close()
			return nil, ErrInUse
		}
	}
}

// probe rejects a file of another program before anything in it is changed.
func probe(path string) (fresh bool, err error) {
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		return true, err
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	id, err := pragma(conn, "application_id")
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultNotADB {
		return false, ErrNotOurs
	}
	if err != nil {
		return false, err
	}
	v, err := pragma(conn, "user_version")
	if err == nil && id == 0 && v == 0 {
		// The file holds only settings: a crash or a full disk interrupted migrate.
		tables, err := first(conn, "SELECT count(*) FROM sqlite_schema")
		if err != nil || tables > 0 {
			return false, errors.Join(err, ErrNotOurs)
		}
		return true, nil
	}
	switch {
	case err != nil:
		return false, err
	case id != applicationID:
		return false, ErrNotOurs
	case v > version:
		return false, fmt.Errorf("%w: schema %d, this program knows %d", ErrNewer, v, version)
	}
	return false, nil
}

func pragma(conn *sqlite.Conn, name string) (value int64, err error) {
	return first(conn, "PRAGMA "+name)
}

// first returns the number that a query yields.
func first(conn *sqlite.Conn, query string) (value int64, err error) {
	err = sqlitex.ExecuteTransient(conn, query, &sqlitex.ExecOptions{
		ResultFunc: func(stmt *sqlite.Stmt) error {
			value = stmt.ColumnInt64(0)
			return nil
		},
	})
	return value, err
}

// openWriter opens the single connection that writes, and updates the schema.
func openWriter(path string, fresh bool, sync Sync, share int64) (conn *sqlite.Conn, err error) {
	conn, err = sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	// Nobody else writes, so that only readers make the writer wait: while one of them, such as a backup, holds a
	// snapshot, the log cannot be emptied. That is tried again later.
	conn.SetBusyTimeout(100 * time.Millisecond)
	level := "FULL"
	if sync == SyncNormal {
		level = "NORMAL"
	}
	if fresh {
		// These settings take effect only in an empty file, before it is in WAL mode.
		if err := execute(conn, fmt.Sprintf("PRAGMA page_size=%d", pageSize),
			"PRAGMA auto_vacuum=INCREMENTAL"); err != nil {
			return nil, err
		}
	}
	err = execute(conn, "PRAGMA journal_mode=WAL", "PRAGMA synchronous="+level,
		fmt.Sprintf("PRAGMA wal_autocheckpoint=%d", share/pageSize), "PRAGMA cache_size=-16000",
		fmt.Sprintf("PRAGMA journal_size_limit=%d", 4*share))
	if err != nil {
		return nil, err
	}
	return conn, migrate(conn)
}

func execute(conn *sqlite.Conn, statements ...string) error {
	for _, s := range statements {
		if err := sqlitex.ExecuteTransient(conn, s, nil); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// migrations[i] turns a file of schema i into one of schema i+1.
var migrations = [version]string{schema, schema2, schema3}

// migrate runs the pending migrations, each in a transaction.
func migrate(conn *sqlite.Conn) error {
	from, err := pragma(conn, "user_version")
	if err != nil {
		return err
	}
	for v := int(from); v < version; v++ {
		script := fmt.Sprintf("%s\nPRAGMA application_id=%d;\nPRAGMA user_version=%d;\n", migrations[v], applicationID,
			v+1)
		if err := sqlitex.ExecuteScript(conn, script, nil); err != nil {
			return fmt.Errorf("migrate from schema %d: %w", v, err)
		}
	}
	return nil
}

// addIndexes makes the indexes for lists, once. On a full disk they are missing, and lists look at each stream.
func (s *Store) addIndexes(conn *sqlite.Conn) error {
	const made = `SELECT count(*) FROM sqlite_schema WHERE name = 'labels'`
	n, err := first(conn, made)
	if err == nil && n == 0 {
		err = sqlitex.ExecuteScript(conn, indexes, nil)
		n = 1
	}
	s.labels = err == nil && n > 0
	return err
}

// openReader opens a connection that only reads.
func openReader(path string) (*sqlite.Conn, error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return nil, err
	}
	if err := execute(conn, "PRAGMA cache_size=-4000"); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// interruptible makes statements of conn end when ctx does.
func interruptible(ctx context.Context, conn *sqlite.Conn) (restore func()) {
	old := conn.SetInterrupt(ctx.Done())
	return func() { conn.SetInterrupt(old) }
}
