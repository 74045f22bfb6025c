package pgstore

import (
	"context"
	"fmt"
	"time"

	"reprise"
)

const (
	// A stream that another server may have had more of is adopted first: the bytes that the caller counts may be lost.
	trimStatement = `WITH s AS (
		SELECT id, epoch, ($2 = '' OR epoch = $2) AND line <> {schema}.line() AND (NOT $5 OR $3 > tail + 1) AS to_adopt
		FROM {schema}.streams WHERE key = $1
	), u AS (
		UPDATE {schema}.streams u SET earliest = least($3, u.tail + 1), bytes = $4
		FROM s WHERE u.id = s.id AND NOT s.to_adopt AND ($2 = '' OR u.epoch = $2) AND u.earliest < $3
	)
	SELECT epoch, to_adopt FROM s`

	removeStatement = `WITH s AS (
		DELETE FROM {schema}.streams WHERE key = $1 AND ($2 = '' OR epoch = $2) RETURNING id
	), p AS (
		DELETE FROM {schema}.producers p USING s WHERE p.stream = s.id
	), a AS (
		DELETE FROM {schema}.ancestors a USING s WHERE a.stream = s.id
	), m AS (
		DELETE FROM {schema}.marks WHERE key = $1 AND ($2 = '' OR epoch = $2)
	)
	SELECT id FROM s`

	markStatement = `WITH s AS (
		DELETE FROM {schema}.streams WHERE key = $1 AND ($2 = '' OR epoch = $2) RETURNING id, epoch
	), p AS (
		DELETE FROM {schema}.producers p USING s WHERE p.stream = s.id
	), a AS (
		DELETE FROM {schema}.ancestors a USING s WHERE a.stream = s.id
	), m AS (
		INSERT INTO {schema}.marks AS m (key, epoch, until) SELECT $1, s.epoch, $3 FROM s
		ON CONFLICT (key) DO UPDATE SET epoch = excluded.epoch, until = excluded.until
	)
	SELECT id FROM s`
)

// Remove trims or removes a stream; see reprise.RemoveSpec. It does not delete batches one by one: they disappear with
// their partition.
func (s *Store) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) (err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return err
	}
	defer s.use.Leave()
	p := new(params).text(key.String()).text(string(spec.Epoch))
	hashes := hashList{hashOf(key)}
	switch {
	case spec.Trim > 0:
		return s.trim(ctx, key, &spec)
	case !spec.Remember.IsZero():
		return s.commit(ctx, hashes, statement{s.sql.mark, p.int8(nanos(spec.Remember)), nil})
	}
	return s.commit(ctx, hashes, statement{s.sql.remove, p, nil})
}

// trim moves the start of the window. The first trim after a change of the server adopts the stream. If that moves it
// to another epoch than spec's, it is not trimmed.
func (s *Store) trim(ctx context.Context, key reprise.StreamKey, spec *reprise.RemoveSpec) error {
	p := new(params).text(key.String()).text(string(spec.Epoch)).int8(bigint(spec.Trim)).int8(spec.Kept).
		bool(s.opts.FailoverKeeps)
	for range maxTries {
		found, foreign, epoch := false, false, reprise.Epoch("")
		err := s.commit(ctx, hashList{hashOf(key)}, statement{s.sql.trim, p, func(row [][]byte) error {
			found, foreign, epoch = true, boolOf(row[1]), reprise.Epoch(row[0])
			return nil
		}})
		switch {
		case err != nil:
			return err
		case !found:
			return reprise.ErrNotFound
		case !foreign:
			return nil
		}
		if err := s.adopt(ctx, []claim{{key, epoch, spec.Trim}}); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: stream %s: one server after the other takes over", reprise.ErrUnavailable, key)
}

const (
	// A concurrent sweep skips locked rows.
	sweepStatement = `WITH due AS (
		SELECT id FROM {schema}.streams WHERE expires <= $1 ORDER BY expires LIMIT $3 FOR UPDATE SKIP LOCKED
	), s AS (
		DELETE FROM {schema}.streams s USING due WHERE s.id = due.id RETURNING s.*
	), p AS (
		DELETE FROM {schema}.producers p USING due WHERE p.stream = due.id
	), a AS (
		DELETE FROM {schema}.ancestors a USING due WHERE a.stream = due.id
	), m AS (
		INSERT INTO {schema}.marks AS m (key, epoch, until) SELECT s.key, s.epoch, $2 FROM s
		ON CONFLICT (key) DO UPDATE SET epoch = excluded.epoch, until = excluded.until
	)
	SELECT s::{schema}.streams, {schema}.lineage_of(s.id) FROM s`

	forgetStatement = `DELETE FROM {schema}.marks WHERE until <= $1`

	sizesStatement = `SELECT tenant, count(*), sum(tail + 1 - earliest)::bigint, sum(bytes)::bigint,
		sum(octet_length(key) + octet_length(config))::bigint FROM {schema}.streams GROUP BY tenant`
)

// Sweep removes expired streams, which it finds by an index; see reprise.Sweeper.
func (s *Store) Sweep(ctx context.Context, now, remember time.Time, limit int) (_ []reprise.StreamInfo, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return nil, err
	}
	defer s.use.Leave()
	if err := s.commit(ctx, nil, statement{sql: s.sql.forget, p: new(params).int8(nanos(now))}); err != nil {
		return nil, err
	}
	var swept []reprise.StreamInfo
	p := new(params).int8(nanos(now)).int8(nanos(remember)).int8(int64(limit))
	err = s.commit(ctx, nil, statement{s.sql.sweep, p, func(row [][]byte) error {
		_, info, err := streamWithLineage(row[0], row[1])
		swept = append(swept, info)
		return err
	}})
	if err != nil {
		return nil, err
	}
	s.tell(swept)
	return swept, nil
}

// Sizes adds up the rows of all streams; see reprise.Sizer.
func (s *Store) Sizes(ctx context.Context) (_ map[reprise.Tenant]reprise.Size, err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return nil, err
	}
	defer s.use.Leave()
	return s.sizes(ctx)
}

func (s *Store) sizes(ctx context.Context) (sizes map[reprise.Tenant]reprise.Size, err error) {
	err = s.run(ctx, s.sql.sizes, new(params), func() takeRow {
		sizes = map[reprise.Tenant]reprise.Size{}
		return func(row [][]byte) error {
			sizes[reprise.Tenant(row[0])] = reprise.Size{
				Streams: int8Of(row[1]), Events: int8Of(row[2]), Bytes: int8Of(row[3]),
				Overhead: int8Of(row[1])*reprise.StreamOverhead + int8Of(row[4]),
			}
			return nil
		}
	})
	return sizes, err
}
