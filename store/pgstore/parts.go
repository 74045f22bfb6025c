package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// mostParts is the maximum number of partitions, not counting one that is filled while another is emptied. Each
	// partition that is newer than a stream costs an index lookup for each read of that stream.
	mostParts = 16
	// A partition is full when it holds this part of all bytes; see Options.PartBytes.
	partShare = 8
	// A closed partition is emptied when at most this part of it is still in windows.
	liveShare = 2
	// lookEvery is the pause before a partition that holds more is examined again.
	lookEvery = 10 * time.Minute
	// tidyTimeout bounds one statement of tidying.
	tidyTimeout = 5 * time.Minute
	// moveRows is the number of rows that one transaction moves. Each has up to 8,080 bytes.
	moveRows = 1000
)

// tidyLoop tidies the partitions periodically until the Store is closed.
func (s *Store) tidyLoop() {
	if s.opts.TidyEvery < 0 {
		return
	}
	for {
		// The random part spreads replicas that were started together.
		wait := s.opts.TidyEvery/2 + rand.N(s.opts.TidyEvery)
		select {
		case <-s.life.Done():
			return
		case <-time.After(wait):
		}
		err := s.tidy(s.life)
		if err != nil && s.life.Err() == nil {
			s.opts.Logger.Warn("partitions could not be tidied", "error", err, "again_in", s.opts.TidyEvery)
		}
	}
}

// Tidy adds a partition when the last one is full. It empties and drops partitions of which little is still in the
// window of a stream. Every Store calls it periodically; see Options.TidyEvery.
func (s *Store) Tidy(ctx context.Context) (err error) {
	defer func() { err = storeError(ctx, err) }()
	if err := s.use.Enter(ctx); err != nil {
		return err
	}
	defer s.use.Leave()
	return storeError(ctx, s.tidy(ctx))
}

// part is one partition of the table batches.
type part struct {
	n      int
	looked int64
	bytes  int64
}

// tidying is one run of Tidy.
type tidying struct {
	store *Store
	conn  *pgx.Conn
}

func (s *Store) tidy(ctx context.Context) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	t := tidying{store: s, conn: conn.Conn()}
	err = t.run(ctx)
	switch code := sqlState(err); {
	case errors.Is(err, errBusy), errors.Is(err, errNotEmpty), code == lockTimeout, code == noTable:
		// Another transaction has the lock or has dropped the partition, or another server has taken over: retry at the
		// next run.
		return nil
	}
	return err
}

// Codes for a lock that was not available in time and for a table that does not exist.
const lockTimeout, noTable = "55P03", "42P01"

func (t *tidying) run(ctx context.Context) error {
	if err := t.grow(ctx); err != nil {
		return err
	}
	parts, err := t.parts(ctx)
	if err != nil {
		return err
	}
	for len(parts) > 1 {
		one, err := t.choose(ctx, parts)
		if err != nil || one == nil {
			return err
		}
		if err := t.empty(ctx, one.n); err != nil {
			return err
		}
		if parts, err = t.parts(ctx); err != nil {
			return err
		}
	}
	return nil
}

// parts lists the partitions, the oldest first.
func (t *tidying) parts(ctx context.Context) ([]part, error) {
	rows, err := t.conn.Query(ctx, t.store.opts.in(
		`SELECT n, looked, coalesce(pg_total_relation_size(to_regclass('{schema}.batches_' || n)), 0) FROM {schema}.parts ORDER BY n`))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p part, err error) {
		err = row.Scan(&p.n, &p.looked, &p.bytes)
		return p, err
	})
}

