package sqlitestore

import (
	"context"
	"errors"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"reprise"
	"reprise/store/internal/driver"
)

// Create inserts the row of a stream. It is durable when Create returns.
func (s *Store) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	return s.create(ctx, info, nil)
}

// CreateAppend inserts the rows of a stream and of its first batch in one transaction; see reprise.CreateAppender.
func (s *Store) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	return s.create(ctx, info, &first)
}

// create implements Create if first is nil, and CreateAppend otherwise.
func (s *Store) create(ctx context.Context, info reprise.StreamInfo,
	first *reprise.AppendRequest,
) (_ reprise.StreamInfo, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return reprise.StreamInfo{}, err
	}
	defer s.use.Leave()
	w := &s.writer
	if err := w.take(ctx); err != nil {
		return reprise.StreamInfo{}, err
	}
	defer w.leave()
	if info.Revision > 0 {
		return s.configure(ctx, &info)
	}
	old := s.cache.find(info.Key)
	if old == nil {
		// The insertion tells whether the name is taken. A read before it would take a quarter of the time of both.
		st, err := w.insertStream(info, nil, first)
		if !errors.Is(err, errTaken) {
			return s.created(st, err)
		}
		if old, err = s.cache.load(ctx, info.Key); err != nil {
			return reprise.StreamInfo{}, err
		}
	}
	if existing, gone := old.existing(time.Now()); !gone {
		if !existing.Config.Equal(info.Config) {
			return reprise.StreamInfo{}, reprise.ErrConflict
		}
		return existing, nil
	}
	st, err := w.insertStream(info, old, first)
	if err == nil {
		s.cache.drop(old)
	}
	return s.created(st, err)
}

// created adds an inserted stream to the cache, unless err is not nil.
func (s *Store) created(st *stream, err error) (reprise.StreamInfo, error) {
	if err != nil {
		return reprise.StreamInfo{}, storeError(context.Background(), err)
	}
	s.cache.put(st)
	return st.info, nil
}

// errTaken is returned by insertStream if the name is that of another stream or mark.
var errTaken = errors.New("the name of the stream is taken")

// existing returns the state of the stream. gone is true if the stream was removed or is a mark.
func (st *stream) existing(now time.Time) (info reprise.StreamInfo, gone bool) {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.info, st.state(now) != nil
}

// insertStream inserts the row of a new stream, in place of the mark of an old one. If first is not nil, it also
// inserts the row of that batch. The error is errTaken, and nothing is changed, if another row has the name.
func (w *writer) insertStream(info reprise.StreamInfo, old *stream, first *reprise.AppendRequest) (*stream, error) {
	config, err := marshalConfig(&info)
	if err != nil {
		return nil, err
	}
	st := &stream{info: reprise.StreamInfo{
		Key: info.Key, Epoch: info.Epoch, Config: info.Config, Created: info.Created, Owner: info.Owner,
		Earliest: info.Tail + 1, Tail: info.Tail, End: info.End, Producers: slices.Clone(info.Producers),
		Lineage: slices.Clone(info.Lineage),
	}}
	if first != nil {
		st.info.Tail, st.info.Bytes, st.info.End = uint64(first.Count), first.Kept, first.End
		st.info.Earliest = max(1, first.Earliest)
		st.info.Producers = driver.Remember(nil, first.Producers)
	}
	size := len(config)
	if first != nil {
		size += len(first.Bytes)
	}
	err = w.transact(w.adding(int64(size)), func() error {
		if old != nil {
			if err := w.deleteStream(old.id); err != nil {
				return err
			}
		}
		const query = `INSERT INTO streams (earliest, tail, kept, ended, expires, producers, owner, fence,
			tenant, namespace, name, epoch, created, config, lineage) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (tenant, name) DO NOTHING`
		err := run(w.conn, query, func(stmt *sqlite.Stmt) {
			bindState(stmt, &st.info)
			stmt.BindText(9, string(info.Key.Tenant))
			stmt.BindText(10, info.Key.Namespace())
			stmt.BindText(11, info.Key.Name)
			stmt.BindText(12, string(info.Epoch))
			stmt.BindInt64(13, nanos(info.Created))
			stmt.BindBytes(14, config)
			stmt.BindNull(15)
			if len(info.Lineage) > 0 {
				stmt.BindBytes(15, appendLineage(nil, info.Lineage))
			}
		})
		if err == nil && w.conn.Changes() == 0 {
			return errTaken
		}
		st.id = w.conn.LastInsertRowID()
		if err != nil || first == nil {
			return err
		}
		return w.insertRow(st.id, []reprise.Batch{{First: first.First, Count: first.Count, Bytes: first.Bytes}})
	})
	return st, err
}

func (w *writer) deleteStream(id int64) error {
	for _, query := range []string{`DELETE FROM batches WHERE stream = ?`, `DELETE FROM streams WHERE id = ?`} {
		if err := run(w.conn, query, func(stmt *sqlite.Stmt) { stmt.BindInt64(1, id) }); err != nil {
			return err
		}
	}
	return nil
}
