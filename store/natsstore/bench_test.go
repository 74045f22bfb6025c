package natsstore_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/natsstore"
	"reprise/store/storetest"
)

func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, onServer(testserver.NATS(b, nil)), nil) }

const (
	eventSize  = 200
	batchSize  = 100
	historyLen = 100_000 // events
)

// bare is a plain stream of JetStream, with a connection to it.
func bare(b *testing.B, server *testserver.NATSServer) (*nats.Conn, jetstream.JetStream) {
	b.Helper()
	conn, err := nats.Connect(server.URL())
	must(b, err)
	b.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(256))
	must(b, err)
	name := fmt.Sprint("BARE", places.Add(1))
	_, err = js.CreateStream(b.Context(),
		jetstream.StreamConfig{Name: name, Subjects: []string{name}, AllowDirect: true})
	must(b, err)
	b.Cleanup(func() { must(b, js.DeleteStream(context.Background(), name)) })
	return conn, js
}

// BenchmarkAppenders is the append path beside its limit, messages of as many bytes that are published
// without waiting for each.
func BenchmarkAppenders(b *testing.B) {
	server := testserver.NATS(b, nil)
	b.Run("bare", func(b *testing.B) {
		_, js := bare(b, server)
		subject := fmt.Sprint("BARE", places.Load())
		message := bytes.Repeat([]byte("x"), eventSize*batchSize)
		for b.Loop() {
			_, err := js.PublishAsync(subject, message)
			must(b, err)
		}
		<-js.PublishAsyncComplete()
		b.ReportMetric(float64(b.N*batchSize)/b.Elapsed().Seconds(), "events/s")
	})
	for _, streams := range []int{1, 100} {
		for _, events := range []int{1, 10, 100} {
			b.Run(fmt.Sprintf("streams=%d/events=%d", streams, events),
				func(b *testing.B) { benchmarkAppenders(b, server, streams, events) })
		}
	}
}

func openLog(b *testing.B, store reprise.Store) *reprise.Log {
	b.Helper()
	log, err := reprise.Open(b.Context(), store, &reprise.Options{SweepEvery: -1})
	must(b, err)
	b.Cleanup(func() { must(b, log.Close()) })
	return log
}

func openAt(tb testing.TB, where string) *natsstore.Store {
	tb.Helper()
	s, err := natsstore.Open(tb.Context(), where, nil)
	must(tb, err)
	tb.Cleanup(func() { must(tb, s.Close()) })
	return s
}

// benchmarkAppenders lets 100 appenders append so many events at a time to so many streams.
func benchmarkAppenders(b *testing.B, server *testserver.NATSServer, streams, events int) {
	const appenders = 100
	where := place(server, "")
	b.Cleanup(func() { drop(b, where) })
	log := openLog(b, openAt(b, where))
	batch := make([]reprise.Event, events)
	for i := range batch {
		batch[i] = reprise.Event{Type: "x", Data: bytes.Repeat([]byte("x"), eventSize)}
	}
	var handles []*reprise.Stream
	for i := range streams {
		h, _, err := log.Create(b.Context(),
			reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: fmt.Sprint("s", i)}, reprise.StreamConfig{})
		must(b, err)
		handles = append(handles, h)
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range appenders {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if _, err := handles[i%streams].Append(b.Context(), batch...); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N*events)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkReplay reads 100,000 events: those of a stream, and as many messages of one event with the same driver.
func BenchmarkReplay(b *testing.B) {
	server := testserver.NATS(b, nil)
	b.Run("message=event", func(b *testing.B) {
		_, js := bare(b, server)
		name := fmt.Sprint("BARE", places.Load())
		for range historyLen {
			_, err := js.PublishAsync(name, make([]byte, eventSize))
			must(b, err)
		}
		<-js.PublishAsyncComplete()
		for b.Loop() {
			replayBare(b, js, name)
		}
		b.ReportMetric(float64(b.N*historyLen)/b.Elapsed().Seconds(), "events/s")
	})
	b.Run("batch=100", func(b *testing.B) {
		where := place(server, "")
		b.Cleanup(func() { drop(b, where) })
		s := openAt(b, where)
		info := create(b, s, "s")
		for range historyLen / batchSize {
			appendTo(b, s, &info, batchSize, make([]byte, batchSize*eventSize))
		}
		for b.Loop() {
			for after := uint64(0); after < historyLen; {
				page, err := s.Read(b.Context(), info.Key, after, 256<<10)
				must(b, err)
				after = page.Batches[len(page.Batches)-1].Last()
			}
		}
		b.ReportMetric(float64(b.N*historyLen)/b.Elapsed().Seconds(), "events/s")
	})
}

func replayBare(b *testing.B, js jetstream.JetStream, name string) {
	c, err := js.OrderedConsumer(b.Context(), name, jetstream.OrderedConsumerConfig{})
	must(b, err)
	messages, err := c.Messages(jetstream.PullMaxMessages(5000))
	must(b, err)
	defer messages.Stop()
	for range historyLen {
		_, err := messages.Next()
		must(b, err)
	}
}

func create(tb testing.TB, s reprise.Store, name string) reprise.StreamInfo {
	tb.Helper()
	info, err := s.Create(tb.Context(), reprise.StreamInfo{
		Key:     reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name},
		Epoch:   reprise.NewEpoch(),
		Created: time.UnixMilli(time.Now().UnixMilli()),
	})
	must(tb, err)
	return info
}

