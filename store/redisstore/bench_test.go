package redisstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/redisstore"
	"reprise/store/storetest"
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
		all[i], _, err = log.Create(b.Context(),
			reprise.StreamKey{Tenant: "t", Name: fmt.Sprint("s", i)}, reprise.StreamConfig{})
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
			client, err := rueidis.NewClient(rueidis.ClientOption{
				InitAddress:       []string{on.Addr()},
				DisableCache:      true,
				ForceSingleClient: true,
			})
			must(b, err)
			defer client.Close()
			data := strings.Repeat("x", 200)
			b.SetParallelism((appenders + 1) / 2)
			b.SetBytes(200)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					must(b, client.Do(b.Context(),
						client.B().Xadd().Key("xadd").Id("*").FieldValue().FieldValue("b", data).Build()).Error())
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkReplay reads 100,000 events, in batches of 100, and in entries of one each with the driver alone.
func BenchmarkReplay(b *testing.B) {
	const events, batch = 100_000, 100
	on := benchServer(b)
	b.Run("store", func(b *testing.B) {
		s := mustOpen(b, place(b, on), nil)
		info := create(b, s, "s")
		data := []byte(strings.Repeat("x", 200*batch))
		for range events / batch {
			req := one(&info, data)
			req.Count = batch
			info.Tail += batch - 1
			if errs := s.Append(b.Context(), []reprise.AppendRequest{req}); errs != nil {
				b.Fatal(errs)
			}
		}
		for b.Loop() {
			for after := uint64(0); after < events; {
				page, err := s.Read(b.Context(), info.Key, after, 256<<10)
				must(b, err)
				after = page.Batches[len(page.Batches)-1].Last()
			}
		}
		b.ReportMetric(float64(b.N)*events/b.Elapsed().Seconds(), "events/s")
	})
	b.Run("driver", func(b *testing.B) {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress:       []string{on.Addr()},
			DisableCache:      true,
			ForceSingleClient: true,
		})
		must(b, err)
		defer client.Close()
		data := strings.Repeat("x", 200)
		for i := 0; i < events; i += batch {
			var commands []rueidis.Completed
			for k := range batch {
				commands = append(commands,
					client.B().Xadd().Key("replay").Id(fmt.Sprint(i+k+1, "-0")).FieldValue().FieldValue("b", data).
						Build())
			}
			must(b, client.DoMulti(b.Context(), commands...)[0].Error())
		}
		for b.Loop() {
			last, n := "-", 0
			for {
				entries, err := client.Do(b.Context(),
					client.B().Xrange().Key("replay").Start(last).End("+").Count(1300).Build()).AsXRange()
				must(b, err)
				if len(entries) == 0 {
					break
				}
				n += len(entries)
				last = "(" + entries[len(entries)-1].ID
			}
			if n != events {
				b.Fatal(n)
			}
		}
		b.ReportMetric(float64(b.N)*events/b.Elapsed().Seconds(), "events/s")
	})
}

// BenchmarkWake is from the append of one replica until another one has read it, beside what the server and the
// driver need for a message from one connection to another.
func BenchmarkWake(b *testing.B) {
	on := benchServer(b)
	b.Run("store", func(b *testing.B) {
		url := place(b, on)
		s, other := mustOpen(b, url, nil), mustOpen(b, url, nil)
		info := create(b, s, "s")
		heard := make(chan struct{}, 1)
		stop, err := other.Watch(info.Key, func() {
			select {
			case heard <- struct{}{}:
			default:
			}
		})
		must(b, err)
		defer stop()
		<-heard
		for b.Loop() {
			must(b, tryOne(b, s, &info, "event"))
			for tail := uint64(0); tail < info.Tail; {
				<-heard
				page, err := other.Read(b.Context(), info.Key, info.Tail-1, 1<<20)
				must(b, err)
				tail = page.Info.Tail
			}
		}
	})
	b.Run("driver", func(b *testing.B) {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress:       []string{on.Addr()},
			DisableCache:      true,
			ForceSingleClient: true,
		})
		must(b, err)
		defer client.Close()
		ears, release := client.Dedicate()
		defer release()
		heard := make(chan struct{}, 100)
		ears.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) { heard <- struct{}{} }})
		must(b, ears.Do(b.Context(), ears.B().Subscribe().Channel("c").Build()).Error())
		for b.Loop() {
			must(b, client.Do(b.Context(), client.B().Publish().Channel("c").Message("m").Build()).Error())
			<-heard
		}
	})
}
