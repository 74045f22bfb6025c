package memstore

import (
	"bytes"
	"maps"

	"reprise"
)

// configure changes a stream; see reprise.Store.Create. The caller holds mu for writing.
func (s *Store) configure(want *reprise.StreamInfo) (reprise.StreamInfo, error) {
	st := s.streams[want.Key]
	if st == nil || st.info.Epoch != want.Epoch {
		return reprise.StreamInfo{}, reprise.ErrNotFound
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	info := &st.info
	switch {
	case info.Revision == want.Revision && info.Config.Equal(want.Config):
		return st.state(), nil
	case info.Revision+1 != want.Revision:
		return reprise.StreamInfo{}, reprise.ErrConflict
	}
	before := info.Overhead()
	info.Config, info.Revision = want.Config, want.Revision
	info.Config.Labels, info.Config.Meta = maps.Clone(want.Config.Labels), bytes.Clone(want.Config.Meta)
	st.tenant.overhead += info.Overhead() - before
	if info.End != nil && want.End != nil {
		end := *info.End // readers may have the one before
		end.Expires = want.End.Expires
		s.ending.mu.Lock()
		s.ending.queue.remove(st.expiry)
		s.ending.mu.Unlock()
		s.end(st, end)
	}
	return st.state(), nil
}
