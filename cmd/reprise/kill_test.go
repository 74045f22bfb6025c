package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reprise/client"
	"reprise/internal/testserver"
)

const (
	killRounds     = 10
	killPublishers = 4
)

// victim is a server that a test kills, and starts again at the same address. It ends with the test.
type victim struct {
	*daemon
	t      *testing.T
	start  func(listen string) *daemon
	client *client.Client
}

// newVictim starts a server in dir.
func newVictim(t *testing.T, dir string, flags ...string) *victim {
	t.Helper()
	v := &victim{t: t}
	v.start = func(listen string) *daemon {
		t.Helper()
		d, err := startDaemon(os.Environ(), dir, dir+"/server.log",
			append([]string{"--listen", listen, "--data", dir + "/data", "--log-level", "error"}, flags...)...)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	v.daemon = v.start(freeAddress(t))
	t.Cleanup(func() { _ = v.kill() })
	token, err := os.ReadFile(dir + "/data/token")
	if err != nil {
		t.Fatal(err)
	}
	v.client, err = client.New(&client.Options{
		URL: "http://" + v.addr, Token: strings.TrimSpace(string(token)),
		MinWait: 10 * time.Millisecond, MaxWait: 50 * time.Millisecond, GiveUp: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// killAndStart kills the server and starts it again.
func (v *victim) killAndStart() {
	v.t.Helper()
	if err := v.kill(); err != nil {
		v.t.Fatal(err)
	}
	v.daemon = v.start(v.addr)
}

// TestG6KilledServer kills the server again and again while streams are published to.
// Afterwards everything that was acknowledged is there, once and in order, and so is
// what was sent again because its acknowledgement was lost. (G6, G9)
func TestG6KilledServer(t *testing.T) {
	t.Parallel()
	v := newVictim(t, testserver.TempDir(t))
	c := v.client
	var stop atomic.Bool
	var publishing sync.WaitGroup
	published := make([]int, killPublishers)
	var begun atomic.Int64
	for i := range published {
		publishing.Go(func() { published[i] = publishUntil(t, c, streamName(i), &begun, &stop) })
	}
	if !eventually(func() bool { return begun.Load() == killPublishers }) {
		t.Error("not everybody has published something")
	}
	for range killRounds {
		<-time.After(20*time.Millisecond + rand.N(150*time.Millisecond)) // a moment like any other
		v.killAndStart()
	}
	stop.Store(true)
	publishing.Wait()
	for i, n := range published {
		if n == 0 {
			t.Errorf("nothing was acknowledged on %s", streamName(i))
		}
		checkNumbers(t, c, streamName(i), n)
	}
	t.Logf("%d kills, acknowledged: %v", killRounds, published)
}

func streamName(i int) string { return fmt.Sprintf("numbers/%d", i) }

// publishUntil publishes 0, 1, 2, ..., a few at a time, and returns how many were acknowledged. It counts itself in
// begun when the first was.
func publishUntil(t *testing.T, c *client.Client, name string, begun *atomic.Int64, stop *atomic.Bool) int {
	_, err := c.CreateStream(t.Context(), name, client.StreamConfig{Retention: client.Retention{MaxEvents: 1 << 30}})
	if err != nil {
		t.Error(err)
		return 0
	}
	producer := c.Producer(name)
	n := 0
	for !stop.Load() {
		events := make([]client.NewEvent, 1+n%3)
		for i := range events {
			events[i].Data = strconv.AppendInt(nil, int64(n+i), 10)
		}
		answer, err := producer.Publish(t.Context(), events...)
		if err != nil {
			t.Errorf("publish after %d: %v", n, err)
			return n
		}
		if want := uint64(n + len(events)); answer.Last != want {
			t.Errorf("event %d was acknowledged as %d", want, answer.Last)
		}
		if n == 0 {
			begun.Add(1)
		}
		n += len(events)
	}
	if _, err := producer.End(t.Context(), "completed", nil); err != nil {
		t.Error(err)
	}
	return n
}

// checkNumbers reads a stream and expects 0 to n-1, each once.
func checkNumbers(t *testing.T, c *client.Client, name string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	next := 0
	for event, err := range c.FollowStream(ctx, name, &client.FollowOptions{OnGap: client.GapFail}) {
		switch {
		case err != nil:
			t.Fatalf("%s after %d: %v", name, next, err)
		case event.End != nil:
		case string(event.Data) != strconv.Itoa(next):
			t.Fatalf("%s: event %d is %s", name, next, event.Data)
		default:
			next++
		}
	}
	if next != n {
		t.Errorf("%s: %d events, acknowledged were %d", name, next, n)
	}
}

// TestServerKilledWhileItMakesRoom: a server whose store is full removes an ended stream for almost every append, and
// is killed in the middle again and again. An open stream keeps everything that was acknowledged, later streams find
// room, and the bound holds.
func TestServerKilledWhileItMakesRoom(t *testing.T) {
	t.Parallel()
	const bound = 1 << 20
	v := newVictim(t, testserver.TempDir(t), "--max-total-bytes", "1MiB")
	c := v.client
	var stop atomic.Bool
	var publishing sync.WaitGroup
	var begun, made atomic.Int64
	kept := 0
	publishing.Go(func() { kept = publishUntil(t, c, "open", &begun, &stop) })
	for i := range 2 {
		publishing.Go(func() {
			for n := 0; !stop.Load(); n++ {
				if err := fillStream(t.Context(), c, fmt.Sprintf("old/%d/%d", i, n)); err != nil {
					t.Error(err)
					return
				}
				made.Add(1)
			}
		})
	}
	for round := range killRounds {
		until := made.Load() + 2
		if !eventually(func() bool { return made.Load() >= until }) {
			t.Fatalf("no stream was made in round %d", round)
		}
		<-time.After(rand.N(60 * time.Millisecond)) // a moment like any other
		v.killAndStart()
	}
	stop.Store(true)
	publishing.Wait()
	checkNumbers(t, c, "open", kept)
	list, err := c.ListStreams(t.Context(), 1000, "")
	var bytes int64
	for _, s := range list.Streams {
		bytes += s.Bytes
	}
	if err != nil || len(list.Streams) < 2 || bytes > bound {
		t.Errorf("%d streams keep %d bytes, the bound is %d; %v", len(list.Streams), bytes, bound, err)
	}
	if n := made.Load(); n < 12 {
		t.Errorf("only %d streams were filled, so that little room was made", n)
	}
}

// fillStream makes a stream of about 100 KiB that ends.
func fillStream(ctx context.Context, c *client.Client, name string) error {
	if _, err := c.CreateStream(ctx, name, client.StreamConfig{}); err != nil {
		return err
	}
	producer := c.Producer(name)
	for range 10 {
		if _, err := producer.PublishBytes(ctx, "fill", make([]byte, 10<<10)); err != nil {
			return err
		}
	}
	_, err := producer.End(ctx, "completed", nil)
	return err
}
