package natsstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"reprise"
	"reprise/internal/testserver"
	"reprise/store/natsstore"
)

// tail asks until there is an answer.
func tail(t *testing.T, s *natsstore.Store, key reprise.StreamKey) *reprise.StreamInfo {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		page, err := s.Read(t.Context(), key, 1<<63, 0)
		if err == nil {
			return &page.Info
		}
		if !errors.Is(err, reprise.ErrUnavailable) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// all reads all events that are kept. Each batch of these tests says which event it begins with.
func all(t *testing.T, s *natsstore.Store, key reprise.StreamKey) (batches []reprise.Batch) {
	t.Helper()
	for after := uint64(0); ; {
		page, err := s.Read(t.Context(), key, after, 1<<20)
		must(t, err)
		if len(page.Batches) == 0 {
			if after != page.Info.Tail {
				t.Fatalf("the batches end with %d, the tail is %d", after, page.Info.Tail)
			}
			return batches
		}
		for _, b := range page.Batches {
			if want := label(b.First); !strings.HasPrefix(string(b.Bytes), want) {
				t.Fatalf("the batch that begins with %d holds %.20q, want %q", b.First, b.Bytes, want)
			}
		}
		batches = append(batches, page.Batches...)
		after = batches[len(batches)-1].Last()
	}
}

func label(first uint64) string { return fmt.Sprintf("%d;", first) }

// appender appends batches of one event to a stream, whatever happens, until it is told to stop. acknowledged is the
// last event of which it is sure.
type appender struct {
	s            *natsstore.Store
	info         reprise.StreamInfo
	acknowledged atomic.Uint64
	failures     atomic.Int64
}

func (a *appender) run(ctx context.Context, size int) error {
	pad := strings.Repeat("x", size)
	for ctx.Err() == nil {
		req := request(&a.info, 1, nil)
		req.Bytes = []byte(label(req.First) + pad)
		errs := a.s.Append(context.Background(), []reprise.AppendRequest{req})
		if errs == nil {
			a.info.Tail = req.First
			a.acknowledged.Store(req.First)
			continue
		}
		a.failures.Add(1)
		if !errors.Is(errs[0], reprise.ErrUnavailable) && !errors.Is(errs[0], reprise.ErrConflict) &&
			!errors.Is(errs[0], reprise.ErrNotFound) { // after a restart it is in another epoch
			return errs[0]
		}
		for ctx.Err() == nil { // what has failed may have been stored, as a Log finds out too
			page, err := a.s.Read(context.Background(), a.info.Key, 1<<63, 0)
			if err == nil {
				if page.Info.Tail < a.acknowledged.Load() {
					return fmt.Errorf("the tail is %d, and %d was acknowledged", page.Info.Tail, a.acknowledged.Load())
				}
				a.info = page.Info
				break
			}
			if !errors.Is(err, reprise.ErrUnavailable) {
				return err
			}
		}
	}
	return nil
}

// openWhenThere opens a place as soon as the servers answer for it.
func openWhenThere(t *testing.T, where string) *natsstore.Store {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		s, err := natsstore.Open(t.Context(), where, nil)
		if err == nil {
			t.Cleanup(func() { must(t, s.Close()) })
			return s
		}
		if !errors.Is(err, reprise.ErrUnavailable) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestOpenAsksAgain: while a cluster elects a leader, requests are lost. Here each that opens a store is lost once.
func TestOpenAsksAgain(t *testing.T) {
	server := testserver.NATS(t, nil)
	conn, err := nats.Connect(server.URL())
	must(t, err)
	defer conn.Close()
	seen := map[string]bool{}
	_, err = conn.Subscribe("$JS.lossy.API.>", func(msg *nats.Msg) {
		subject := strings.Replace(msg.Subject, ".lossy", "", 1)
		if strings.Contains(subject, ".STREAM.") && !seen[subject] {
			seen[subject] = true
			return
		}
		_ = conn.PublishMsg(&nats.Msg{Subject: subject, Reply: msg.Reply, Data: msg.Data})
	})
	must(t, err)
	must(t, conn.Flush())
	s, err := natsstore.Open(t.Context(), place(server, "&timeout=25s&domain=lossy"), nil)
	must(t, err)
	must(t, s.Close())
	if len(seen) != 4 {
		t.Errorf("lost were %v, want two requests for each of two streams", seen)
	}
}

// underLoad appends to a few streams while disturb runs, and checks what is there afterwards.
func underLoad(t *testing.T, where string, disturb func(progress func())) {
	t.Helper()
	s := openAt(t, where)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	appenders := make([]*appender, 4)
	errs := make([]error, len(appenders))
	for i := range appenders {
		appenders[i] = &appender{s: s, info: create(t, s, fmt.Sprint("load/", i))}
		wg.Go(func() { errs[i] = appenders[i].run(ctx, 100) })
	}
	disturb(func() { // waits until every appender has got somewhere
		for _, a := range appenders {
			from := a.acknowledged.Load()
			deadline := time.Now().Add(2 * time.Minute)
			for a.acknowledged.Load() < from+20 && time.Now().Before(deadline) {
				time.Sleep(5 * time.Millisecond)
			}
			if a.acknowledged.Load() < from+20 {
				t.Error("appends do not go on")
			}
		}
	})
	cancel()
	wg.Wait()
	must(t, errors.Join(errs...))
	other := openWhenThere(t, where)
	for _, a := range appenders {
		if got, want := tail(t, other, a.info.Key).Tail, a.acknowledged.Load(); got < want {
			t.Errorf("%s: the tail is %d, and %d was acknowledged", a.info.Key, got, want)
		}
		all(t, other, a.info.Key)
		t.Logf("%s: %d events, %d failed appends", a.info.Key, a.acknowledged.Load(), a.failures.Load())
	}
}

// What was acknowledged outlives a server that is killed, and nothing is there twice.
func TestKilledUnderLoad(t *testing.T) {
	server := testserver.NATS(t, nil)
	underLoad(t, place(server, "&timeout=2s"), func(progress func()) {
		for range 4 {
			progress()
			must(t, server.Kill())
			must(t, server.Start())
		}
		progress()
	})
}

// A server that is held up is answered with an error in the time that was said, and is used again when it goes on.
func TestHeldUp(t *testing.T) {
	server := testserver.NATS(t, nil)
	const timeout = 3 * time.Second
	s := openAt(t, place(server, "&timeout=3s"))
	info := create(t, s, "s")
	appendTo(t, s, &info, 1, []byte(label(1)))
	must(t, server.Pause())
	calls := map[string]func() error{
		"Append": func() error {
			return s.Append(context.Background(), []reprise.AppendRequest{request(&info, 1, []byte(label(2)))})[0]
		},
		"Append of more than the connection takes": func() error {
			return s.Append(context.Background(), []reprise.AppendRequest{request(&info, 1, make([]byte, 32<<20))})[0]
		},
		"Read":  func() error { _, err := s.Read(context.Background(), info.Key, 0, 1<<20); return err },
		"List":  func() error { _, err := s.List(context.Background(), reprise.ListQuery{Limit: 1}); return err },
		"Sizes": func() error { _, err := s.Sizes(context.Background()); return err },
		"Sweep": func() error { _, err := s.Sweep(context.Background(), time.Now(), time.Now(), 1); return err },
		"Remove": func() error {
			return s.Remove(context.Background(), info.Key, reprise.RemoveSpec{Trim: 2})
		},
	}
	var wg sync.WaitGroup
	for what, call := range calls {
		wg.Go(func() {
			start := time.Now()
			if err := call(); !errors.Is(err, reprise.ErrUnavailable) {
				t.Errorf("%s: %v, want ErrUnavailable", what, err)
			}
			if took := time.Since(start); took > timeout+time.Minute {
				t.Errorf("%s took %v, its bound is %v", what, took, timeout)
			}
		})
	}
	wg.Wait()
	must(t, server.Resume())
	for { // the append that was held up may come in late
		info.Tail = tail(t, s, info.Key).Tail
		errs := s.Append(t.Context(), []reprise.AppendRequest{request(&info, 1, []byte(label(info.Tail+1)))})
		if errs == nil {
			break
		}
		if !errors.Is(errs[0], reprise.ErrConflict) && !errors.Is(errs[0], reprise.ErrUnavailable) {
			t.Fatal(errs[0])
		}
	}
	all(t, s, info.Key)
}

// A server loses events that it has acknowledged, as one that does not sync may when it loses its power: the stream
// goes on in another epoch, and nothing else of it is lost.
func TestLostEvents(t *testing.T) {
	server := testserver.NATS(t, nil)
	where := place(server, "&timeout=3s&restart=keeps") // so that it is found by who has seen what was lost
	s, other := openAt(t, where), openAt(t, where)
	info, untouched := create(t, s, "s"), create(t, s, "untouched")
	appendTo(t, s, &untouched, 1, []byte(label(1)))
	for range 10 {
		appendTo(t, s, &info, 1, []byte(label(info.Tail+1)))
	}
	before := filepath.Join(t.TempDir(), "before")
	must(t, server.Kill())
	must(t, os.CopyFS(before, os.DirFS(server.Dir())))
	must(t, server.Start())
	for range 5 {
		info.Tail = tail(t, s, info.Key).Tail
		appendTo(t, s, &info, 1, []byte(label(info.Tail+1)))
	}
	if got := len(all(t, other, info.Key)); got != 15 {
		t.Fatalf("%d events before the loss", got)
	}
	must(t, server.Kill())
	must(t, os.RemoveAll(server.Dir()))
	must(t, os.CopyFS(server.Dir(), os.DirFS(before)))
	must(t, server.Start())

	for _, store := range []*natsstore.Store{s, other} {
		after := tail(t, store, info.Key)
		if after.Epoch == info.Epoch || after.Tail != 10 {
			t.Errorf("epoch %s, tail %d after the loss of 5 of 15 events; the epoch was %s",
				after.Epoch, after.Tail, info.Epoch)
		}
		want := []reprise.Ancestor{{Epoch: info.Epoch, Fork: 10}}
		if !slices.Equal(after.Lineage, want) {
			t.Errorf("the lineage is %v, want %v", after.Lineage, want)
		}
		errs := store.Append(t.Context(), []reprise.AppendRequest{request(&info, 1, []byte(label(info.Tail+1)))})
		if errs == nil || !errors.Is(errs[0], reprise.ErrNotFound) {
			t.Errorf("an append in the epoch before the loss: %v", errs)
		}
		if got := len(all(t, store, info.Key)); got != 10 {
			t.Errorf("%d events can be read after the loss", got)
		}
		if got := tail(t, store, untouched.Key); got.Epoch != untouched.Epoch || got.Tail != 1 {
			t.Errorf("a stream that has lost nothing: %+v", got)
		}
	}
	again := *tail(t, s, info.Key)
	now := time.Now()
	for range 20 {
		req := request(&again, 1, []byte(label(again.Tail+1)))
		if again.Tail == 29 {
			req.End = &reprise.End{Outcome: "completed", Time: now, Expires: now}
		}
		if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); errs != nil {
			t.Fatal(errs[0])
		}
		again.Tail = req.First
	}
	if got := tail(t, other, info.Key).Lineage; len(got) != 1 || got[0].Fork != 10 {
		t.Errorf("the lineage is %v in the end", got)
	}
	if got := len(all(t, other, info.Key)); got != 30 {
		t.Errorf("%d events in the end, want 30", got)
	}
	swept, err := other.Sweep(t.Context(), now.Add(time.Second), now.Add(time.Hour), 10)
	must(t, err)
	if len(swept) != 1 {
		t.Errorf("%d streams were swept, want 1", len(swept))
	}
}

// A connection is cut at every place of an append and its answer: the batch is stored or not, and never twice.
func TestCutAppends(t *testing.T) {
	server := testserver.NATS(t, nil)
	cutter := newCutter(t, server.Addr())
	where := strings.Replace(place(server, "&timeout=2s"), server.Addr(), cutter.addr(), 1)
	s := openAt(t, where)
	info := create(t, s, "s")
	appendTo(t, s, &info, 1, []byte(label(1)))
	stored, lost := 0, 0
	for n := 0; n < 900; n += 37 {
		req := request(&info, 1, nil)
		req.Bytes = []byte(label(req.First) + strings.Repeat("x", 300))
		cutter.cutAfter(n)
		errs := s.Append(t.Context(), []reprise.AppendRequest{req})
		cutter.cutAfter(-1)
		after := tail(t, s, info.Key).Tail
		switch {
		case errs == nil && after != req.First:
			t.Fatalf("event %d was acknowledged, the tail is %d", req.First, after)
		case errs != nil && !errors.Is(errs[0], reprise.ErrUnavailable):
			t.Fatal(errs[0])
		case after == req.First:
			stored++
		case after == info.Tail:
			lost++
		default:
			t.Fatalf("the tail is %d after an append at %d", after, req.First)
		}
		info.Tail = after
	}
	all(t, s, info.Key)
	if stored == 0 || lost == 0 {
		t.Errorf("%d batches were stored and %d not: the cuts are not where they should be", stored, lost)
	}
}

// cutter is a proxy that cuts connections.
type cutter struct {
	listener net.Listener
	target   string
	left     atomic.Int64 // bytes that still pass, negative for no end
	held     atomic.Pointer[hold]
	wg       sync.WaitGroup
	mu       sync.Mutex
	conns    map[net.Conn]struct{}
}

func newCutter(t *testing.T, target string) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	c := &cutter{listener: l, target: target, conns: map[net.Conn]struct{}{}}
	c.left.Store(-1)
	c.wg.Go(c.serve)
	t.Cleanup(func() {
		_ = l.Close()
		c.cut()
		c.wg.Wait()
	})
	return c
}

