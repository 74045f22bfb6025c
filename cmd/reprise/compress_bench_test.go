package main

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"reprise/client"
)

// lineRate is that of a line of 100 Mbit/s, in bytes a second.
const lineRate = 100e6 / 8

// slowLine passes connections on to a server, answers at lineRate altogether, and returns its address. It ends with the
// test.
func slowLine(b *testing.B, target string) string {
	b.Helper()
	listener, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				server, err := new(net.Dialer).DialContext(b.Context(), "tcp", target)
				if err != nil {
					return
				}
				defer server.Close()
				go func() { _, _ = io.Copy(server, conn) }()
				pace(conn, server)
			}()
		}
	}()
	return listener.Addr().String()
}

// pace copies at lineRate, in pieces of a millisecond.
func pace(to io.Writer, from io.Reader) {
	piece := make([]byte, int(lineRate)/1000)
	free := time.Now() // when the line has sent what it was given
	for {
		n, err := from.Read(piece)
		if wait := time.Until(free); wait > 2*time.Millisecond {
			time.Sleep(wait)
		}
		if now := time.Now(); free.Before(now) {
			free = now
		}
		free = free.Add(time.Duration(float64(n) / lineRate * float64(time.Second)))
		if _, werr := to.Write(piece[:n]); err != nil || werr != nil {
			return
		}
	}
}

// compileLine is a line as builds print them.
func compileLine(i int, rnd *rand.Rand) string {
	return fmt.Sprintf("[%3d%%] Building CXX object src/module%d/CMakeFiles/part%d.dir/file%x.cpp.o\n",
		i%100, rnd.IntN(40), rnd.IntN(9), rnd.Uint32())
}

// benchStream starts a server with a stream of n events, and returns its address and token.
func benchStream(b *testing.B, n int, end bool) (addr, token string) {
	b.Helper()
	dir := b.TempDir()
	d, err := startDaemon(append(os.Environ(),
		"HOME="+dir), dir, dir+"/log", "--listen", "127.0.0.1:0", "--data", dir+"/data",
		"--log-level", "error")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = d.kill() })
	text, err := os.ReadFile(dir + "/data/token")
	if err != nil {
		b.Fatal(err)
	}
	token = strings.TrimSpace(string(text))
	c := benchClient(b, d.addr, token, client.CompressNever)
	keep := client.StreamConfig{Retention: client.Retention{MaxEvents: 10_000_000}}
	if _, err := c.CreateStream(b.Context(), "s", keep); err != nil {
		b.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	p := c.Producer("s")
	for i := 0; i < n; {
		var events []client.NewEvent
		for range 1000 {
			events = append(events, client.NewEvent{Type: "stdout", Data: fmt.Appendf(nil, "%q", compileLine(i, rnd))})
			i++
		}
		if _, err := p.Publish(b.Context(), events...); err != nil {
			b.Fatal(err)
		}
	}
	if end {
		if _, err := p.End(b.Context(), "completed", nil); err != nil {
			b.Fatal(err)
		}
	}
	return d.addr, token
}

func benchClient(b *testing.B, addr, token string, compression client.Compression) *client.Client {
	b.Helper()
	c, err := client.New(&client.Options{URL: "http://" + addr, Token: token, Compression: compression})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// ways are how a client asks for events.
var ways = []struct {
	name        string
	compression client.Compression
}{{"identity", client.CompressNever}, {"gzip", client.CompressAlways}}

// replay reads a whole stream in a coding, and returns how long the events are decoded and as they were sent.
func replay(b *testing.B, addr, token, coding string) (plain, sent int64) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://"+addr+"/v1/streams/s/events", nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Accept-Encoding", coding)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	counted := &countedReader{r: res.Body}
	var in io.Reader = counted
	switch coding {
	case "gzip":
		in, err = gzip.NewReader(counted)
	case "zstd":
		var z *zstd.Decoder
		if z, err = zstd.NewReader(counted, zstd.WithDecoderConcurrency(1)); err == nil {
			defer z.Close()
			in = z
		}
	}
	if err == nil {
		plain, err = io.Copy(io.Discard, in)
	}
	if err != nil || res.Header.Get("Content-Encoding") != strings.TrimPrefix(coding, "identity") {
		b.Fatal(res.Header, err)
	}
	return plain, counted.n
}

type countedReader struct {
	r io.Reader
	n int64
}

func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// BenchmarkReplayOverSlowLine replays a stream from the real server through a line of 100 Mbit/s and without a limit:
// events as they come, and with the Go client. The bytes a second are those of the event stream without compression.
func BenchmarkReplayOverSlowLine(b *testing.B) {
	addr, token := benchStream(b, 200_000, true)
	slow := slowLine(b, addr)
	size, _ := replay(b, addr, token, "identity")
	for _, line := range []struct{ name, addr string }{{"100Mbit", slow}, {"loopback", addr}} {
		for _, coding := range []string{"identity", "gzip", "zstd"} {
			b.Run(line.name+"/bytes/"+coding, func(b *testing.B) {
				var sent int64
				b.SetBytes(size)
				for b.Loop() {
					var plain int64
					if plain, sent = replay(b, line.addr, token, coding); plain != size {
						b.Fatalf("%d bytes, want %d", plain, size)
					}
				}
				b.ReportMetric(float64(size)/float64(sent), "ratio")
			})
		}
		for _, way := range ways {
			b.Run(line.name+"/client/"+way.name, func(b *testing.B) {
				c := benchClient(b, line.addr, token, way.compression)
				b.SetBytes(size)
				for b.Loop() {
					for _, err := range c.FollowStream(b.Context(), "s", nil) {
						if err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}

// BenchmarkLiveEvent is the time from the publication of an event until a client that has replayed the stream has it.
func BenchmarkLiveEvent(b *testing.B) {
	addr, token := benchStream(b, 1000, false)
	for _, way := range slices.Concat(ways, ways) { // twice: how far the same differs is the noise
		b.Run(way.name, func(b *testing.B) {
			c := benchClient(b, addr, token, way.compression)
			came := make(chan bool)
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			page, err := c.PageStream(ctx, "s", &client.PageOptions{After: "tail"})
			if err != nil {
				b.Fatal(err)
			}
			go func() {
				for _, err := range c.FollowStream(ctx, "s", &client.FollowOptions{After: page.NextCursor}) {
					if err != nil {
						return
					}
					came <- true
				}
			}()
			var took []time.Duration
			rnd := rand.New(rand.NewPCG(1, 2))
			p := c.Producer("s")
			for b.Loop() {
				text := strings.Repeat(compileLine(1, rnd), 10)
				began := time.Now()
				if _, err := p.PublishBytes(ctx, "stdout", []byte(text)); err != nil {
					b.Fatal(err)
				}
				<-came
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}
