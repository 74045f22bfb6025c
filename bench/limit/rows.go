package limit

import (
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Rows keeps each event in a row of its own in SQLite, as most programs would begin.
type Rows struct {
	conn   *sqlite.Conn
	insert *sqlite.Stmt
}

// CreateRows makes a database with WAL and full durability.
func CreateRows(path string) (*Rows, error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenCreate)
	if err != nil {
		return nil, err
	}
	err = sqlitex.ExecuteScript(conn, `CREATE TABLE events (
		stream INTEGER, seq INTEGER, time INTEGER, data BLOB, PRIMARY KEY (stream, seq)) WITHOUT ROWID`, nil)
	for _, pragma := range []string{"PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL"} {
		if err == nil {
			err = sqlitex.ExecuteTransient(conn, pragma, nil)
		}
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	insert, err := conn.Prepare("INSERT INTO events VALUES (?1, ?2, ?3, ?4)")
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Rows{conn: conn, insert: insert}, nil
}

// Append keeps n events in one transaction, each of another stream.
func (r *Rows) Append(seq int64, n int, event []byte) (err error) {
	defer sqlitex.Save(r.conn)(&err)
	for stream := range n {
		r.insert.BindInt64(1, int64(stream))
		r.insert.BindInt64(2, seq)
		r.insert.BindInt64(3, seq)
		r.insert.BindBytes(4, event)
		if _, err := r.insert.Step(); err != nil {
			return err
		}
		if err := r.insert.Reset(); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the database.
func (r *Rows) Close() error { return r.conn.Close() }