func (c *cutter) addr() string { return c.listener.Addr().String() }

// cutAfter cuts all connections once so many bytes have passed, in both directions together. Negative: never.
func (c *cutter) cutAfter(bytes int) { c.left.Store(int64(bytes)) }

// hold is what a cutter does in place of passing on a text: it calls instead, and cuts all connections.
type hold struct {
	text    []byte
	instead func()
}

// cutInstead calls instead once when a text would pass, and cuts all connections then.
func (c *cutter) cutInstead(text string, instead func()) { c.held.Store(&hold{[]byte(text), instead}) }

func (c *cutter) serve() {
	for {
		from, err := c.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", c.target)
		if err != nil {
			_ = from.Close()
			continue
		}
		c.mu.Lock()
		c.conns[from], c.conns[to] = struct{}{}, struct{}{}
		c.mu.Unlock()
		c.wg.Go(func() { c.pass(from, to) })
		c.wg.Go(func() { c.pass(to, from) })
	}
}

func (c *cutter) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if h := c.held.Load(); h != nil && bytes.Contains(b[:n], h.text) && c.held.CompareAndSwap(h, nil) {
			h.instead()
			c.cut()
			return
		}
		if left := c.left.Load(); left >= 0 {
			if int64(n) > left {
				_, _ = to.Write(b[:left])
				c.left.Store(-1)
				c.cut()
				return
			}
			c.left.Add(-int64(n))
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		_ = conn.Close()
		delete(c.conns, conn)
	}
}

