package pgstore

import (
	"context"
	"errors"
	"fmt"

	"reprise"
	"reprise/internal/storecheck"
)

// Check reads all streams and returns what is wrong, a sentence each: checksums that do not hold, streams
// whose batches have a hole or do not reach the tail, rows that cannot be understood. It may take long. Appends go on
// meanwhile. Indexes and pages are for PostgreSQL's own pg_amcheck.
func (s *Store) Check(ctx context.Context) (wrong []string, err error) {
	defer func() { err = storeError(ctx, err) }()
	wrong, err = storecheck.Streams(ctx, s.List, s.checkStream)
	if errors.Is(err, ErrDamaged) { // of the list: that of a stream is a fault
		return append(wrong, "streams: "+err.Error()), nil
	}
	return wrong, err
}

// checkStream reads all batches of a stream. fault says what is wrong.
func (s *Store) checkStream(ctx context.Context, key reprise.StreamKey) (fault string, err error) {
	damaged := func(err error) bool { return errors.Is(err, ErrDamaged) }
	fault, err = storecheck.Batches(ctx, s.Read, key, damaged, nil)
	if fault != "" {
		fault = fmt.Sprintf("stream %s: %s", key, fault)
	}
	return fault, err
}
