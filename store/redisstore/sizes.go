package redisstore

import (
	"context"

	"reprise"
)

// Sizes adds up the states of all streams, a thousand in a round trip, each of which is bounded by Options.Timeout.
// Nothing else is kept that could come to differ from them.
func (s *Store) Sizes(ctx context.Context) (_ map[reprise.Tenant]reprise.Size, err error) {
	defer func() { err = storeError(ctx, err) }()
	_, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	sizes, err := s.sizes(ctx)
	if err != nil {
		return nil, storeError(ctx, err)
	}
	return sizes, nil
}

// sizePlaces is how many streams are looked at in one round trip.
const sizePlaces = 1000

func (s *Store) sizes(ctx context.Context) (map[reprise.Tenant]reprise.Size, error) {
	sizes := map[reprise.Tenant]reprise.Size{}
	for before, more := uint64(0), true; more; {
		var err error
		if before, more, err = s.addSizes(ctx, sizes, before); err != nil {
			return nil, err
		}
	}
	return sizes, nil
}

// addSizes adds the streams with a number below before, or the newest if that is 0, as many as go into a round trip. It
// returns the number to go on with.
func (s *Store) addSizes(ctx context.Context, sizes map[reprise.Tenant]reprise.Size, before uint64) (next uint64, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	places, _, err := s.places(ctx, s.keys.listKey("", "", true), before, sizePlaces)
	if err != nil || len(places) == 0 {
		return 0, false, err
	}
	states, err := s.states(ctx, places, sizeFields)
	if err != nil {
		return 0, false, err
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
	return places[len(places)-1].number, len(places) == sizePlaces, nil
}
