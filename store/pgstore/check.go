package pgstore

import (
	"context"
	"errors"
	"fmt"

	"reprise"
	"reprise/internal/storecheck"
)

// Check reads all streams and returns one sentence for each fault: a checksum mismatch, batches that have a gap or do
// not reach the tail, or rows that cannot be decoded. It may take long. Appends may continue meanwhile. Use pg_amcheck
// of PostgreSQL for indexes and pages.
func (s *Store) Check(ctx context.Context) (wrong []string, err error) {
	defer func() { err = storeError(ctx, err) }()
	wrong, err = storecheck.Streams(ctx, s.List, s.checkStream)
	if errors.Is(err, ErrDamaged) { // of the list; damage of a stream is a fault
		return append(wrong, "streams: "+err.Error()), nil
	}
	return wrong, err
}

// checkStream reads all batches of a stream. fault describes what is wrong; it is empty if nothing is.
func (s *Store) checkStream(ctx context.Context, key reprise.StreamKey) (fault string, err error) {
	damaged := func(err error) bool { return errors.Is(err, ErrDamaged) }
	fault, err = storecheck.Batches(ctx, s.Read, key, damaged, nil)
	if fault != "" {
		fault = fmt.Sprintf("stream %s: %s", key, fault)
	}
	return fault, err
}
