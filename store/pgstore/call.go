package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"reprise"
)

// errTimeout is the cause if the server does not answer within Options.Timeout.
var errTimeout = errors.New("no answer in time")

// bounded returns ctx with the timeout of one operation.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.opts.Timeout,
		fmt.Errorf("%w: %w: %v", reprise.ErrUnavailable, errTimeout, s.opts.Timeout))
}

// asked maps the error of an operation. ctx is the bounded context of the operation and caller is the context of its
// caller.
func asked(caller, ctx context.Context, err error) error {
	if err != nil && caller.Err() == nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return storeError(caller, err)
}

// takeRow receives each row of a result. The driver owns the values, so takeRow copies what it keeps.
type takeRow func(row [][]byte) error

// run executes a statement that is safe to execute twice: a lost connection is replaced once. For each attempt, begin
// returns the function that receives the rows.
func (s *Store) run(caller context.Context, sql string, p *params, begin func() takeRow) error {
	ctx, cancel := s.bounded(caller)
	defer cancel()
	err := s.try(ctx, sql, p, begin())
	if err != nil && ctx.Err() == nil && (s.lost(err) || undone(err)) {
		err = s.try(ctx, sql, p, begin())
	}
	return asked(caller, ctx, err)
}

// lost reports whether err means a lost connection. The other idle connections of the pool are then probably lost too,
// and are not tried one by one.
func (s *Store) lost(err error) bool {
	if _, connecting := errors.AsType[*pgconn.ConnectError](err); connecting {
		return false
	}
	switch code := sqlState(err); code {
	case "":
		if errors.Is(err, ErrDamaged) || errors.Is(err, reprise.ErrInvalid) {
			return false
		}
	// admin_shutdown, crash_shutdown and connection_failure; not the primary, from a write or from a query of its WAL
	case "57P01", "57P02", "08006", "25006", "55000":
	default:
		return false
	}
	s.pool.Reset()
	return true
}

func (s *Store) try(ctx context.Context, sql string, p *params, take takeRow) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return drain(conn.Conn().PgConn().ExecParams(ctx, sql, p.values, p.oids, binaryFormat, binaryFormat), take)
}

// send adds statements to a pipeline, followed by the end of their transaction.
//
// Statements are not prepared: a pooler may give each transaction another connection, and preparing brings no
// measurable gain, because the expensive work is in functions, whose plans the server caches.
func send(pipe *pgconn.Pipeline, statements ...statement) {
	for _, st := range statements {
		pipe.SendQueryParams(st.sql, st.p.values, st.p.oids, binaryFormat, binaryFormat)
	}
	pipe.SendPipelineSync()
}

// drain passes the available rows to take and finishes the reading, even if take returns an error.
func drain(rows *pgconn.ResultReader, take takeRow) error {
	var taken error
	for rows.NextRow() {
		if take != nil && taken == nil {
			taken = take(rows.Values())
		}
	}
	if _, err := rows.Close(); err != nil {
		return err
	}
	return taken
}

// statement is a statement of a transaction. take, if not nil, receives its rows.
type statement struct {
	sql  string
	p    *params
	take takeRow
}

// commit executes statements in a transaction of their own and then notifies others of the streams with the given
// hashes, in one round trip. The notification is a separate transaction, because a notification in the same one would
// make all notifying commits of the server wait for each other's sync. A lost notification does no harm: a server that
// stops also closes the listening connections.
//
// After the timeout the caller returns, but the statements are not cancelled: cancelling a commit that waits for a
// standby would make it visible to readers at that moment. take may be called after that, so the caller must not read
// its results.
func (s *Store) commit(caller context.Context, hashes hashList, statements ...statement) error {
	ctx, cancel := s.bounded(caller)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return asked(caller, ctx, err)
	}
	done := make(chan error, 1)
	s.background.Go(func() { s.exchange(conn, hashes, statements, done) })
	select {
	case err = <-done:
		if err != nil {
			s.lost(err)
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	return asked(caller, ctx, err)
}

// exchange does the work for which commit waits, and then returns the connection to the pool. It ends when the server
// has answered, when the Store is closed, or when its timeout, at least longCommit, has passed.
func (s *Store) exchange(conn *pgxpool.Conn, hashes hashList, statements []statement, done chan<- error) {
	ctx, cancel := context.WithTimeout(s.life, max(longCommit, 2*s.opts.Timeout))
	defer cancel()
	pipe := conn.Conn().PgConn().StartPipeline(ctx)
	send(pipe, statements...)
	if !s.opts.NoNotify && len(hashes) > 0 {
		send(pipe, statement{sql: s.sql.notify, p: s.notification(hashes)})
	}
	done <- errors.Join(pipe.Flush(), first(pipe, statements))
	// Nothing depends on the answer to the notification, and a stalled server must not delay Close.
	stop := time.AfterFunc(time.Second, cancel)
	defer stop.Stop()
	_ = pipe.Close()
	conn.Release()
}

// longCommit is the least timeout of a commit whose caller has returned.
const longCommit = 5 * time.Minute

// first reads the results of the statements of the first transaction. They are valid only once it has committed, which
// the answer to the sync shows.
func first(pipe *pgconn.Pipeline, statements []statement) error {
	var taken error
	place := 0
	for {
		result, err := pipe.GetResults()
		switch result := result.(type) {
		case *pgconn.ResultReader:
			if err == nil {
				err = drain(result, statements[place].take)
				place++
			}
		case *pgconn.PipelineSync:
			return errors.Join(taken, err)
		case nil:
			if err == nil {
				return errors.Join(taken, errors.New("the connection has ended"))
			}
		}
		if err != nil {
			taken = err
			if sqlState(err) == "" {
				return taken
			}
		}
	}
}
