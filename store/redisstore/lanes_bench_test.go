package redisstore_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/redisstore"
)

// lanes is a Store that lets a Log have another number of commits under way.
type lanes struct {
	*redisstore.Store
	at int
}

func (l lanes) ConcurrentAppends() int { return l.at }

// BenchmarkLanes appends one event at a time to each of 100 streams, by as many goroutines, with so many commits under
// way, to a server on this machine and to one that is a millisecond away. It is what concurrentAppends was chosen by.
func BenchmarkLanes(b *testing.B) {
	for _, synced := range []string{"no", "always"} {
		server := testserver.Redis(b, &testserver.RedisOptions{Config: []string{"--appendfsync", synced}})
		for _, away := range []time.Duration{0, time.Millisecond} {
			for _, at := range []int{1, 2, 4, 8, 16} {
				b.Run(fmt.Sprintf("appendfsync=%s/rtt=%v/lanes=%d", synced, away, at), func(b *testing.B) {
					url := place(b, server)
					if away > 0 {
						url = strings.Replace(url, server.Addr(), distant(b, server.Addr(), away/2), 1)
					}
					log, err := reprise.Open(b.Context(), lanes{mustOpen(b, url, nil), at}, nil)
					must(b, err)
					defer log.Close()
					appendFrom100(b, log)
				})
			}
		}
	}
}

// distant is the address of a server that takes so long to be reached, and as long to answer.
func distant(b *testing.B, target string, away time.Duration) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	var all sync.WaitGroup
	b.Cleanup(func() { must(b, listener.Close()); all.Wait() })
	all.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			must(b, err)
			all.Go(func() { carry(near, far, away) })
			all.Go(func() { carry(far, near, away) })
		}
	})
	return listener.Addr().String()
}

// carry copies what comes from one connection to the other, each part so much later.
func carry(from, to net.Conn, later time.Duration) {
	type part struct {
		bytes []byte
		due   time.Time
	}
	parts := make(chan part, 1<<12)
	go func() {
		defer close(parts)
		for buf := make([]byte, 64<<10); ; {
			n, err := from.Read(buf)
			parts <- part{bytes.Clone(buf[:n]), time.Now().Add(later)}
			if err != nil {
				return
			}
		}
	}()
	for p := range parts {
		time.Sleep(time.Until(p.due))
		_, _ = to.Write(p.bytes) // who is gone reads nothing, and the other side ends too
	}
	_ = to.Close()
}

func appendFrom100(b *testing.B, log *reprise.Log) {
	const appenders = 100
	var streams [appenders]*reprise.Stream
	for i := range streams {
		var err error
		key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: fmt.Sprint(i)}
		streams[i], _, err = log.Create(b.Context(), key, reprise.StreamConfig{})
		must(b, err)
	}
	event := reprise.Event{Data: make([]byte, 200)}
	work := make(chan struct{}, b.N)
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	b.ResetTimer()
	var all sync.WaitGroup
	for _, s := range streams {
		all.Go(func() {
			for range work {
				if _, err := s.Append(context.Background(), event); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
