package memstore

import (
	"context"

	"reprise"
)

// List returns streams; see reprise.Store. The cost is O(log n) in the number of
// streams, and O(1) for each that is returned.
func (s *Store) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	if err := s.use(ctx); err != nil {
		return reprise.ListPage{}, err
	}
	defer s.mu.RUnlock()
	numbers, next, err := s.index.Page(q, s.created, func(number uint64) bool {
		info := s.numbers[number].summary()
		return q.Takes(&info)
	})
	if err != nil {
		return reprise.ListPage{}, err
	}
	page := reprise.ListPage{Next: next}
	for _, number := range numbers {
		page.Streams = append(page.Streams, s.numbers[number].summary())
	}
	return page, nil
}

// summary is the state of st without its producers.
func (st *stream) summary() reprise.StreamInfo {
	st.mu.Lock()
	defer st.mu.Unlock()
	info := st.info
	info.Producers = nil
	return info
}
