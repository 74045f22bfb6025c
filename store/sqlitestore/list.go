package sqlitestore

import (
	"context"
	"encoding/base64"
	"encoding/hex"
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
		list, err = selectStreams(conn, &q, before, s.labels)
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
func selectStreams(conn *sqlite.Conn, q *reprise.ListQuery, before int64, byLabels bool) (list []*stream, err error) {
	query, labels, err := listQuery(conn, q, byLabels)
	if err != nil {
		return nil, err
	}
	stmt, err := conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	defer stmt.Reset()
	bindList(stmt, q, labels, before)
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

// listQuery returns the statement for a list, and the labels of rarestFirst, which is to be bound with bindList.
func listQuery(conn *sqlite.Conn, q *reprise.ListQuery, byLabels bool) (query string, labels []string, err error) {
	from, id := `streams WHERE`, `streams.id`
	if byLabels && len(q.Labels) > 0 {
		if labels, err = rarestFirst(conn, q.Labels); err != nil {
			return "", nil, err
		}
		from = `labels CROSS JOIN streams ON streams.id = labels.stream WHERE labels.label = ?5 AND labels.value = ?6 AND`
		id = `labels.stream`
	}
	query = `SELECT ` + streamColumns + ` FROM ` + from + ` mark IS NULL AND ` + id + ` < ?1`
	for i := 2; i < len(labels); i += 2 {
		query += fmt.Sprintf(` AND EXISTS (SELECT 1 FROM labels AS l
			WHERE l.label = ?%d AND l.value = ?%d AND l.stream = streams.id)`, 5+i, 6+i)
	}
	if q.Tenant != "" {
		query += ` AND tenant = ?3`
	}
	if !q.AllNamespaces {
		query += ` AND namespace = ?4`
	}
	if q.Open {
		query += ` AND ended IS NULL`
	}
	return query + ` ORDER BY ` + id + ` DESC LIMIT ?2`, labels, nil
}

func bindList(stmt *sqlite.Stmt, q *reprise.ListQuery, labels []string, before int64) {
	stmt.BindInt64(1, before)
	stmt.BindInt64(2, int64(q.Limit)+1)
	if q.Tenant != "" {
		stmt.BindText(3, string(q.Tenant))
	}
	if !q.AllNamespaces {
		stmt.BindText(4, q.Namespace)
	}
	for i, text := range labels {
		stmt.BindText(5+i, text)
	}
}

// rarest is the number of streams that are counted to find out which label the fewest have.
const rarest = 1000

// rarestFirst returns the names and values of labels as the table has them, the one first that the fewest streams have.
func rarestFirst(conn *sqlite.Conn, labels map[string]string) (list []string, err error) {
	fewest := int64(rarest + 1)
	for name, value := range labels {
		label := []string{hex.EncodeToString([]byte(name)), base64.StdEncoding.EncodeToString([]byte(value))}
		number := int64(0)
		if len(labels) > 1 {
			if number, err = countLabel(conn, label); err != nil {
				return nil, err
			}
		}
		if number < fewest {
			fewest, list = number, append(label, list...)
		} else {
			list = append(list, label...)
		}
	}
	return list, err
}

// countLabel returns how many streams have a label, up to rarest.
func countLabel(conn *sqlite.Conn, label []string) (int64, error) {
	stmt, err := conn.Prepare(`SELECT count(*) FROM (SELECT 1 FROM labels WHERE label = ? AND value = ? LIMIT ?)`)
	if err != nil {
		return 0, err
	}
	defer stmt.Reset()
	stmt.BindText(1, label[0])
	stmt.BindText(2, label[1])
	stmt.BindInt64(3, rarest)
	_, err = stmt.Step()
	return stmt.ColumnInt64(0), err
}
