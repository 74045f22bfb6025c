package sqlitestore

import (
	"context"
	"errors"
	"time"

	"zombiezen.com/go/sqlite"

	"reprise"
)

// Renew moves every stream that has not ended to a new epoch, which shares all events with the previous one, and
// returns their number. A program calls it before it appends to a store that may be older than what readers have seen.
// After an error, some streams have moved.
func (s *Store) Renew(ctx context.Context) (streams int, err error) {
	defer func() { err = storeError(ctx, err) }()
	const renewed = 500 // streams of one transaction
	for q := (reprise.ListQuery{AllNamespaces: true, Limit: renewed}); ; {
		page, err := s.List(ctx, q)
		if err != nil {
			return streams, err
		}
		n, err := s.renew(ctx, page.Streams)
		if streams += n; err != nil {
			return streams, err
		}
		if q.After = page.Next; q.After == "" {
			return streams, nil
		}
	}
}

// renew moves those of the listed streams that have not ended.
func (s *Store) renew(ctx context.Context, listed []reprise.StreamInfo) (_ int, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return 0, err
	}
	defer s.use.Leave()
	w := &s.writer
	if err := w.take(ctx); err != nil {
		return 0, err
	}
	defer w.leave()
	var open []*stream
	for i := range listed {
		st, err := s.cache.load(ctx, listed[i].Key)
		if errors.Is(err, reprise.ErrNotFound) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if info, gone := st.existing(time.Now()); !gone && info.End == nil {
			open = append(open, st)
		}
	}
	if err := w.renew(open); err != nil {
		return 0, storeError(context.Background(), err)
	}
	return len(open), nil
}

// renew moves streams in one transaction, which also folds what the journal has of them.
func (w *writer) renew(list []*stream) error {
	if len(list) == 0 {
		return nil
	}
	infos := make([]reprise.StreamInfo, len(list))
	size := 0
	for i, st := range list {
		infos[i] = st.info
		infos[i].Renew(reprise.NewEpoch())
		size += len(appendLineage(nil, infos[i].Lineage)) + len(infos[i].Epoch)
	}
	err := w.transact(w.adding(int64(size)), func() error {
		for i, st := range list {
			if err := w.fold(st, st.pending); err != nil {
				return err
			}
			err := run(w.conn, `UPDATE streams SET epoch = ?1, lineage = ?2 WHERE id = ?3`, func(stmt *sqlite.Stmt) {
				stmt.BindText(1, string(infos[i].Epoch))
				stmt.BindBytes(2, appendLineage(nil, infos[i].Lineage))
				stmt.BindInt64(3, st.id)
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
	for i, st := range list {
		st.set(&infos[i])
		st.mu.Lock()
		st.pending, st.dirty = nil, false
		st.mu.Unlock()
	}
	return nil
}