// A replica that watches is told after the server was away, once it can see changes again.
func TestWatchAcrossARestart(t *testing.T) {
	server := testserver.NATS(t, nil)
	where := place(server, "&timeout=2s")
	watching, other := openAt(t, where), openAt(t, where)
	info := create(t, other, "s")
	moved := make(chan struct{}, 1)
	stop, err := watching.Watch(info.Key, func() {
		select {
		case moved <- struct{}{}:
		default:
		}
	})
	must(t, err)
	defer stop()
	told := func(what string) {
		t.Helper()
		select {
		case <-moved:
		case <-time.After(2 * time.Minute):
			t.Fatalf("not told %s", what)
		}
	}
	told("that it watches")
	for range 3 {
		must(t, server.Kill())
		must(t, server.Start())
		told("that changes may have been missed")
		info = *tail(t, other, info.Key)
		appendTo(t, other, &info, 1, []byte(label(info.Tail+1)))
		told("of an append after the restart")
	}
}

// A full server refuses appends with the reason, and takes them again when there is room.
func TestFullServerRefusesWithReason(t *testing.T) {
	for _, c := range []struct {
		name, params string
		opts         *testserver.NATSOptions
	}{
		{"stream", "&max_bytes=2000000", nil},
		{"server", "", &testserver.NATSOptions{JetStream: "max_file_store: 2MB"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openAt(t, place(testserver.NATS(t, c.opts), c.params))
			old, info := create(t, s, "old"), create(t, s, "s")
			for i := range 5 {
				appendTo(t, s, &old, 1, append([]byte(label(uint64(i+1))), make([]byte, 100_000)...))
			}
			var refusal error
			for range 100 {
				req := request(&info, 1, nil)
				req.Bytes = append([]byte(label(req.First)), make([]byte, 100_000)...)
				if errs := s.Append(t.Context(), []reprise.AppendRequest{req}); errs != nil {
					refusal = errs[0]
					break
				}
				info.Tail, info.Bytes = req.First, req.Kept
			}
			if !errors.Is(refusal, reprise.ErrUnavailable) {
				t.Fatalf("a store that is full: %v, want ErrUnavailable", refusal)
			}
			if got := len(all(t, s, info.Key)); got != int(info.Tail) {
				t.Errorf("%d batches can be read, %d were stored", got, info.Tail)
			}
			t.Logf("full after %d batches: %v", info.Tail, refusal)
			must(t, s.Remove(t.Context(), old.Key, reprise.RemoveSpec{}))
			for deadline := time.Now().Add(2 * time.Minute); ; {
				req := request(&info, 1, nil)
				req.Bytes = append([]byte(label(req.First)), make([]byte, 100_000)...)
				errs := s.Append(t.Context(), []reprise.AppendRequest{req})
				if errs == nil {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal(errs[0])
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
}

// A login that is refused is said at Open, without the password.
func TestRefusedLogin(t *testing.T) {
	server := testserver.NATS(t, &testserver.NATSOptions{User: "somebody", Password: "right-secret"})
	for _, login := range []string{"somebody:wrong-secret@", ""} {
		where := "nats://" + login + server.Addr()
		_, err := natsstore.Open(t.Context(), where, nil)
		if !errors.Is(err, reprise.ErrInvalid) || errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("login %q: %v", login, err)
		}
		if err != nil && strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("the error tells the password: %v", err)
		}
	}
	must(t, openAt(t, server.URL()).Close())
}

func TestTLS(t *testing.T) {
	server := testserver.NATS(t, &testserver.NATSOptions{TLS: true})
	s := openAt(t, server.URL()+"?ca="+server.CAFile())
	info := create(t, s, "s")
	appendTo(t, s, &info, 1, []byte(label(1)))
	all(t, s, info.Key)
	if s, err := natsstore.Open(t.Context(), server.URL(), nil); err == nil {
		must(t, s.Close())
		t.Error("a certificate that nobody knows was taken")
	}
	plain := testserver.NATS(t, nil)
	if s, err := natsstore.Open(t.Context(), "tls://"+plain.Addr(), nil); !errors.Is(err, reprise.ErrUnavailable) {
		t.Errorf("tls:// to a server without TLS: %v", err)
		if err == nil {
			must(t, s.Close())
		}
	}
}
