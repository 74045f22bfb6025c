package redisstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/redisstore"
)

// The server is killed and started again while several append: what was acknowledged is there, once, and what
// was not is there whole or not at all.
func TestKilledUnderLoad(t *testing.T) {
	const writers, kills = 4, 4
	server := testserver.Redis(t, nil)
	s := mustOpen(t, server.URL()+"?timeout=2s", nil)
	var stop atomic.Bool
	var acknowledged [writers]atomic.Uint64
	var wg sync.WaitGroup
	infos := make([]reprise.StreamInfo, writers)
	for i := range infos {
		infos[i] = create(t, s, fmt.Sprint("s/", i))
		wg.Go(func() {
			for !stop.Load() {
				if err := tryOne(t, s, &infos[i], numbered(infos[i].Tail+1)); err == nil {
					acknowledged[i].Store(infos[i].Tail)
				} else if isUnavailable(err) || errors.Is(err, reprise.ErrConflict) {
					// It may be there, or come yet: whoever appends reads first.
					if page, err := s.Read(t.Context(), infos[i].Key, 1<<62, 0); err == nil {
						infos[i].Tail = page.Info.Tail
					}
				} else {
					t.Error(err)
					return
				}
			}
		})
	}
	for range kills {
		before := acknowledged[0].Load()
		until(t, "appends go on", func() bool { return acknowledged[0].Load() > before+20 })
		must(t, server.Kill())
		must(t, server.Start())
	}
	stop.Store(true)
	wg.Wait()
	for i := range infos {
		page := read(t, s, infos[i].Key)
		if page.Info.Tail < acknowledged[i].Load() || page.Info.Epoch != infos[i].Epoch {
			t.Errorf("%s: %d was acknowledged, the tail is %d", infos[i].Key, acknowledged[i].Load(), page.Info.Tail)
		}
		for _, b := range page.Batches {
			if string(b.Bytes) != numbered(b.First) {
				t.Errorf("%s: event %d is %q", infos[i].Key, b.First, b.Bytes)
			}
		}
	}
}

func numbered(seq uint64) string { return fmt.Sprint("event ", seq) }

// The connection is cut at some byte of an append, or before its answer. The batch is there or not, and never twice:
// the same append again is taken, or refused because it is there.
func TestConnectionIsCutInAnAppend(t *testing.T) {
	on := server(t)
	p := newProxy(t, on.Addr())
	s := mustOpen(t, p.url(place(t, on))+"&timeout=3s", nil)
	info := create(t, s, "s")
	appendN(t, s, &info, 1)
	data := strings.Repeat("x", 2000)
	stored, refused := 0, 0
	again := func(err error) {
		t.Helper()
		wantError(t, err, reprise.ErrUnavailable)
		tail := info.Tail
		until(t, "the connection is back", func() bool {
			err = tryOne(t, s, &info, data)
			return !isUnavailable(err)
		})
		if errors.Is(err, reprise.ErrConflict) {
			stored++
			info = read(t, s, info.Key).Info
		} else {
			must(t, err)
			refused++
		}
		if page := read(t, s, info.Key); page.Info.Tail != tail+1 || len(page.Batches) != int(tail+1) {
			t.Fatalf("the tail is %d, want %d, with as many batches: %d", page.Info.Tail, tail+1, len(page.Batches))
		}
	}
	for after := 1; after < 2600; after += 113 {
		p.cutAfter(after)
		err := tryOne(t, s, &info, data)
		p.cutAfter(0)
		if err != nil {
			again(err)
		}
	}
	if refused == 0 {
		t.Error("no append was cut")
	}
	for range 5 {
		p.loseAnswers(true)
		err := tryOne(t, s, &info, data)
		p.loseAnswers(false)
		again(err)
	}
	if stored == 0 {
		t.Error("no append was stored whose answer was lost")
	}
}

// The server answers later than the store waits. Calls fail in time, and work again when it answers.
func TestServerIsHeldUp(t *testing.T) {
	server := testserver.Redis(t, nil)
	s := mustOpen(t, server.URL()+"?timeout=2s", nil)
	info := create(t, s, "s")
	appendN(t, s, &info, 3)
	must(t, server.Pause())
	for what, call := range map[string]func() error{
		"append": func() error { return tryOne(t, s, &info, "event") },
		"read":   func() error { _, err := s.Read(t.Context(), info.Key, 0, 100); return err },
		"list": func() error {
			_, err := s.List(t.Context(), reprise.ListQuery{AllNamespaces: true, Limit: 1})
			return err
		},
	} {
		began := time.Now()
		wantError(t, call(), reprise.ErrUnavailable)
		if took := time.Since(began); took > time.Minute {
			t.Errorf("%s failed after %v, the bound is 2s", what, took)
		}
	}
	if _, err := redisstore.Open(t.Context(), server.URL()+"?timeout=2s", nil); !isUnavailable(err) {
		t.Errorf("open: %v", err)
	}
	must(t, server.Resume())
	until(t, "appends work again", func() bool {
		page, err := s.Read(t.Context(), info.Key, 1<<62, 0)
		if err != nil {
			wantError(t, err, reprise.ErrUnavailable)
			return false
		}
		info = page.Info
		return tryOne(t, s, &info, "event") == nil
	})
	if page := read(t, s, info.Key); len(page.Batches) != int(page.Info.Tail) || page.Info.Tail > 5 {
		t.Errorf("%d batches up to %d", len(page.Batches), page.Info.Tail)
	}
}