// alone runs f in a transaction that excludes the tidying of other replicas. If another replica is tidying, f is not
// called.
func (t *tidying) alone(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, tidyTimeout)
	defer cancel()
	return pgx.BeginFunc(ctx, t.conn, func(tx pgx.Tx) error {
		// A statement that waits for a lock makes all later ones wait behind it.
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '500ms'`); err != nil {
			return err
		}
		var mine bool
		err := tx.QueryRow(ctx, t.store.opts.in(`SELECT pg_try_advisory_xact_lock({tidy})`)).Scan(&mine)
		if err != nil || !mine {
			return errors.Join(err, errBusy)
		}
		return f(ctx, tx)
	})
}

// errBusy means that another replica is tidying.
var errBusy = errors.New("another replica is at it")

// grow adds a partition if the last one is full.
func (t *tidying) grow(ctx context.Context) error {
	return t.alone(ctx, func(ctx context.Context, tx pgx.Tx) error {
		parts, err := t.parts(ctx)
		if err != nil {
			return err
		}
		if len(parts) == 0 {
			return fmt.Errorf("%w: no partitions", ErrNotOurs)
		}
		total := int64(0)
		for _, p := range parts {
			total += p.bytes
		}
		last := parts[len(parts)-1]
		if last.bytes < max(t.store.opts.PartBytes, total/partShare) {
			return nil
		}
		_, err = tx.Exec(ctx, t.store.opts.in(`SELECT {schema}.add_part($1, $2)`), last.n+1, now())
		return err
	})
}

// choose returns a closed partition to be emptied, or nil if there is none.
func (t *tidying) choose(ctx context.Context, parts []part) (*part, error) {
	ctx, cancel := context.WithTimeout(ctx, tidyTimeout)
	defer cancel()
	closed := parts[:len(parts)-1]
	smallest := &closed[0]
	for i := range closed {
		one := &closed[i]
		if one.bytes < smallest.bytes {
			smallest = one
		}
		if time.Since(fromNanos(one.looked)) < lookEvery {
			continue
		}
		var live int64
		err := t.conn.QueryRow(ctx, t.store.opts.in(fmt.Sprintf(`SELECT coalesce(sum(b.size), 0)::bigint
			FROM {schema}.batches_%d b JOIN {schema}.streams s ON s.id = b.stream WHERE b.last >= s.earliest`, one.n))).
			Scan(&live)
		if err != nil {
			return nil, err
		}
		if live <= one.bytes/liveShare {
			return one, nil
		}
		if _, err := t.conn.Exec(
			ctx, t.store.opts.in(`UPDATE {schema}.parts SET looked = $2 WHERE n = $1`), one.n, now(),
		); err != nil {
			return nil, err
		}
	}
	if len(parts) > mostParts {
		return smallest, nil
	}
	return nil, nil
}

// empty moves the rows that are still in a window to the last partition, in several transactions, and then drops the
// partition. The remaining rows cannot enter a window again: windows only move forward, and nothing is written to a
// closed partition.
func (t *tidying) empty(ctx context.Context, n int) error {
	move := t.store.opts.in(fmt.Sprintf(`WITH l AS MATERIALIZED (
			SELECT b.stream, b.last, b.piece FROM {schema}.batches_%[1]d b JOIN {schema}.streams s ON s.id = b.stream
			WHERE (b.stream, b.last, b.piece) > ($1, $2, $3) AND b.last >= s.earliest
			ORDER BY b.stream, b.last, b.piece LIMIT %[2]d
		), d AS (
			DELETE FROM {schema}.batches_%[1]d b USING l WHERE b.stream = l.stream AND b.last = l.last AND b.piece = l.piece
			RETURNING b.*
		), i AS (
			INSERT INTO {schema}.batches (stream, last, part, piece, count, size, crc, bytes)
			SELECT d.stream, d.last, (SELECT max(p.n) FROM {schema}.parts p), d.piece, d.count, d.size, d.crc, d.bytes FROM d
		)
		SELECT stream, last, piece FROM l ORDER BY stream DESC, last DESC, piece DESC LIMIT 1`, n, moveRows))
	var stream, last int64
	piece := -1
	for more := true; more; {
		err := t.alone(ctx, func(ctx context.Context, tx pgx.Tx) error {
			err := tx.QueryRow(ctx, move, stream, last, piece).Scan(&stream, &last, &piece)
			if errors.Is(err, pgx.ErrNoRows) {
				more = false
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return t.alone(ctx, func(ctx context.Context, tx pgx.Tx) error { return t.drop(ctx, tx, n) })
}

// errNotEmpty means that a partition cannot be dropped, although it was emptied.
var errNotEmpty = errors.New("the partition is not empty")

// drop drops a closed partition with no row in a window. Through a pooler the transactions that have emptied it may
// have been lost: another server, or the same one after a crash, has the rows there again, or takes appends there.
func (t *tidying) drop(ctx context.Context, tx pgx.Tx, n int) error {
	var unused bool
	err := tx.QueryRow(ctx, t.store.opts.in(fmt.Sprintf(`SELECT %[1]d < (SELECT max(p.n) FROM {schema}.parts p)
		AND NOT EXISTS (SELECT FROM {schema}.batches_%[1]d b JOIN {schema}.streams s ON s.id = b.stream
			WHERE b.last >= s.earliest)`, n))).Scan(&unused)
	if err != nil {
		return err
	}
	if !unused {
		return errNotEmpty
	}
	if _, err := tx.Exec(
		ctx, t.store.opts.in(fmt.Sprintf(`DROP TABLE IF EXISTS {schema}.batches_%d`, n)),
	); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, t.store.opts.in(`DELETE FROM {schema}.parts WHERE n = $1`), n)
	return err
}
