package sqlitestore

import (
	"context"
	"errors"
	"time"

	"zombiezen.com/go/sqlite"

	"reprise"
)

// Remove trims or removes a stream; see reprise.RemoveSpec.
func (s *Store) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) (err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return err
	}
	defer s.use.Leave()
	w := &s.writer
	if err := w.take(ctx); err != nil {
		return err
	}
	defer w.leave()
	st, err := s.cache.load(ctx, key)
	trim := spec.Trim > 0
	if errors.Is(err, reprise.ErrNotFound) && !trim {
		return nil
	}
	if err != nil {
		return err
	}
	st.mu.RLock()
	state, other := st.state(time.Now()), spec.Epoch != "" && spec.Epoch != st.info.Epoch
	st.mu.RUnlock()
	switch {
	case trim && state != nil:
		return reprise.ErrNotFound
	case other:
		return nil
	case trim:
		err = w.trim(st, spec)
	case !spec.Remember.IsZero():
		if state == nil { // a mark keeps its expiry
			if err = w.mark([]*stream{st}, spec.Remember); err == nil {
				s.cache.drop(st)
			}
		}
	default:
		if err = w.transact(w.freeing, func() error { return w.deleteStream(st.id) }); err == nil {
			st.retire(time.Time{})
			s.cache.drop(st)
		}
	}
	return storeError(context.Background(), err)
}

// trim moves the start of the window and also updates the row of the stream.
func (w *writer) trim(st *stream, spec reprise.RemoveSpec) error {
	if spec.Trim <= st.info.Earliest {
		return nil
	}
	before := st.info
	st.mu.Lock()
	st.info.Earliest, st.info.Bytes = min(spec.Trim, st.info.Tail+1), spec.Kept
	st.mu.Unlock()
	err := w.transact(w.freeing, func() error { return w.fold(st, st.pending) })
	st.mu.Lock()
	defer st.mu.Unlock()
	if err != nil {
		st.info = before
		return err
	}
	st.pending, st.dirty = nil, false
	return nil
}

// mark replaces streams by marks. Only a row with the name and times of the stream remains.
func (w *writer) mark(list []*stream, until time.Time) error {
	err := w.transact(w.freeing, func() error {
		for _, st := range list {
			if err := run(w.conn, `DELETE FROM batches WHERE stream = ?`,
				func(stmt *sqlite.Stmt) { stmt.BindInt64(1, st.id) }); err != nil {
				return err
			}
			err := run(w.conn,
				`UPDATE streams SET mark = ?, config = '{}', ended = NULL, producers = NULL, expires = NULL WHERE id = ?`,
				func(stmt *sqlite.Stmt) {
					stmt.BindInt64(1, nanos(until))
					stmt.BindInt64(2, st.id)
				})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, st := range list {
		st.retire(until)
	}
	return nil
}

// retire turns st into a mark, or removes it without a mark if until is zero.
func (st *stream) retire(until time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.mark, st.removed = until, until.IsZero()
	st.pending, st.dirty = nil, false
}
