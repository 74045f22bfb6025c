package sqlitestore

import (
	"bytes"
	"context"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"reprise"
)

// Sweep finds expired streams by the index of their rows, and those whose rows do not include their end in memory.
func (s *Store) Sweep(ctx context.Context, now, remember time.Time, limit int) (_ []reprise.StreamInfo, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return nil, err
	}
	defer s.use.Leave()
	w := &s.writer
	if err := w.take(ctx); err != nil { // no fold comes between the rows and the memory
		return nil, err
	}
	defer w.leave()
	var due []*stream
	err = s.read(ctx, func(conn *sqlite.Conn) (err error) {
		due, err = selectExpired(conn, now, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, st := range s.cache.dirty() {
		if end := st.info.End; end != nil && !end.Expires.After(now) && len(due) < limit {
			due = append(due, st)
		}
	}
	swept, err := s.markExpired(ctx, due, now, remember)
	for isFull(err) && len(due) > 1 { // the reserve may do for fewer
		due = due[:len(due)/2]
		swept, err = s.markExpired(ctx, due, now, remember)
	}
	if err == nil {
		err = w.freeing(func() error { return w.forgetMarks(now) })
	}
	return swept, storeError(context.Background(), err)
}

func selectExpired(conn *sqlite.Conn, now time.Time, limit int) (due []*stream, err error) {
	stmt, err := conn.Prepare(`SELECT ` + streamColumns + ` FROM streams
		WHERE expires <= ? AND expires IS NOT NULL AND mark IS NULL ORDER BY expires LIMIT ?`)
	if err != nil {
		return nil, err
	}
	defer stmt.Reset()
	stmt.BindInt64(1, nanos(now))
	stmt.BindInt64(2, int64(limit))
	for {
		more, err := stmt.Step()
		if err != nil || !more {
			return due, err
		}
		st, err := scanStream(stmt)
		if err != nil {
			return nil, err
		}
		due = append(due, st)
	}
}

// markExpired turns those of due that still exist, and still expire by now, into marks. The caller has the writer's
// turn.
func (s *Store) markExpired(ctx context.Context, due []*stream, now, remember time.Time) (
	[]reprise.StreamInfo, error,
) {
	var list []*stream
	var swept []reprise.StreamInfo
	for _, row := range due {
		st, err := s.cache.load(ctx, row.info.Key)
		if err != nil || st.id != row.id || !st.mark.IsZero() || st.info.End.Expires.After(now) {
			continue
		}
		list = append(list, st)
		info := st.info
		info.Producers = nil
		swept = append(swept, info)
	}
	if len(list) == 0 {
		return nil, nil
	}
	if err := s.writer.mark(list, remember); err != nil {
		return nil, err
	}
	for _, st := range list {
		s.cache.drop(st)
	}
	return swept, nil
}

// forgetMarks deletes the marks that have expired.
func (w *writer) forgetMarks(now time.Time) error {
	return run(w.conn, `DELETE FROM streams WHERE mark <= ?`, func(stmt *sqlite.Stmt) { stmt.BindInt64(1, nanos(now)) })
}

// Sizes adds up the rows and, for streams whose rows are out of date, the states in memory.
func (s *Store) Sizes(ctx context.Context) (_ map[reprise.Tenant]reprise.Size, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return nil, err
	}
	defer s.use.Leave()
	return s.sizes(ctx)
}

func (s *Store) sizes(ctx context.Context) (map[reprise.Tenant]reprise.Size, error) {
	// The writer's turn keeps rows and memory consistent with each other.
	if err := s.writer.take(ctx); err != nil {
		return nil, err
	}
	defer s.writer.leave()
	sizes := map[reprise.Tenant]reprise.Size{}
	add := func(tenant reprise.Tenant, sign int64, info *reprise.StreamInfo) {
		size := sizes[tenant]
		size.Events += sign * int64(info.Kept())
		size.Bytes += sign * info.Bytes
		sizes[tenant] = size
	}
	err := s.read(ctx, func(conn *sqlite.Conn) error {
		if err := sumSizes(conn, sizes); err != nil {
			return err
		}
		for _, st := range s.cache.dirty() {
			row, err := selectStream(conn, st.info.Key)
			if err != nil || row == nil {
				return err
			}
			add(st.info.Key.Tenant, -1, &row.info)
			add(st.info.Key.Tenant, +1, &st.info)
		}
		return nil
	})
	return sizes, err
}

func sumSizes(conn *sqlite.Conn, sizes map[reprise.Tenant]reprise.Size) error {
	stmt, err := conn.Prepare(`SELECT tenant, count(*), sum(tail + 1 - earliest), sum(kept), sum(length(name))
		FROM streams WHERE mark IS NULL GROUP BY tenant`)
	if err != nil {
		return err
	}
	defer stmt.Reset()
	for {
		more, err := stmt.Step()
		if err != nil {
			return err
		}
		if !more {
			return sumConfigs(conn, sizes)
		}
		sizes[reprise.Tenant(stmt.ColumnText(0))] = reprise.Size{
			Streams: stmt.ColumnInt64(1), Events: stmt.ColumnInt64(2), Bytes: stmt.ColumnInt64(3),
			Overhead: stmt.ColumnInt64(1)*reprise.StreamOverhead + stmt.ColumnInt64(4),
		}
	}
}

// sumConfigs adds the sizes of the labels and Meta of all streams that have any.
func sumConfigs(conn *sqlite.Conn, sizes map[reprise.Tenant]reprise.Size) error {
	stmt, err := conn.Prepare(`SELECT tenant, config FROM streams WHERE mark IS NULL AND config <> CAST('{}' AS BLOB)`)
	if err != nil {
		return err
	}
	defer stmt.Reset()
	var text, before []byte
	n := int64(0)
	for {
		more, err := stmt.Step()
		if err != nil || !more {
			return err
		}
		text = slices.Grow(text[:0], stmt.ColumnLen(1))[:stmt.ColumnLen(1)]
		stmt.ColumnBytes(1, text)
		if !bytes.Equal(text, before) { // streams that are made one after the other are often alike
			if n, err = configOverhead(text); err != nil {
				return err
			}
			text, before = before, text
		}
		tenant := reprise.Tenant(stmt.ColumnText(0))
		size := sizes[tenant]
		size.Overhead += n
		sizes[tenant] = size
	}
}
