package redisstore

import (
	"context"
	"slices"

	"github.com/redis/rueidis"

	"reprise"
)

// Sizes adds up the states of all streams, a thousand in a round trip. Options.Timeout bounds each round trip. The
// store keeps no counters that could differ from the states. If a server was started or promoted, Sizes also starts a
// search for streams that are in no list, and does not wait for it.
func (s *Store) Sizes(ctx context.Context) (_ map[reprise.Tenant]reprise.Size, err error) {
	defer func() { err = storeError(ctx, err) }()
	_, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	s.startSearch()
	sizes, err := s.sizes(ctx)
	if err != nil {
		return nil, storeError(ctx, err)
	}
	return sizes, nil
}

// sizePlaces is the number of streams in one round trip.
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

// addSizes adds the streams with a number below before, or the newest streams if before is 0, in one round trip. It
// returns the number at which to continue.
func (s *Store) addSizes(ctx context.Context, sizes map[reprise.Tenant]reprise.Size, before uint64) (
	next uint64, more bool, err error,
) {
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
	states = slices.DeleteFunc(states, func(st *state) bool { return st == nil })
	configs, err := s.configLengths(ctx, states)
	if err != nil {
		return 0, false, err
	}
	for i, st := range states {
		size := sizes[st.info.Key.Tenant]
		size.Streams++
		size.Events += int64(st.info.Kept())
		size.Bytes += st.info.Bytes
		size.Overhead += st.info.Overhead() + configs[i]
		sizes[st.info.Key.Tenant] = size
	}
	return places[len(places)-1].number, len(places) == sizePlaces, nil
}

// configLengths returns the length of the configuration of each stream, which sizeFields leave out.
func (s *Store) configLengths(ctx context.Context, states []*state) ([]int64, error) {
	commands := make([]rueidis.Completed, len(states))
	for i, st := range states {
		commands[i] = s.client.B().Hstrlen().Key(s.keys.state(st.info.Key)).Field("c").Build()
	}
	lengths := make([]int64, len(states))
	for i, r := range s.client.DoMulti(ctx, commands...) {
		var err error
		if lengths[i], err = r.AsInt64(); err != nil {
			return nil, err
		}
	}
	return lengths, nil
}
