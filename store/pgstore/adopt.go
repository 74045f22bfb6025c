package pgstore

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"reprise"
)

const adoptStatement = `SELECT * FROM {schema}.adopt($1, $2, $3, $4, $5)`

// errForeign means that the last append to a stream was made on another server, or on this one before it was restored
// from a backup. Append, Read and Create detect it and adopt the stream.
var errForeign = errors.New("the events of another server")

// claim is a stream to be adopted by this server.
type claim struct {
	key   reprise.StreamKey
	epoch reprise.Epoch
	// next is the seq after the newest event that is known.
	next uint64
}

// adopted adopts the streams of the requests whose error is errForeign, and repeats those requests. If events may have
// been lost, the stream moves to another epoch and the request gets ErrNotFound.
func (s *Store) adopted(ctx context.Context, reqs []reprise.AppendRequest, errs []error) []error {
	var places []int
	var foreign []reprise.AppendRequest
	var claims []claim
	for i := range reqs {
		if errs[i] == errForeign { //nolint:errorlint // ours, never wrapped
			places, foreign = append(places, i), append(foreign, reqs[i])
			claims = append(claims, claim{reqs[i].Key, reqs[i].Epoch, reqs[i].First})
		}
	}
	var again []error
	if err := s.adopt(ctx, claims); err != nil {
		again = slices.Repeat([]error{err}, len(foreign))
	} else {
		again = s.append(ctx, foreign)
	}
	for i, place := range places {
		errs[place] = nil
		if again != nil {
			errs[place] = again[i]
		}
	}
	if !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return nil
	}
	return errs
}

// adopt decides which streams keep their epoch and which move to another one; see the SQL function adopt.
func (s *Store) adopt(ctx context.Context, claims []claim) error {
	// All replicas lock the rows of streams in the order of their names.
	slices.SortFunc(claims, func(a, b claim) int { return compareKeys(a.key, b.key) })
	n := len(claims)
	hashes := make(hashList, n)
	fresh := make([]string, n)
	for i := range claims {
		hashes[i], fresh[i] = hashOf(claims[i].key), string(reprise.NewEpoch())
	}
	p := new(params).bool(s.opts.FailoverKeeps)
	p.texts(n, func(i int) string { return claims[i].key.String() })
	p.texts(n, func(i int) string { return string(claims[i].epoch) })
	p.int8s(n, func(i int) int64 { return bigint(claims[i].next) })
	p.texts(n, func(i int) string { return fresh[i] })
	var renewed []string
	err := s.commit(ctx, hashes, statement{s.sql.adopt, p, func(row [][]byte) error {
		if i := int(int4Of(row[0])) - 1; i >= 0 && i < n && string(row[1]) != string(claims[i].epoch) {
			renewed = append(renewed, claims[i].key.String())
		}
		return nil
	}})
	if err == nil && len(renewed) > 0 {
		s.renewals.log(ctx, s.opts.Logger, renewed)
	}
	return err
}

// renewals counts streams that continue under another epoch, so that one log line reports many.
type renewals struct {
	mu     sync.Mutex
	count  int
	logged time.Time
}

// renewalsEvery is the interval at which such streams are logged. After a failover each stream is detected when it is
// first used.
const renewalsEvery = 10 * time.Second

func (r *renewals) log(ctx context.Context, logger *slog.Logger, names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count += len(names)
	if time.Since(r.logged) < renewalsEvery {
		return
	}
	logger.WarnContext(ctx, "another server has taken over, and may lack events: streams go on under another epoch",
		"streams", r.count, "one", names[0])
	r.count, r.logged = 0, time.Now()
}

// recognize detects tables that were copied from another server, for example by a dump. All streams are then foreign. A
// promotion or a recovery needs no detection, because it changes the server's timeline.
func (s *Store) recognize(ctx context.Context, conn *pgx.Conn) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, s.opts.in(`SELECT pg_advisory_xact_lock({tidy})`)); err != nil {
			return err
		}
		var here, origin int64
		err := tx.QueryRow(ctx, s.opts.in(`SELECT c.system_identifier, coalesce(o.system, 0)
			FROM pg_control_system() c LEFT JOIN {schema}.origin o ON true`)).Scan(&here, &origin)
		if err != nil || here == origin {
			return err
		}
		if origin != 0 {
			s.opts.Logger.WarnContext(ctx, "the tables come from another server, which may have had more events")
			if _, err := tx.Exec(ctx, s.opts.in(`UPDATE {schema}.streams SET line = 0`)); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx,
			s.opts.in(`WITH gone AS (DELETE FROM {schema}.origin) INSERT INTO {schema}.origin VALUES ($1)`), here)
		return err
	})
}
