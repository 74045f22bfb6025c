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
	// The spans of the first and of the longest pause before a lost connection is made again.
	reconnectFirst, reconnectMost = 20 * time.Millisecond, time.Second
	// silence is after what time without a notification the connection is asked whether it is still there.
	silence = 10 * time.Second
	// probeWait is how long our own notification may take to come back.
	probeWait = 2 * time.Second
	// probeAgain is after what time one that did not come back is tried again.
	probeAgain = time.Minute
)

// errDeaf says that notifications do not arrive over a connection that works.
var errDeaf = errors.New("notifications do not arrive: a pooler gives each transaction another connection? " +
	"Name a direct one by the parameter listen; until then watched streams are polled")

// watchLoop keeps the connection that listens, until the Store is closed.
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
		if !told { // once for each time that it is lost
			s.opts.Logger.Warn("not notified of what other replicas do", "error", err)
			told = true
		}
		_ = backoff.Sleep(s.life, pause)
	}
}

// listen connects and hands over notifications until the connection is lost. It calls up when they can be seen.
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
	s.watches.all() // what happened meanwhile was not told
	s.opts.Logger.Info("notified of what other replicas do")
	for {
		if err := s.hear(pg); err != nil {
			return err
		}
	}
}

// hear waits for the next notification, or looks after a silence whether the connection is still there.
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

// probe finds out whether notifications arrive. Over a connection to the server itself they do; a
// pooler, which has made up a process id of its own, may keep them.
func (s *Store) probe(ctx context.Context, pg *pgconn.PgConn) error {
	result := pg.ExecParams(ctx, "SELECT pg_backend_pid()", nil, nil, nil, binaryFormat).Read()
	if result.Err != nil {
		return result.Err
	}
	if len(result.Rows) == 1 && uint32(int4Of(result.Rows[0][0])) == pg.PID() {
		return nil
	}
	// Anybody's notification is an answer, our own comes in any case.
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
