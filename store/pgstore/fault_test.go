package pgstore_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/pgstore"
)

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// eventually calls f until it returns true.
func eventually(tb testing.TB, what string, f func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("after 20 s: %s", what)
		}
	}
}

// tail asks for the tail of a stream until the server answers.
func tail(tb testing.TB, s *pgstore.Store, name string) (seq uint64) {
	tb.Helper()
	eventually(tb, "the server is to answer again", func() bool {
		page, err := s.Read(tb.Context(), key(name), 1<<63, 0)
		if err != nil && !errors.Is(err, reprise.ErrUnavailable) {
			tb.Fatal(err)
		}
		seq = page.Info.Tail
		return err == nil
	})
	return seq
}

// The server is killed again and again while eight writers append. Nothing that was acknowledged is lost, and nothing
// is there twice. This server syncs each commit, as PostgreSQL does by default.
func TestServerKilledUnderLoad(t *testing.T) {
	own := testserver.Postgres(t, nil)
	s := mustOpen(t, own.URL(), nil)
	const writers, size = 8, 200
	var stop atomic.Bool
	var acknowledged atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		req := create(t, s, fmt.Sprint("s", w))
		wg.Go(func() {
			for !stop.Load() {
				req.Bytes = content(req.Key.Name, req.First, size)
				req.Kept = int64(req.First) * size
				errs := s.Append(t.Context(), []reprise.AppendRequest{req})
				switch {
				case errs == nil:
					req.First++
					acknowledged.Add(1)
				case errors.Is(errs[0], reprise.ErrUnavailable), errors.Is(errs[0], reprise.ErrConflict):
					now := tail(t, s, req.Key.Name)
					if now < req.First-1 || now > req.First {
						t.Errorf("%s: the tail is %d after %d was acknowledged", req.Key.Name, now, req.First-1)
						return
					}
					req.First = now + 1
				default:
					t.Error(errs[0])
					return
				}
			}
		})
	}
	for range 4 {
		before := acknowledged.Load()
		eventually(t, "appends are to go on", func() bool { return acknowledged.Load() > before+200 })
		time.Sleep(rand.N(50 * time.Millisecond))
		check(t, own.Kill())
		check(t, own.Start())
	}
	stop.Store(true)
	wg.Wait()
	for w := range writers {
		intact(t, s, fmt.Sprint("s", w), size)
	}
	t.Log(acknowledged.Load(), "appends were acknowledged")
}

// cutter is a proxy that cuts each connection after so many bytes to the server.
type cutter struct {
	net.Listener
	left atomic.Int64
	wg   sync.WaitGroup
}

func cut(tb testing.TB, to string) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(tb, err)
	c := &cutter{Listener: l}
	c.left.Store(1 << 60)
	c.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			c.wg.Go(func() {
				_, _ = io.Copy(client, upstream)
				client.Close()
			})
			c.wg.Go(func() {
				defer upstream.Close()
				defer client.Close()
				buf := make([]byte, 512)
				for {
					n, err := client.Read(buf)
					left := c.left.Add(-int64(n))
					if err != nil || left < 0 {
						_, _ = upstream.Write(buf[:max(0, min(int64(n), int64(n)+left))])
						return
					}
					if _, err := upstream.Write(buf[:n]); err != nil {
						return
					}
				}
			})
		}
	})
	tb.Cleanup(func() {
		l.Close()
		c.wg.Wait()
	})
	return c
}

// A connection is cut in the middle of an append, everywhere. The batch is stored whole or not at all.
func TestConnectionCut(t *testing.T) {
	proxy := cut(t, server.Addr())
	url := strings.Replace(server.URL(), server.Addr(), proxy.Addr().String(), 1)
	s := mustOpen(t, url, &pgstore.Options{Schema: schema(t, server), NoNotify: true, TidyEvery: -1})
	req := create(t, s, "s")
	const size = 3000
	stored, lost := 0, 0
	for at := int64(0); at < 6000; at += 137 {
		tail(t, s, "s") // a connection is there
		req.Bytes, req.Kept = content("s", req.First, size), int64(req.First)*size
		proxy.left.Store(at)
		errs := s.Append(t.Context(), []reprise.AppendRequest{req})
		proxy.left.Store(1 << 60)
		if errs != nil && !errors.Is(errs[0], reprise.ErrUnavailable) {
			t.Fatalf("cut after %d bytes: %v", at, errs)
		}
		now := tail(t, s, "s")
		if now != req.First && (errs == nil || now != req.First-1) {
			t.Fatalf("cut after %d bytes: the tail is %d, the append was of %d: %v", at, now, req.First, errs)
		}
		if now == req.First {
			stored++
		} else {
			lost++
		}
		req.First = now + 1
	}
	intact(t, s, "s", size)
	if stored == 0 || lost == 0 {
		t.Errorf("%d appends were stored and %d not", stored, lost)
	}
}

