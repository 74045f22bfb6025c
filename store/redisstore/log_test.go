package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/internal/testserver"
)

func openLog(tb testing.TB, url string) *reprise.Log {
	tb.Helper()
	log, err := reprise.Open(tb.Context(), mustOpen(tb, url, nil), nil)
	must(tb, err)
	tb.Cleanup(func() { must(tb, log.Close()) })
	return log
}

// Two replicas append to one stream while the server is killed and started again. Readers of both get each event once
// and in the same order, and none that was not acknowledged is doubled.
func TestTwoLogsOverRestarts(t *testing.T) {
	const events = 300
	server := testserver.Redis(t, nil)
	logs := []*reprise.Log{openLog(t, server.URL()+"?timeout=2s"), openLog(t, server.URL()+"?timeout=2s")}
	if !logs[0].Shared() {
		t.Fatal("a Log on Redis is not shared")
	}
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var appended atomic.Int64
	var wg sync.WaitGroup
	seen := make([][]string, len(logs))
	for i, log := range logs {
		stream, _, err := log.Create(ctx, key, reprise.StreamConfig{})
		must(t, err)
		reader, err := stream.Reader(ctx, reprise.Earliest())
		must(t, err)
		wg.Go(func() {
			defer reader.Close()
			for len(seen[i]) < events*len(logs) {
				run, err := reader.Next(ctx)
				if err != nil && !isUnavailable(err) {
					t.Errorf("reader of %d after %d events: %v", i, len(seen[i]), err)
					return
				}
				if err != nil { // the server is away: the reader stays where it is
					time.Sleep(5 * time.Millisecond)
					continue
				}
				for event := range run.All() {
					seen[i] = append(seen[i], string(event.Data))
				}
			}
		})
		wg.Go(func() {
			producer := reprise.ProducerID{ID: fmt.Sprint("p", i)}
			for n := range events {
				producer.Seq = uint64(n)
				event := reprise.Event{Data: fmt.Appendf(nil, "%d/%d", i, n)}
				for {
					_, err := stream.AppendWith(ctx, reprise.AppendOptions{Producer: &producer}, event)
					if err == nil {
						break
					}
					if !errors.Is(err, reprise.ErrUnavailable) {
						t.Errorf("append %d of %d: %v", n, i, err)
						return
					}
					time.Sleep(5 * time.Millisecond)
				}
				appended.Add(1)
			}
		})
	}
	for _, after := range []int64{100, 300, 500} {
		until(t, "appends go on", func() bool { return appended.Load() >= after || ctx.Err() != nil })
		must(t, server.Kill())
		must(t, server.Start())
	}
	wg.Wait()
	once := map[string]int{}
	for n, data := range seen[0] {
		if once[data]++; once[data] > 1 || n >= len(seen[1]) || seen[1][n] != data {
			t.Fatalf("event %d, %q, is there %d times, or is another one for the other replica", n+1, data, once[data])
		}
	}
	if len(seen[0]) != events*len(logs) || len(seen[1]) != len(seen[0]) {
		t.Errorf("read %d and %d events, want %d", len(seen[0]), len(seen[1]), events*len(logs))
	}
}

// Readers that were shown events which a failover has taken back are told so, and new ones go on under another epoch.
func TestLogAfterLostEvents(t *testing.T) {
	primary, replica := testserver.Redis(t, nil), testserver.Redis(t, nil)
	between := newProxy(t, primary.Addr())
	follow(t, replica, between.listener.Addr().String())
	p := newProxy(t, primary.Addr())
	log := openLog(t, p.url(primary.URL()))
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "s"}
	stream, _, err := log.Create(t.Context(), key, reprise.StreamConfig{})
	must(t, err)
	add := func(stream *reprise.Stream) error {
		_, err := stream.Append(t.Context(), reprise.Event{Data: []byte("event")})
		return err
	}
	for range 10 {
		must(t, add(stream))
	}
	until(t, "the replica has all", func() bool {
		return field(command(t, replica, "INFO", "replication"), "slave_repl_offset") ==
			field(command(t, primary, "INFO", "replication"), "master_repl_offset")
	})
	between.redirect("127.0.0.1:1")
	for range 5 {
		must(t, add(stream))
	}
	reader, err := stream.Reader(t.Context(), reprise.Tail())
	must(t, err)
	defer reader.Close()
	old := reader.Cursor()
	must(t, primary.Kill())
	command(t, replica, "REPLICAOF", "NO", "ONE")
	p.redirect(replica.Addr())

	var again *reprise.Stream
	until(t, "appends go on", func() bool {
		if again, _, err = log.Create(t.Context(), key, reprise.StreamConfig{}); err != nil {
			return false
		}
		return add(again) == nil
	})
	info, err := again.Info(t.Context())
	must(t, err)
	if info.Epoch == old.Epoch || info.Tail != 11 {
		t.Errorf("the stream goes on as %+v", info)
	}
	if _, err = reader.Next(t.Context()); err == nil {
		t.Error("a reader who was shown lost events was not told")
	}
	t.Log("the reader is told:", err)
	_, err = again.Reader(t.Context(), reprise.After(old))
	var window *reprise.WindowError
	if !errors.As(err, &window) || window.Reason != reprise.EpochChanged {
		t.Errorf("a reader with an old cursor: %v", err)
	}
}
