package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"reprise/internal/backoff"
)

const (
	// The first and the longest pause before a lost connection is replaced.
	reconnectFirst, reconnectMost = 20 * time.Millisecond, time.Second
	// silence is the time without a notification after which the connection is probed.
	silence = 10 * time.Second
	// probeWait is the time in which this store's own notification must come back.
	probeWait = 2 * time.Second
	// probeAgain is the pause before a failed probe is repeated.
	probeAgain = time.Minute
)

// errDeaf means that notifications do not arrive over a connection that otherwise works.
var errDeaf = errors.New("notifications do not arrive: a pooler gives each transaction another connection? " +
	"Name a direct one by the parameter listen; until then watched streams are polled")

// watchLoop maintains the listening connection until the Store is closed.
func (s *Store) watchLoop(config *pgx.ConnConfig) {
	s.background.Go(s.pollLoop)
	if s.opts.NoNotify {
		return
	}
	config.ConnectTimeout = s.opts.Timeout
	wait, told := backoff.Backoff{First: reconnectFirst, Most: reconnectMost}, false
	for s.life.Err() == nil {
		err := s.listen(config, func() {
			wait.Reset()
			told = false
		})
		if s.life.Err() != nil {
			return
		}
		s.watches.listening.Store(false)
		pause := wait.Next()
		if errors.Is(err, errDeaf) {
			pause = probeAgain
		}
		if !told { // once for each loss
			s.opts.Logger.Warn("notifications of other replicas are interrupted", "error", err)
			told = true
		}
		_ = backoff.Sleep(s.life, pause)
	}
}

// listen connects and passes on notifications until the connection is lost. It calls up when notifications can arrive.
func (s *Store) listen(config *pgx.ConnConfig, up func()) error {
	ctx, cancel := context.WithTimeout(s.life, s.opts.Timeout)
	defer cancel()
	config = config.Copy()
	config.RuntimeParams["application_name"] += " listens"
	config.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { s.watches.told(n.Payload, s.name) }
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	pg := conn.PgConn()
	if _, err := pg.Exec(ctx, "LISTEN "+pgx.Identifier{s.channel()}.Sanitize()).ReadAll(); err != nil {
		return err
	}
	if err := s.probe(ctx, pg); err != nil {
		return err
	}
	up()
	s.watches.listening.Store(true)
	s.watches.all() // changes before now were not notified
	s.opts.Logger.Info("notifications of other replicas are received")
	for {
		if err := s.hear(pg); err != nil {
			return err
		}
	}
}

// hear waits for the next notification. After a silence it verifies that the connection still works.
func (s *Store) hear(pg *pgconn.PgConn) error {
	ctx, cancel := context.WithTimeout(s.life, silence)
	err := pg.WaitForNotification(ctx)
	cancel()
	if err == nil || s.life.Err() != nil || !pgconn.Timeout(err) {
		return err
	}
	ctx, cancel = context.WithTimeout(s.life, s.opts.Timeout)
	defer cancel()
	return pg.Ping(ctx)
}

// probe tests whether notifications arrive. They do over a direct connection to the server. A pooler, which reports a
// process id of its own, may swallow them.
func (s *Store) probe(ctx context.Context, pg *pgconn.PgConn) error {
	result := pg.ExecParams(ctx, "SELECT pg_backend_pid()", nil, nil, nil, binaryFormat).Read()
	if result.Err != nil {
		return result.Err
	}
	if len(result.Rows) == 1 && uint32(int4Of(result.Rows[0][0])) == pg.PID() {
		return nil
	}
	// A notification of any replica counts; this replica's own must arrive.
	if err := s.run(ctx, s.sql.notify, s.notification(nil), func() takeRow { return nil }); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	err := pg.WaitForNotification(wait)
	if err != nil && wait.Err() != nil && ctx.Err() == nil {
		return errDeaf
	}
	return err
}
