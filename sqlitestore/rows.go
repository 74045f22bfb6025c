package sqlitestore

import (
	"time"

	"zombiezen.com/go/sqlite"

	"reprise"
)

// streamColumns are what scanStream reads.
const streamColumns = `id, tenant, name, epoch, created, config, earliest, tail, kept, ended, producers, mark`

// scanStream makes a stream of a row of streamColumns.
func scanStream(stmt *sqlite.Stmt) (*stream, error) {
	st := &stream{id: stmt.ColumnInt64(0)}
	info := &st.info
	info.Key = reprise.StreamKey{Tenant: reprise.Tenant(stmt.ColumnText(1)), Name: stmt.ColumnText(2)}
	info.Epoch = reprise.Epoch(stmt.ColumnText(3))
	info.Created = time.Unix(0, stmt.ColumnInt64(4)).UTC()
	var err error
	if info.Config, err = unmarshalConfig(columnBytes(stmt, 5)); err != nil {
		return nil, err
	}
	info.Earliest = uint64(stmt.ColumnInt64(6))
	info.Tail = uint64(stmt.ColumnInt64(7))
	info.Bytes = stmt.ColumnInt64(8)
	if !stmt.ColumnIsNull(9) {
		c := cutter{b: columnBytes(stmt, 9)}
		if info.End = c.end(); c.bad {
			return nil, errDamaged
		}
	}
	if !stmt.ColumnIsNull(10) {
		c := cutter{b: columnBytes(stmt, 10)}
		if info.Producers = c.producers(); c.bad {
			return nil, errDamaged
		}
	}
	if !stmt.ColumnIsNull(11) {
		st.mark = time.Unix(0, stmt.ColumnInt64(11)).UTC()
	}
	return st, nil
}

func columnBytes(stmt *sqlite.Stmt, col int) []byte {
	b := make([]byte, stmt.ColumnLen(col))
	stmt.ColumnBytes(col, b)
	return b
}

// selectStream reads the row of a stream; nil if there is none.
func selectStream(conn *sqlite.Conn, key reprise.StreamKey) (st *stream, err error) {
	stmt := conn.Prep(`SELECT ` + streamColumns + ` FROM streams WHERE tenant = ? AND name = ?`)
	defer stmt.Reset()
	stmt.BindText(1, string(key.Tenant))
	stmt.BindText(2, key.Name)
	found, err := stmt.Step()
	if err != nil || !found {
		return nil, err
	}
	return scanStream(stmt)
}

// run carries out a prepared statement that returns no rows, after bind has bound it.
func run(conn *sqlite.Conn, query string, bind func(*sqlite.Stmt)) error {
	stmt, err := conn.Prepare(query)
	if err != nil {
		return err
	}
	bind(stmt)
	_, err = stmt.Step()
	if resetErr := stmt.Reset(); err == nil {
		err = resetErr
	}
	// What was bound is let go: it may be large.
	if clearErr := stmt.ClearBindings(); err == nil {
		err = clearErr
	}
	return err
}
