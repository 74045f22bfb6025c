package pgstore

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"reprise"
)

const adoptStatement = `SELECT * FROM {schema}.adopt($1, $2, $3, $4, $5)`

// errForeign says that the last append to a stream was to another server, or to this one before it was recovered from a
// backup.
var errForeign = errors.New("the events of another server")

// adopted makes the streams of the requests whose error is errForeign those of this server, and appends to them anew.
// Where events may have been lost they have another epoch then, and the request is refused with ErrNotFound.
func (s *Store) adopted(ctx context.Context, reqs []reprise.AppendRequest, errs []error) []error {
	var places []int
	var foreign []reprise.AppendRequest
	for i := range reqs {
		if errs[i] == errForeign { //nolint:errorlint // ours, never wrapped
			places, foreign = append(places, i), append(foreign, reqs[i])
		}
	}
	var again []error
	if err := s.adopt(ctx, foreign); err != nil {
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

// adopt decides which streams go on and which begin another epoch; see the function adopt.
func (s *Store) adopt(ctx context.Context, foreign []reprise.AppendRequest) error {
	c := newCommit(foreign)
	n := len(foreign)
	keeps := byte(0)
	if s.opts.FailoverKeeps {
		keeps = 1
	}
	p := new(params).add(oidBool, []byte{keeps})
	p.texts(n, func(i int) string { return c.at(i).Key.String() })
	p.texts(n, func(i int) string { return string(c.at(i).Epoch) })
	p.int8s(n, func(i int) int64 { return bigint(c.at(i).First) })
	fresh := make([]string, n)
	for i := range fresh {
		fresh[i] = string(reprise.NewEpoch())
	}
	p.texts(n, func(i int) string { return fresh[i] })
	var lost []string
	err := s.commit(ctx, s.sql.adopt, p, c.hashes(), func(row [][]byte) error {
		if i := int(int4Of(row[0])) - 1; i >= 0 && i < n && string(row[1]) != string(c.at(i).Epoch) {
			lost = append(lost, c.at(i).Key.String())
		}
		return nil
	})
	if err == nil && len(lost) > 0 {
		s.opts.Logger.ErrorContext(ctx, "another server has taken over, and may lack events: streams go on under another epoch",
			"streams", len(lost), "first", lost[0])
	}
	return err
}

// recognize finds out whether the tables were copied from another server, by a dump for example. Then all
// streams are foreign. That the server was promoted or recovered needs no look: its timeline says so.
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
		_, err = tx.Exec(ctx, s.opts.in(`WITH gone AS (DELETE FROM {schema}.origin) INSERT INTO {schema}.origin VALUES ($1)`), here)
		return err
	})
}
