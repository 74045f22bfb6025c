package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// dialPostgres makes a connection and runs statements on it.
func dialPostgres(ctx context.Context, server string, statements ...string) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return nil, err
	}
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return nil, errors.Join(err, closePostgres(conn))
		}
	}
	return conn, nil
}

// closePostgres closes a connection, whatever has become of the context it was made with.
func closePostgres(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return conn.Close(ctx)
}

// copyRows copies so many events into a table, a row each.
func copyRows(ctx context.Context, conn *pgx.Conn, table string, events int) error {
	payload := newPayload()
	n := 0
	_, err := conn.CopyFrom(ctx, pgx.Identifier{table}, []string{"id", "data"}, pgx.CopyFromFunc(func() ([]any, error) {
		if n == events {
			return nil, nil
		}
		n++
		return []any{int64(n), payload}, nil
	}))
	return err
}

// postgresCopy copies rows into a table without an index, in so many transactions of so many rows.
func postgresCopy(table string, commits, rows int) func(context.Context, Scale, string) (Runner, error) {
	return func(ctx context.Context, scale Scale, server string) (Runner, error) {
		conn, err := dialPostgres(ctx, server, `CREATE TABLE `+table+` (id bigint, data bytea)`)
		if err != nil {
			return nil, err
		}
		commits, rows := scale.Of(commits, min(commits, 10)), scale.Of(rows, min(rows, 2000))
		return closing{func(ctx context.Context) (Sample, error) {
			start := time.Now()
			for range commits {
				if err := copyRows(ctx, conn, table, rows); err != nil {
					return nil, err
				}
			}
			took, n := time.Since(start).Seconds(), float64(commits*rows)
			_, err := conn.Exec(ctx, `TRUNCATE `+table)
			return Sample{"events/s": n / took, "us/event": took * 1e6 / n}, err
		}, func() error { return closePostgres(conn) }}, nil
	}
}

// postgresSelect reads rows of one event each, by their index.
func postgresSelect(ctx context.Context, scale Scale, server string) (Runner, error) {
	conn, err := dialPostgres(ctx, server, `CREATE TABLE rows (id bigint PRIMARY KEY, data bytea)`)
	if err != nil {
		return nil, err
	}
	events := engineHistory(scale)
	err = copyRows(ctx, conn, "rows", events)
	if err == nil {
		_, err = conn.Exec(ctx, `VACUUM ANALYZE rows`)
	}
	if err != nil {
		return nil, errors.Join(err, closePostgres(conn))
	}
	return closing{replayLap(events, func(ctx context.Context) (n int, err error) {
		rows, err := conn.Query(ctx, `SELECT id, data FROM rows ORDER BY id`)
		if err != nil {
			return 0, err
		}
		defer rows.Close()
		for rows.Next() {
			var id int64
			var data []byte
			if err := rows.Scan(&id, &data); err != nil {
				return n, err
			}
			n++
		}
		return n, rows.Err()
	}), func() error { return closePostgres(conn) }}, nil
}

// postgresWake commits a row and a notification to another connection.
func postgresWake(ctx context.Context, scale Scale, server string) (Runner, error) {
	says, err := dialPostgres(ctx, server, `CREATE TABLE woken (data bytea)`)
	if err != nil {
		return nil, err
	}
	hears, err := dialPostgres(ctx, server, `LISTEN wake`)
	if err != nil {
		return nil, errors.Join(err, closePostgres(says))
	}
	listening, stop := context.WithCancel(context.Background())
	heard, ended := make(chan time.Time, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := hears.WaitForNotification(listening); err != nil {
				return
			}
			heard <- time.Now()
		}
	}()
	payload := newPayload()
	return closing{wakeLap(scale, heard, func(ctx context.Context) (time.Time, error) {
		_, err := says.Exec(ctx, `WITH i AS (INSERT INTO woken VALUES ($1)) SELECT pg_notify('wake', 'x')`, payload)
		if err != nil {
			return time.Time{}, fmt.Errorf("notify: %w", err)
		}
		return time.Time{}, nil
	}), func() error {
		stop()
		<-ended
		return errors.Join(closePostgres(hears), closePostgres(says))
	}}, nil
}
