package logstore

import (
	"context"
	"slices"

	"reprise"
)

// renewed is the number of streams that one commit moves to another epoch.
const renewed = 1000

// Renew moves every stream that has not ended to a new epoch, which shares all events with the previous one, and
// returns their number. A program calls it before it appends to a store that may be older than what readers have seen.
// After an error, some streams have moved.
func (s *Store) Renew(ctx context.Context) (streams int, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return 0, err
	}
	defer s.use.Leave()
	for ids := range slices.Chunk(s.openStreams(), renewed) {
		n := 0
		err := s.commit(ctx, &change{stage: func(g *group) (err error) {
			n, err = g.renew(ids)
			return err
		}})
		if err != nil {
			return streams, err
		}
		streams += n
	}
	return streams, nil
}

// openStreams returns the ids of the streams that have not ended.
func (s *Store) openStreams() (ids []uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for st := range s.streams.all(s.tenants) {
		if !st.mark && st.end == nil {
			ids = append(ids, st.id)
		}
	}
	return ids
}

func (g *group) renew(ids []uint64) (n int, err error) {
	var open []*stream
	for _, id := range ids {
		st := g.s.rouse(id)
		switch {
		case st == nil || st.mark || st.end != nil:
			continue // ended or removed meanwhile
		case st.group == g.number:
			return 0, errLater
		}
		open = append(open, st)
	}
	for _, st := range open {
		st.group = g.number
		g.add(record{kind: kindRenew, id: st.id, epoch: reprise.NewEpoch()})
	}
	return len(open), nil
}
