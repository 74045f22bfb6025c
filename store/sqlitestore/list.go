package sqlitestore

import (
	"context"
	"fmt"
	"strconv"

	"zombiezen.com/go/sqlite"

	"reprise"
)

// List reads rows, and takes newer states of their streams from memory.
func (s *Store) List(ctx context.Context, q reprise.ListQuery) (_ reprise.ListPage, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return reprise.ListPage{}, err
	}
	defer s.use.Leave()
	before := int64(1<<63 - 1)
	if q.After != "" {
		var err error
		if before, err = strconv.ParseInt(q.After, 10, 64); err != nil || before < 1 ||
			strconv.FormatInt(before, 10) != q.After {
			return reprise.ListPage{}, fmt.Errorf("%w: list after %q", reprise.ErrInvalid, q.After)
		}
	}
	var list []*stream
	err = s.read(ctx, func(conn *sqlite.Conn) (err error) {
		list, err = selectStreams(conn, &q, before)
		return err
	})
	if err != nil {
		return reprise.ListPage{}, err
	}
	var page reprise.ListPage
	for i, st := range list {
		if i == q.Limit {
			page.Next = strconv.FormatInt(list[i-1].id, 10)
			break
		}
		if info, ok := s.newest(st); ok {
			info.Producers = nil
			page.Streams = append(page.Streams, info)
		}
	}
	return page, nil
}

// newest returns the current state of a stream that was read; ok is false if it was removed since.
func (s *Store) newest(st *stream) (info reprise.StreamInfo, ok bool) {
	s.cache.mu.RLock()
	live := s.cache.byID[st.id]
	s.cache.mu.RUnlock()
	if live == nil {
		return st.info, true
	}
	live.mu.RLock()
	defer live.mu.RUnlock()
	return live.info, !live.removed && live.mark.IsZero()
}

// selectStreams reads one row more than the limit, which shows whether there are more.
func selectStreams(conn *sqlite.Conn, q *reprise.ListQuery, before int64) (list []*stream, err error) {
	query := `SELECT ` + streamColumns + ` FROM streams WHERE mark IS NULL AND id < ?`
	if q.Tenant != "" {
		query += ` AND tenant = ?3`
	}
	if !q.AllNamespaces {
		query += ` AND namespace = ?4`
	}
	if q.Open { // the labels in rows may be older than those in memory
		query += ` AND ended IS NULL`
	}
	stmt, err := conn.Prepare(query + ` ORDER BY id DESC LIMIT ?2`)
	if err != nil {
		return nil, err
	}
	defer stmt.Reset()
	stmt.BindInt64(1, before)
	stmt.BindInt64(2, int64(q.Limit)+1)
	if q.Tenant != "" {
		stmt.BindText(3, string(q.Tenant))
	}
	if !q.AllNamespaces {
		stmt.BindText(4, q.Namespace)
	}
	for {
		more, err := stmt.Step()
		if err != nil || !more {
			return list, err
		}
		st, err := scanStream(stmt)
		if err != nil {
			return nil, err
		}
		list = append(list, st)
	}
}
