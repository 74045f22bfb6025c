package redisstore

import (
	"context"
	"errors"
	"fmt"

	"reprise"
	"reprise/internal/storecheck"
)

// Check reads all streams and returns one sentence for each fault: a checksum mismatch, a missing batch or an
// unreadable state. It may take long. Appends may continue meanwhile.
func (s *Store) Check(ctx context.Context) (wrong []string, err error) {
	defer func() { err = storeError(ctx, err) }()
	for before := uint64(0); ; {
		places, err := s.checkPlaces(ctx, before)
		if err != nil {
			return wrong, err
		}
		for _, p := range places {
			fault, err := s.checkStream(ctx, p.key)
			if err != nil {
				return wrong, err
			}
			if fault != "" {
				wrong = append(wrong, fault)
			}
			before = p.number
		}
		if len(places) == 0 {
			return wrong, nil
		}
	}
}

// checkPlaces reads one page of the list of all streams.
func (s *Store) checkPlaces(ctx context.Context, before uint64) ([]place, error) {
	bounded, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	places, _, err := s.places(bounded, s.keys.listKey("", "", true), before, sizePlaces)
	if err != nil && !errors.Is(err, ErrDamaged) {
		err = storeError(ctx, err)
	}
	return places, err
}

// checkStream reads all batches of a stream. Read verifies that they reach the tail. fault describes what is wrong; it
// is empty if nothing is.
func (s *Store) checkStream(ctx context.Context, key reprise.StreamKey) (fault string, err error) {
	damaged := func(err error) bool { return errors.Is(err, ErrDamaged) }
	fault, err = storecheck.Batches(ctx, s.Read, key, damaged, nil)
	if err != nil {
		err = fmt.Errorf("stream %s: %w", key, err)
	}
	return fault, err
}