// request is the next append to a stream.
func request(info *reprise.StreamInfo, count int, data []byte) reprise.AppendRequest {
	return reprise.AppendRequest{
		Key: info.Key, Epoch: info.Epoch, Owner: info.Owner, First: info.Tail + 1, Count: count, Bytes: data,
		Earliest: info.Earliest, Kept: info.Bytes + int64(len(data)),
	}
}

func appendTo(tb testing.TB, s reprise.Store, info *reprise.StreamInfo, count int, data []byte) {
	tb.Helper()
	req := request(info, count, data)
	if errs := s.Append(tb.Context(), []reprise.AppendRequest{req}); errs != nil {
		tb.Fatal(errs[0])
	}
	info.Tail, info.Bytes = req.First+uint64(count)-1, req.Kept
}

// BenchmarkWakeUp is the time from an append at one replica to the wake-up at another, beside that from a
// publication to a subscriber.
func BenchmarkWakeUp(b *testing.B) {
	server := testserver.NATS(b, nil)
	b.Run("bare", func(b *testing.B) {
		from, err := nats.Connect(server.URL())
		must(b, err)
		defer from.Close()
		to, err := nats.Connect(server.URL())
		must(b, err)
		defer to.Close()
		woken := make(chan struct{}, 1)
		_, err = to.Subscribe("wake", func(*nats.Msg) { woken <- struct{}{} })
		must(b, err)
		must(b, to.Flush())
		for b.Loop() {
			must(b, from.Publish("wake", make([]byte, eventSize)))
			<-woken
		}
	})
	b.Run("store", func(b *testing.B) {
		where := place(server, "")
		b.Cleanup(func() { drop(b, where) })
		from, to := openAt(b, where), openAt(b, where)
		info := create(b, from, "s")
		woken := make(chan struct{}, 1)
		stop, err := to.Watch(info.Key, func() {
			select {
			case woken <- struct{}{}:
			default:
			}
		})
		must(b, err)
		defer stop()
		<-woken                // that it watches
		var took time.Duration // the acknowledgement may come later than the wake-up
		for b.Loop() {
			start, appended := time.Now(), make(chan struct{})
			go func() {
				defer close(appended)
				appendTo(b, from, &info, 1, make([]byte, eventSize))
			}()
			<-woken
			took += time.Since(start)
			<-appended
		}
		b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/wake-up")
	})
}

// BenchmarkLone is the round trip of one append, beside that of one message.
func BenchmarkLone(b *testing.B) {
	server := testserver.NATS(b, nil)
	b.Run("bare", func(b *testing.B) {
		_, js := bare(b, server)
		subject := fmt.Sprint("BARE", places.Load())
		for b.Loop() {
			_, err := js.Publish(b.Context(), subject, make([]byte, eventSize*batchSize))
			must(b, err)
		}
	})
	b.Run("store", func(b *testing.B) {
		where := place(server, "")
		b.Cleanup(func() { drop(b, where) })
		s := openAt(b, where)
		info := create(b, s, "s")
		for b.Loop() {
			appendTo(b, s, &info, batchSize, make([]byte, eventSize*batchSize))
		}
	})
}
