package logstore

import (
	"bytes"
	"context"
	"maps"

	"reprise"
)

// configure changes the configuration of a stream; see reprise.Store.Create. It is one record.
func (s *Store) configure(ctx context.Context, want *reprise.StreamInfo) (reprise.StreamInfo, error) {
	changed := reprise.StreamInfo{Config: want.Config, Revision: want.Revision}
	changed.Config.Labels, changed.Config.Meta = maps.Clone(want.Config.Labels), bytes.Clone(want.Config.Meta)
	var kept reprise.StreamInfo
	err := s.commit(ctx, &change{stage: func(g *group) error {
		st := s.rouse(s.streams.find(want.Key))
		if st == nil || st.mark || st.epoch() != want.Epoch {
			return reprise.ErrNotFound
		}
		if st.group == g.number {
			return errLater
		}
		kept = st.info()
		switch {
		case kept.Revision == want.Revision && kept.Config.Equal(want.Config):
			return nil
		case kept.Revision+1 != want.Revision:
			return reprise.ErrConflict
		}
		r := record{kind: kindConfigure, id: st.id, info: &changed}
		kept.Config, kept.Revision = changed.Config, changed.Revision
		if kept.End != nil && want.End != nil {
			end := *kept.End
			end.Expires = want.End.Expires
			kept.End, r.until = &end, end.Expires
		}
		if err := g.touch(st); err != nil {
			return err
		}
		g.add(r)
		return nil
	}})
	if err != nil {
		return reprise.StreamInfo{}, err
	}
	return kept, nil
}

// configure applies a record of that kind.
func (s *state) configure(st *stream, r *record) {
	before := st.overhead()
	st.config = s.config(&r.info.Config)
	st.extra().revision = r.info.Revision
	st.tenant.size.Overhead += st.overhead() - before
	if st.end == nil || r.until.IsZero() {
		return
	}
	end := *st.end // readers may have the one before
	end.Expires = r.until
	st.end = &end
	s.queue.add(dueOf(st))
	s.queue.remove(s.counts(false))
}