// A server that stands still makes calls fail in time, and they work again when it goes on.
func TestServerPaused(t *testing.T) {
	own := testserver.Postgres(t, &testserver.PostgresOptions{Config: []string{"fsync = off"}})
	s := mustOpen(t, own.URL()+"&timeout=3s", nil)
	req := create(t, s, "s")
	put(t, s, &req, 100, 1000)
	check(t, own.Pause())
	start := time.Now()
	req.Bytes, req.Kept = content("s", req.First, 100), int64(req.First)*100
	errs := s.Append(t.Context(), []reprise.AppendRequest{req})
	if errs == nil || !errors.Is(errs[0], reprise.ErrUnavailable) {
		t.Errorf("append: %v", errs)
	}
	if _, err := s.Read(t.Context(), key("s"), 0, 100); !errors.Is(err, reprise.ErrUnavailable) {
		t.Errorf("read: %v", err)
	}
	_, err := s.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 1})
	if !errors.Is(err, reprise.ErrUnavailable) {
		t.Errorf("list: %v", err)
	}
	// Three calls of 3 s each, on a machine that may be busy.
	if took := time.Since(start); took > 2*time.Minute {
		t.Errorf("the calls took %v", took)
	}
	check(t, own.Resume())
	eventually(t, "appends are to work again", func() bool {
		req.First = tail(t, s, "s") + 1
		req.Bytes, req.Kept = content("s", req.First, 100), int64(req.First)*100
		return s.Append(t.Context(), []reprise.AppendRequest{req}) == nil
	})
	intact(t, s, "s", 100)
}

// A replica that watches is woken when the server is back, and hears of what comes after.
func TestWatchOverRestart(t *testing.T) {
	own := testserver.Postgres(t, &testserver.PostgresOptions{Config: []string{"fsync = off"}})
	// Polling cannot be what tells.
	a, b := mustOpen(t, own.URL()+"&poll=1h", nil), mustOpen(t, own.URL()+"&poll=1h", nil)
	req := create(t, a, "s")
	var moved atomic.Int64
	stop, err := b.Watch(key("s"), func() { moved.Add(1) })
	check(t, err)
	defer stop()
	eventually(t, "the connection that listens is up", func() bool { return moved.Load() > 0 })
	for _, end := range []func() error{own.Quit, own.Kill} {
		check(t, end())
		before := moved.Load()
		check(t, own.Start())
		eventually(t, "moved is to be called after the restart", func() bool { return moved.Load() > before })
		tail(t, a, "s")
		before = moved.Load()
		put(t, a, &req, 100, 1000)
		eventually(t, "moved is to be called after an append", func() bool { return moved.Load() > before })
	}
}

// An append that waits for a standby for too long is not shown to readers before the standby has it.
func TestAppendWaitingForStandbyIsNotReadable(t *testing.T) {
	own := testserver.Postgres(t, &testserver.PostgresOptions{Config: []string{"fsync = off"}})
	s, other := mustOpen(t, own.URL()+"&timeout=3s", nil), mustOpen(t, own.URL(), nil)
	req := create(t, s, "s")
	put(t, s, &req, 100, 1000)
	sql(t, own.URL(), `ALTER SYSTEM SET synchronous_standby_names = 'away'`, `SELECT pg_reload_conf()`)
	eventually(t, "commits are to wait for the standby", func() bool {
		req.Bytes, req.Kept = content("s", req.First, 100), int64(req.First)*100
		errs := s.Append(t.Context(), []reprise.AppendRequest{req})
		if errs == nil {
			req.First++ // the setting has not arrived yet
			return false
		}
		if !errors.Is(errs[0], reprise.ErrUnavailable) {
			t.Fatal(errs[0])
		}
		return true
	})
	for range 10 {
		if now := tail(t, other, "s"); now != req.First-1 {
			t.Fatalf("the tail is %d while the append of %d waits", now, req.First)
		}
		time.Sleep(50 * time.Millisecond)
	}
	sql(t, own.URL(), `ALTER SYSTEM RESET synchronous_standby_names`, `SELECT pg_reload_conf()`)
	eventually(t, "the append is to be shown when the standby is not needed any more",
		func() bool { return tail(t, other, "s") == req.First })
	req.First++
	put(t, s, &req, 100, 1000)
	intact(t, other, "s", 100)
}

// A Store can be closed while the server stands still.
func TestClosedWhilePaused(t *testing.T) {
	own := testserver.Postgres(t, &testserver.PostgresOptions{Config: []string{"fsync = off"}})
	s, err := pgstore.Open(t.Context(), own.URL()+"&timeout=3s", nil)
	check(t, err)
	req := create(t, s, "s")
	check(t, own.Pause())
	req.Bytes, req.Kept = content("s", req.First, 100), 100
	errs := s.Append(t.Context(), []reprise.AppendRequest{req})
	if errs == nil || !errors.Is(errs[0], reprise.ErrUnavailable) {
		t.Errorf("append: %v", errs)
	}
	start := time.Now()
	check(t, s.Close())
	if took := time.Since(start); took > time.Minute {
		t.Errorf("Close took %v", took)
	}
	check(t, own.Resume())
}

// Of several hosts the one is found that takes writes.
func TestSeveralHosts(t *testing.T) {
	url := strings.Replace(server.URL(), "@", "@127.0.0.1:1,", 1)
	s := mustOpen(t, url+"&target_session_attrs=read-write&schema="+schema(t, server), nil)
	req := create(t, s, "s")
	put(t, s, &req, 100, 10)
}
