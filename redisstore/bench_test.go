package redisstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"reprise"
	"reprise/internal/testserver"
	"reprise/redisstore"
	"reprise/storetest"
)

// benchServer keeps everything in memory, as redis-benchmark is run.
func benchServer(b *testing.B) *testserver.RedisServer {
	return testserver.Redis(b, &testserver.RedisOptions{Config: []string{"--appendonly", "no"}})
}

func BenchmarkStore(b *testing.B) {
	on := benchServer(b)
	storetest.Benchmark(b, func(tb testing.TB) storetest.Harness {
		url := place(tb, on)
		return storetest.Harness{Open: func() (reprise.Store, error) { return redisstore.Open(tb.Context(), url, nil) }}
	}, nil)
}

// BenchmarkLog is appends through a Log, of appenders that each wait for their answer, to one stream or to one each.
func BenchmarkLog(b *testing.B) {
	on := benchServer(b)
	for _, appenders := range []int{1, 100, 800} {
		for _, streams := range []int{1, appenders} {
			b.Run(fmt.Sprintf("size=200/appenders=%d/streams=%d", appenders, streams), func(b *testing.B) {
				s := mustOpen(b, place(b, on), nil)
				benchmarkLog(b, s, appenders, streams)
			})
		}
	}
}

func benchmarkLog(b *testing.B, s reprise.Store, appenders, streams int) {
	log, err := reprise.Open(b.Context(), s, nil)
	must(b, err)
	defer log.Close()
	all := make([]*reprise.Stream, streams)
	for i := range all {
		all[i], _, err = log.Create(b.Context(), reprise.StreamKey{Tenant: "t", Name: fmt.Sprint("s", i)}, reprise.StreamConfig{})
		must(b, err)
	}
	event := reprise.Event{Type: "stdout", Data: []byte(strings.Repeat("x", 200))}
	b.SetParallelism((appenders + 1) / 2)
	b.SetBytes(200)
	next := make(chan int, appenders+2)
	for i := range cap(next) {
		next <- i
	}
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		stream := all[<-next%streams]
		for pb.Next() {
			if _, err := stream.Append(b.Context(), event); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkXADD is what the driver and the server reach with one entry for each event, by appenders that each wait
// for their answer.
func BenchmarkXADD(b *testing.B) {
	on := benchServer(b)
	for _, appenders := range []int{1, 100, 800} {
		b.Run(fmt.Sprintf("size=200/appenders=%d", appenders), func(b *testing.B) {
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{on.Addr()}, DisableCache: true, ForceSingleClient: true})
			must(b, err)
			defer client.Close()
			data := strings.Repeat("x", 200)
			b.SetParallelism((appenders + 1) / 2)
			b.SetBytes(200)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					must(b, client.Do(b.Context(), client.B().Xadd().Key("xadd").Id("*").FieldValue().FieldValue("b", data).Build()).Error())
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
