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

// errTimeout is the cause where the server has not answered within Options.Timeout.
var errTimeout = errors.New("no answer in time")

// bounded is ctx with the bound of time of one operation.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.opts.Timeout,
		fmt.Errorf("%w: %w: %v", reprise.ErrUnavailable, errTimeout, s.opts.Timeout))
}

// asked is the error of an operation whose bounded context is ctx and whose caller's is caller.
func asked(caller, ctx context.Context, err error) error {
	if err != nil && caller.Err() == nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return storeError(caller, err)
}

// takeRow is handed each row of a result. The values belong to the driver: it copies what it keeps.
type takeRow func(row [][]byte) error

// run carries out a statement that may be carried out twice: a connection that turns out to be lost is replaced
// once. Each time the rows go to what begin returns.
func (s *Store) run(caller context.Context, sql string, p *params, begin func() takeRow) error {
	ctx, cancel := s.bounded(caller)
	defer cancel()
	err := s.try(ctx, sql, p, begin())
	if err != nil && ctx.Err() == nil && (s.lost(err) || undone(err)) {
		err = s.try(ctx, sql, p, begin())
	}
	return asked(caller, ctx, err)
}

// lost reports whether the connection was. Then the others that wait in the pool have most likely gone with it, and are
// not tried one after the other.
func (s *Store) lost(err error) bool {
	if _, connecting := errors.AsType[*pgconn.ConnectError](err); connecting {
		return false
	}
	switch code := sqlState(err); code {
	case "":
		if errors.Is(err, ErrDamaged) || errors.Is(err, reprise.ErrInvalid) {
			return false
		}
	// admin_shutdown, crash_shutdown, connection_failure; not the primary: of a write, and of a question to its log
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

// send puts a statement into a pipeline, and the end of its transaction behind it.
//
// No statement has a name: a pooler may give each transaction another connection, and a prepared one saves nothing
// that could be measured, since what takes time lies in functions, whose plans the server keeps.
func send(pipe *pgconn.Pipeline, sql string, p *params) {
	pipe.SendQueryParams(sql, p.values, p.oids, binaryFormat, binaryFormat)
	pipe.SendPipelineSync()
}

// drain hands over the rows that there are and ends the reading, whatever take says.
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

// commit carries out a statement in a transaction of its own and then tells others about the streams with
// the hashes, both in one round trip. The notification is a transaction of its own, since one in the same would
// make all commits of the server that notify wait for each other's sync. It is nobody's
// loss if that never comes: a server that ends takes the listening connections with it.
//
// When the time is over the caller goes, but the statement is not cancelled: a commit that waits for a standby
// would be shown to readers at that moment. Then take may still be called; the caller must not look at what it does.
func (s *Store) commit(caller context.Context, sql string, p *params, hashes hashList, take takeRow) error {
	ctx, cancel := s.bounded(caller)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return asked(caller, ctx, err)
	}
	done := make(chan error, 1)
	s.background.Go(func() { s.exchange(conn, sql, p, hashes, take, done) })
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

// exchange is what commit waits for. It goes on until the server has answered, the Store is closed, or something is
// wrong with the server for very long, and gives the connection back.
func (s *Store) exchange(conn *pgxpool.Conn, sql string, p *params, hashes hashList, take takeRow, done chan<- error) {
	ctx, cancel := context.WithTimeout(s.life, max(longCommit, 2*s.opts.Timeout))
	defer cancel()
	pipe := conn.Conn().PgConn().StartPipeline(ctx)
	send(pipe, sql, p)
	if !s.opts.NoNotify && len(hashes) > 0 {
		send(pipe, s.sql.notify, s.notification(hashes))
	}
	done <- errors.Join(pipe.Flush(), first(pipe, take))
	// Nobody waits for the answer to the notification; a server that stands still must not hold up Close.
	stop := time.AfterFunc(time.Second, cancel)
	defer stop.Stop()
	_ = pipe.Close()
	conn.Release()
}

// longCommit is after what time a commit is given up for which nobody has waited for long.
const longCommit = 5 * time.Minute

// first reads the results of the first statement. They count only once its transaction has ended, which is what
// the answer to the sync says.
func first(pipe *pgconn.Pipeline, take takeRow) error {
	var taken error
	for {
		result, err := pipe.GetResults()
		switch result := result.(type) {
		case *pgconn.ResultReader:
			if err == nil {
				err = drain(result, take)
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
