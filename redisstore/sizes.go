package redisstore

import (
	"context"

	"reprise"
)

// Sizes adds up the states of all streams, some thousands in a round trip. Nothing else is kept that
// could come to differ from them.
func (s *Store) Sizes(ctx context.Context) (map[reprise.Tenant]reprise.Size, error) {
	bounded, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	sizes, err := s.sizes(bounded)
	if err != nil {
		return nil, failed(ctx, err)
	}
	return sizes, nil
}

// sizePlaces is how many streams are looked at in one round trip.
const sizePlaces = 1000

func (s *Store) sizes(ctx context.Context) (map[reprise.Tenant]reprise.Size, error) {
	sizes := map[reprise.Tenant]reprise.Size{}
	for before := uint64(0); ; {
		places, _, err := s.places(ctx, s.keys.listKey("", "", true), before, sizePlaces)
		if err != nil {
			return nil, err
		}
		states, err := s.states(ctx, places)
		if err != nil {
			return nil, err
		}
		for _, st := range states {
			if st != nil {
				size := sizes[st.info.Key.Tenant]
				size.Streams++
				size.Events += int64(st.info.Kept())
				size.Bytes += st.info.Bytes
				sizes[st.info.Key.Tenant] = size
			}
		}
		if len(places) < sizePlaces {
			return sizes, nil
		}
		before = places[len(places)-1].number
	}
}