// When its memory is full the server refuses appends whole; reads go on, streams can be removed, and then appends
// work again.
func TestServerIsFull(t *testing.T) {
	server := testserver.Redis(t, &testserver.RedisOptions{
		Config: []string{"--maxmemory", "24mb", "--maxmemory-policy", "noeviction", "--appendonly", "no"},
	})
	s := mustOpen(t, server.URL(), nil)
	info, other := create(t, s, "s"), create(t, s, "other")
	data := string(bytes.Repeat([]byte("x"), 1<<20))
	var err error
	for range 100 {
		if err = tryOne(t, s, &other, data); err != nil {
			break
		}
	}
	wantError(t, err, reprise.ErrUnavailable)
	// The server counts what it has read of a request, and gives such a buffer back after a while: that is not enough.
	large := strings.Repeat(data, 6)
	wantError(t, tryOne(t, s, &info, large), reprise.ErrUnavailable)
	if page := read(t, s, info.Key); page.Info.Tail != 0 || len(page.Batches) != 0 {
		t.Errorf("after a refusal: %+v", page)
	}
	read(t, s, other.Key)
	must(t, s.Remove(t.Context(), other.Key, reprise.RemoveSpec{Trim: 2, Kept: other.Bytes - 1<<20}))
	must(t, s.Remove(t.Context(), other.Key, reprise.RemoveSpec{Remember: time.Now().Add(time.Hour)}))
	until(t, "there is room again", func() bool { return tryOne(t, s, &info, large) == nil })
}

// A server that has too few replicas for writes, by its own settings, refuses appends whole. Reads go on.
func TestServerRefusesWrites(t *testing.T) {
	server := testserver.Redis(t, nil)
	s := mustOpen(t, server.URL(), nil)
	info := create(t, s, "s")
	appendN(t, s, &info, 3)
	command(t, server, "CONFIG", "SET", "min-replicas-to-write", "1")
	wantError(t, tryOne(t, s, &info, "event"), reprise.ErrUnavailable)
	if page := read(t, s, info.Key); page.Info.Tail != 3 || len(page.Batches) != 3 {
		t.Errorf("%+v", page)
	}
	command(t, server, "CONFIG", "SET", "min-replicas-to-write", "0")
	appendN(t, s, &info, 1)
}

// Somebody has changed bytes, or taken a batch away. What is left is served, and that is not.
func TestDamageIsNotServed(t *testing.T) {
	on := server(t)
	url := place(t, on)
	s := mustOpen(t, url, nil)
	changed, missing, whole := create(t, s, "changed"), create(t, s, "missing"), create(t, s, "whole")
	for _, info := range []*reprise.StreamInfo{&changed, &missing, &whole} {
		appendN(t, s, info, 5)
	}
	_, prefix, _ := strings.Cut(url, "prefix=")
	batches := func(info *reprise.StreamInfo) string { return prefix + ":{" + info.Key.String() + "}:batches" }
	command(t, on, "XDEL", batches(&missing), "3-0")
	entry := strings.Split(command(t, on, "XRANGE", batches(&changed), "5-0", "5-0"), "\n")
	command(t, on, "DEL", batches(&changed))
	command(t, on, "XADD", batches(&changed), "5-0", "h", entry[2], "b", "evend")

	for _, info := range []*reprise.StreamInfo{&changed, &missing} {
		_, err := s.Read(t.Context(), info.Key, 0, 1<<20)
		wantError(t, err, redisstore.ErrDamaged)
		if isUnavailable(err) || errors.Is(err, reprise.ErrNotFound) {
			t.Errorf("damage may pass: %v", err)
		}
	}
	_, err := s.Read(t.Context(), changed.Key, 4, 1<<20)
	wantError(t, err, redisstore.ErrDamaged)
	read(t, s, whole.Key)
	wrong, err := s.Check(t.Context())
	must(t, err)
	if len(wrong) != 2 {
		t.Errorf("Check says %q", wrong)
	}
	stats, err := s.Stats(t.Context())
	must(t, err)
	if stats.Streams != 3 || stats.Events != 15 || stats.KeptBytes != 75 || stats.Nodes != 1 || stats.MemoryBytes == 0 {
		t.Errorf("%+v", stats)
	}
}

// Whoever watches is told when the connection is back, since changes may have been missed.
func TestWatchOverARestart(t *testing.T) {
	server := testserver.Redis(t, nil)
	s, other := mustOpen(t, server.URL(), nil), mustOpen(t, server.URL(), nil)
	info := create(t, other, "s")
	var moved atomic.Int64
	stop, err := s.Watch(info.Key, func() { moved.Add(1) })
	must(t, err)
	defer stop()
	rises := func(what string, do func()) {
		before := moved.Load()
		do()
		until(t, what, func() bool { return moved.Load() > before })
	}
	until(t, "it listens", func() bool { return moved.Load() > 0 })
	rises("an append", func() { appendN(t, other, &info, 1) })
	must(t, server.Kill())
	rises("a restart", func() { must(t, server.Start()) })
	rises("an append after it", func() {
		until(t, "the server is back", func() bool { return tryOne(t, other, &info, "event") == nil })
	})
	rises("a lost connection", func() { command(t, server, "CLIENT", "KILL", "TYPE", "pubsub") })
	info = read(t, s, info.Key).Info
	rises("its other connections are back", func() {
		until(t, "s appends", func() bool { return tryOne(t, s, &info, "event") == nil })
		must(t, tryOne(t, other, &info, "event"))
	})
	before := moved.Load()
	appendN(t, s, &info, 5)
	time.Sleep(50 * time.Millisecond)
	if now := moved.Load(); now != before {
		t.Errorf("a store heard its own appends: %d calls", now-before)
	}
}
