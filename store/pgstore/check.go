package pgstore

import (
	"context"
	"errors"
	"fmt"

	"reprise"
)

// Check reads all streams and returns what is wrong, a sentence each: checksums that do not hold, streams
// whose batches have a hole or do not reach the tail, rows that cannot be understood. It may take long. Appends go on
// meanwhile. Indexes and pages are for PostgreSQL's own pg_amcheck.
func (s *Store) Check(ctx context.Context) (wrong []string, err error) {
	defer func() { err = storeError(ctx, err) }()
	q := reprise.ListQuery{AllNamespaces: true, Limit: 1000}
	for {
		page, err := s.List(ctx, q)
		if errors.Is(err, ErrDamaged) {
			return append(wrong, "streams: "+err.Error()), nil
		}
		if err != nil {
			return wrong, err
		}
		for i := range page.Streams {
			fault, err := s.checkStream(ctx, page.Streams[i].Key)
			if err != nil {
				return wrong, err
			}
			if fault != "" {
				wrong = append(wrong, fmt.Sprintf("stream %s: %s", page.Streams[i].Key, fault))
			}
		}
		if q.After = page.Next; q.After == "" {
			return wrong, nil
		}
	}
}

// checkStream reads all batches of a stream. fault says what is wrong.
func (s *Store) checkStream(ctx context.Context, key reprise.StreamKey) (fault string, err error) {
	for after := uint64(0); ; {
		page, err := s.Read(ctx, key, after, 1<<20)
		switch {
		case errors.Is(err, reprise.ErrNotFound), errors.Is(err, reprise.ErrExpired):
			return "", nil // removed meanwhile
		case errors.Is(err, ErrDamaged):
			return err.Error(), nil
		case err != nil:
			return "", err
		case len(page.Batches) == 0:
			return "", nil
		}
		after = page.Batches[len(page.Batches)-1].Last()
	}
}
