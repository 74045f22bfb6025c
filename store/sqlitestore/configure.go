package sqlitestore

import (
	"bytes"
	"context"
	"maps"
	"time"

	"zombiezen.com/go/sqlite"

	"reprise"
)

// configure changes the configuration of a stream; see reprise.Store.Create. The caller has the writer's turn.
func (s *Store) configure(ctx context.Context, want *reprise.StreamInfo) (reprise.StreamInfo, error) {
	st, err := s.cache.load(ctx, want.Key)
	if err != nil {
		return reprise.StreamInfo{}, err
	}
	info, gone := st.existing(time.Now())
	switch {
	case gone || info.Epoch != want.Epoch:
		return reprise.StreamInfo{}, reprise.ErrNotFound
	case info.Revision == want.Revision && info.Config.Equal(want.Config):
		return info, nil
	case info.Revision+1 != want.Revision:
		return reprise.StreamInfo{}, reprise.ErrConflict
	}
	before := info
	info.Config, info.Revision = want.Config, want.Revision
	info.Config.Labels, info.Config.Meta = maps.Clone(want.Config.Labels), bytes.Clone(want.Config.Meta)
	if info.End != nil && want.End != nil {
		end := *info.End
		end.Expires = want.End.Expires
		info.End = &end
	}
	if err := s.writer.reconfigure(st, &before, &info); err != nil {
		return reprise.StreamInfo{}, storeError(context.Background(), err)
	}
	return info, nil
}

// reconfigure changes st from before to after. The journal is folded into the row in the same transaction: its entry
// of the end has the expiry as it was.
func (w *writer) reconfigure(st *stream, before, after *reprise.StreamInfo) error {
	config, err := marshalConfig(after)
	if err != nil {
		return err
	}
	st.set(after)
	err = w.transact(w.adding(int64(len(config))), func() error {
		if err := w.fold(st, st.pending); err != nil {
			return err
		}
		return run(w.conn, `UPDATE streams SET config = ?1 WHERE id = ?2`, func(stmt *sqlite.Stmt) {
			stmt.BindBytes(1, config)
			stmt.BindInt64(2, st.id)
		})
	})
	if err != nil {
		st.set(before)
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.pending, st.dirty = nil, false
	return nil
}

func (st *stream) set(info *reprise.StreamInfo) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.info = *info
}
