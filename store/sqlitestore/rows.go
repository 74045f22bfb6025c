package sqlitestore

import (
	"errors"
	"time"

	"zombiezen.com/go/sqlite"

	"reprise"
)

// streamColumns are the columns that scanStream reads.
const streamColumns = `id, tenant, name, epoch, created, config, earliest, tail, kept, ended, producers, mark, owner, fence, lineage`

// scanStream decodes a row of streamColumns.
func scanStream(stmt *sqlite.Stmt) (*stream, error) {
	st := &stream{id: stmt.ColumnInt64(0)}
	info := &st.info
	info.Key = reprise.StreamKey{Tenant: reprise.Tenant(stmt.ColumnText(1)), Name: stmt.ColumnText(2)}
	info.Epoch = reprise.Epoch(stmt.ColumnText(3))
	info.Created = time.Unix(0, stmt.ColumnInt64(4)).UTC()
	var err error
	if info.Config, info.Revision, err = unmarshalConfig(columnBytes(stmt, 5)); err != nil {
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
	info.Owner = reprise.Owner{Name: stmt.ColumnText(12), Fence: uint64(stmt.ColumnInt64(13))}
	if !stmt.ColumnIsNull(14) {
		c := cutter{b: columnBytes(stmt, 14)}
		if info.Lineage = c.lineage(); c.bad {
			return nil, errDamaged
		}
	}
	return st, nil
}

func columnBytes(stmt *sqlite.Stmt, col int) []byte {
	b := make([]byte, stmt.ColumnLen(col))
	stmt.ColumnBytes(col, b)
	return b
}

// selectStream reads the row of a stream. st is nil if there is none.
func selectStream(conn *sqlite.Conn, key reprise.StreamKey) (st *stream, err error) {
	stmt, err := conn.Prepare(`SELECT ` + streamColumns + ` FROM streams WHERE tenant = ? AND name = ?`)
	if err != nil {
		return nil, err
	}
	defer stmt.Reset()
	stmt.BindText(1, string(key.Tenant))
	stmt.BindText(2, key.Name)
	found, err := stmt.Step()
	if err != nil || !found {
		return nil, err
	}
	return scanStream(stmt)
}

// bindState binds the state of a stream in the order of these columns: earliest, tail, kept, ended, expires, producers,
// owner, fence.
func bindState(stmt *sqlite.Stmt, info *reprise.StreamInfo) {
	stmt.BindInt64(1, int64(info.Earliest))
	stmt.BindInt64(2, int64(info.Tail))
	stmt.BindInt64(3, info.Bytes)
	stmt.BindNull(4)
	stmt.BindNull(5)
	stmt.BindNull(6)
	if info.End != nil {
		stmt.BindBytes(4, appendEnd(nil, info.End))
		stmt.BindInt64(5, nanos(info.End.Expires))
	}
	if len(info.Producers) > 0 {
		stmt.BindBytes(6, appendProducers(nil, info.Producers))
	}
	stmt.BindText(7, info.Owner.Name)
	stmt.BindInt64(8, int64(info.Owner.Fence))
}

// run executes a prepared statement that returns no rows, with the values that bind binds.
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
	// Release the bound values, which may be large.
	if clearErr := stmt.ClearBindings(); err == nil {
		err = clearErr
	}
	return err
}

// inPlaceBytes is the size from which insertData writes a value into its row in place.
const inPlaceBytes = 8 << 10

// insertData executes an INSERT into a table whose last column is data, with the value of that column as the parameter
// number param and the others as bind binds them. From inPlaceBytes, the caller has begun a transaction: the row is
// inserted with room for data, which is then copied into its pages. A bound value of that size would pass through two
// allocations on the way there, whose pages the system maps and clears each time, and it took twice as long.
func insertData(conn *sqlite.Conn, table, query string, param int, data []byte, bind func(*sqlite.Stmt)) error {
	if len(data) < inPlaceBytes {
		return run(conn, query, func(stmt *sqlite.Stmt) {
			bind(stmt)
			stmt.BindBytes(param, data)
		})
	}
	err := run(conn, query, func(stmt *sqlite.Stmt) {
		bind(stmt)
		stmt.BindZeroBlob(param, int64(len(data)))
	})
	if err != nil {
		return err
	}
	blob, err := conn.OpenBlob("main", table, "data", conn.LastInsertRowID(), true)
	if err != nil {
		return err
	}
	_, err = blob.Write(data)
	return errors.Join(err, blob.Close())
}
