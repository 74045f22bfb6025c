package pgstore_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/pgstore"
	"reprise/store/storetest"
)

func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, open, nil) }

// durable is a server that syncs each commit to the disk, as PostgreSQL does by default.
func durable(b *testing.B) *testserver.PostgresServer {
	return testserver.Postgres(b,
		&testserver.PostgresOptions{Config: []string{"max_wal_size = 4GB", "checkpoint_timeout = 1h"}})
}

func openLog(b *testing.B, url string) (*reprise.Log, *pgstore.Store) {
	b.Helper()
	s, err := pgstore.Open(b.Context(), url, nil)
	if err != nil {
		b.Fatal(err)
	}
	log, err := reprise.Open(b.Context(), s, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := log.Close(); err != nil {
			b.Error(err)
		}
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return log, s
}

var event = reprise.Event{Type: "note", Data: bytes.Repeat([]byte("x"), 200)}

// BenchmarkDurable is events of 200 bytes that are acknowledged when they are on the disk: from 100 appenders that
// each wait for their events, to as many streams, and what PostgreSQL does itself with the same
// events, a row each, in one COPY.
func BenchmarkDurable(b *testing.B) {
	url := durable(b).URL()
	for _, streams := range []int{1, 100} {
		for _, batch := range []int{1, 100} {
			b.Run(fmt.Sprintf("store=postgres/appenders=100/streams=%d/batch=%d", streams, batch), func(b *testing.B) {
				log, _ := openLog(b, url)
				appendAll(b, log, 100, streams, batch)
			})
		}
	}
	b.Run("limit=copy", func(b *testing.B) {
		sql(b, url, `DROP TABLE IF EXISTS bare`, `CREATE TABLE bare (id bigint, data bytea)`)
		conn, err := pgx.Connect(b.Context(), url)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close(context.Background())
		n := 0
		b.ResetTimer()
		rows := pgx.CopyFromFunc(func() ([]any, error) {
			if n++; n > b.N {
				return nil, nil
			}
			return []any{int64(n), event.Data}, nil
		})
		if _, err = conn.CopyFrom(b.Context(), pgx.Identifier{"bare"}, []string{"id", "data"}, rows); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	})
}

// appendAll has the appenders append b.N events between them.
func appendAll(b *testing.B, log *reprise.Log, appenders, streams, batch int) {
	handles := make([]*reprise.Stream, streams)
	for i := range handles {
		key := reprise.StreamKey{Tenant: "bench", Name: fmt.Sprintf("%s/%d", rand.Text(), i)}
		st, _, err := log.Create(b.Context(), key, reprise.StreamConfig{})
		if err != nil {
			b.Fatal(err)
		}
		handles[i] = st
	}
	events := make([]reprise.Event, batch)
	for i := range events {
		events[i] = event
	}
	var left atomic.Int64
	var wg sync.WaitGroup
	left.Store(int64(b.N))
	b.ResetTimer()
	for a := range appenders {
		wg.Go(func() {
			for left.Add(-int64(batch)) > -int64(batch) {
				if _, err := handles[a%streams].Append(b.Context(), events...); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkReplay reads 100,000 events of 200 bytes that 100 appenders have written, and the same a row each.
func BenchmarkReplay(b *testing.B) {
	const events = 100_000
	url := durable(b).URL()
	b.Run("store=postgres", func(b *testing.B) {
		log, s := openLog(b, url)
		config := reprise.StreamConfig{Retention: reprise.Retention{MaxEvents: events, MaxBytes: 1 << 30}}
		st, _, err := log.Create(b.Context(), reprise.StreamKey{Tenant: "bench", Name: "long"}, config)
		check(b, err)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				for range events / 100 {
					if _, err := st.Append(b.Context(), event); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wg.Wait()
		b.ResetTimer()
		for b.Loop() {
			n := 0
			for after := uint64(0); ; {
				page, err := s.Read(b.Context(), st.Key(), after, 256<<10)
				check(b, err)
				if len(page.Batches) == 0 {
					break
				}
				for _, batch := range page.Batches {
					n += batch.Count
				}
				after = page.Batches[len(page.Batches)-1].Last()
			}
			if n != events {
				b.Fatal(n)
			}
		}
		b.ReportMetric(events*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	})
	b.Run("limit=rows", func(b *testing.B) {
		sql(b, url, `CREATE TABLE IF NOT EXISTS rows (id bigint PRIMARY KEY, data bytea)`, `TRUNCATE rows`,
			fmt.Sprintf(`INSERT INTO rows SELECT n, repeat('x', 200)::bytea FROM generate_series(1, %d) n`,
				events), `VACUUM ANALYZE rows`)
		conn, err := pgx.Connect(b.Context(), url)
		check(b, err)
		defer conn.Close(context.Background())
		b.ResetTimer()
		for b.Loop() {
			rows, err := conn.Query(b.Context(), `SELECT id, data FROM rows ORDER BY id`)
			check(b, err)
			n := 0
			for rows.Next() {
				var id int64
				var data []byte
				check(b, rows.Scan(&id, &data))
				n++
			}
			check(b, rows.Err())
			if n != events {
				b.Fatal(n)
			}
		}
		b.ReportMetric(events*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	})
}

// BenchmarkWake is the time from the call of Append on one replica to the call of moved on another one, and
// that from NOTIFY on a connection to its arrival on another one.
func BenchmarkWake(b *testing.B) {
	url := durable(b).URL()
	b.Run("store=postgres", func(b *testing.B) {
		s, other := mustOpen(b, url, nil), mustOpen(b, url, nil)
		req := create(b, s, fmt.Sprint("s", rand.Text()))
		moved := make(chan struct{}, 1)
		stop, err := other.Watch(req.Key, func() {
			select {
			case moved <- struct{}{}:
			default:
			}
		})
		check(b, err)
		defer stop()
		<-moved
		for b.Loop() {
			put(b, s, &req, 200, 1000)
			<-moved
		}
	})
	b.Run("limit=notify", func(b *testing.B) {
		arrived := make(chan struct{}, 1)
		config, err := pgx.ParseConfig(url)
		check(b, err)
		config.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) { arrived <- struct{}{} }
		hears, err := pgx.ConnectConfig(b.Context(), config)
		check(b, err)
		defer hears.Close(context.Background())
		_, err = hears.Exec(b.Context(), `LISTEN c`)
		check(b, err)
		says, err := pgx.Connect(b.Context(), url)
		check(b, err)
		defer says.Close(context.Background())
		for b.Loop() {
			_, err := says.Exec(b.Context(), `SELECT pg_notify('c', 'x')`)
			check(b, err)
			check(b, hears.PgConn().WaitForNotification(b.Context()))
			<-arrived
		}
	})
	b.Run("limit=row-and-notify", func(b *testing.B) {
		sql(b, url, `CREATE TABLE IF NOT EXISTS one (a int)`)
		hears, err := pgx.Connect(b.Context(), url)
		check(b, err)
		defer hears.Close(context.Background())
		_, err = hears.Exec(b.Context(), `LISTEN d`)
		check(b, err)
		says, err := pgx.Connect(b.Context(), url)
		check(b, err)
		defer says.Close(context.Background())
		for b.Loop() {
			_, err := says.Exec(b.Context(), `WITH i AS (INSERT INTO one VALUES (1)) SELECT pg_notify('d', 'x')`)
			check(b, err)
			check(b, hears.PgConn().WaitForNotification(b.Context()))
		}
	})
}
