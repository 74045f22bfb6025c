package linear

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"reprise/internal/testserver"
)

// engines are the stores that replicas share.
var engines = map[string]func(t *testing.T) string{
	"redis":    func(t *testing.T) string { return testserver.Redis(t, nil).URL() },
	"postgres": func(t *testing.T) string { return testserver.Postgres(t, nil).URL() },
	"nats":     func(t *testing.T) string { return testserver.NATS(t, nil).URL() },
}

const (
	engineStreams = 5
	writers       = 4
	pollers       = 8
	writes        = 12 // per writer
	polls         = 12 // per poller
)

// TestEnginesAreLinearizableUnderFaults (R2.10, R7.5) runs two replicas in separate processes, four writers and eight
// readers. Meanwhile replicas are killed and restarted, stopped and continued, and their connections to the engine are
// cut. Writers retry each write, at any replica, until it is acknowledged. Porcupine checks the histories.
func TestEnginesAreLinearizableUnderFaults(t *testing.T) {
	for name, start := range engines {
		t.Run(name, func(t *testing.T) {
			w := openFixture(t, start(t))
			for i := range engineStreams {
				w.record(uint64(i)).check(t)
				if t.Failed() {
					return
				}
			}
			t.Logf("%d kills, %d pauses, %d cuts", w.kills, w.pauses, w.cuts)
			if w.kills == 0 || w.pauses == 0 || w.cuts == 0 {
				t.Error("the trouble did not come")
			}
		})
	}
}

// fixture is two replicas and the faults injected into them.
type fixture struct {
	t     *testing.T
	url   string // of the engine, through the proxy
	keys  string
	proxy *proxy

	mu       sync.Mutex
	replicas [2]*replica

	kills, pauses, cuts int
}

func openFixture(t *testing.T, engine string) *fixture {
	t.Helper()
	u, err := url.Parse(engine)
	if err != nil {
		t.Fatal(err)
	}
	w := &fixture{t: t, proxy: openProxy(t, u.Host)}
	u.Host = w.proxy.addr()
	w.url = u.String()
	w.keys = "test " + "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	for i := range w.replicas {
		w.start(i)
	}
	t.Cleanup(func() {
		for _, r := range w.replicas {
			if r != nil {
				r.signal(syscall.SIGCONT)
				r.kill()
			}
		}
	})
	return w
}

// start starts replica i, repeatedly while the engine is unreachable.
func (w *fixture) start(i int) {
	var r *replica
	var err error
	for range 400 {
		if r, err = startReplica(w.url, w.keys); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		w.t.Error(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replicas[i] = r
}

// call sends a request to replica i, or to the other one if i has died. ok is false if both have.
func (w *fixture) call(i int, q request) (response, bool) {
	w.mu.Lock()
	r := w.replicas[i%2]
	w.mu.Unlock()
	if r == nil {
		return response{}, false
	}
	return r.call(q)
}

// record runs callers and faults on a new stream.
func (w *fixture) record(seed uint64) *history {
	h := &history{seed: seed, start: time.Now()}
	stream := fmt.Sprint("s/", seed)
	for {
		if p, ok := w.call(0, request{Op: "create", Stream: stream}); ok && p.Err == "" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	var callers, trouble sync.WaitGroup
	var done atomic.Bool
	for i := range writers {
		callers.Go(func() { w.writer(h, stream, i) })
	}
	for i := range pollers {
		callers.Go(func() { w.poller(h, stream, writers+i) })
	}
	trouble.Go(func() {
		rnd := rand.New(rand.NewPCG(seed, 99))
		for !done.Load() {
			time.Sleep(time.Duration(20+rnd.IntN(60)) * time.Millisecond)
			w.disturb(rnd)
		}
	})
	callers.Wait()
	done.Store(true)
	trouble.Wait()
	return h
}

// disturb injects one fault.
func (w *fixture) disturb(rnd *rand.Rand) {
	i := rnd.IntN(2)
	w.mu.Lock()
	r := w.replicas[i]
	w.mu.Unlock()
	switch what := rnd.IntN(4); {
	case r == nil:
	case what == 0:
		w.kills++
		r.kill()
		w.start(i)
	case what == 1:
		w.pauses++
		r.signal(syscall.SIGSTOP)
		time.Sleep(time.Duration(rnd.IntN(300)) * time.Millisecond)
		r.signal(syscall.SIGCONT)
	default:
		w.cuts++
		w.proxy.cut()
	}
}

// writer appends one or two events at a time; the last write of the first writer ends the stream.
func (w *fixture) writer(h *history, stream string, caller int) {
	rnd := rand.New(rand.NewPCG(h.seed, uint64(caller)))
	for n := range writes {
		in := input{op: "write", ids: []int{h.newID()}}
		if n == writes-1 && caller == 0 {
			in.op = "end"
		} else if rnd.IntN(2) == 0 {
			in.ids = append(in.ids, h.newID())
		}
		q := request{
			Op: in.op, Stream: stream, Producer: fmt.Sprint("w", caller), Seq: uint64(n), Events: in.ids,
		}
		begin := time.Since(h.start)
		p := w.surely(rnd, q)
		h.tail.Store(max(h.tail.Load(), p.Last))
		h.add(caller, begin, in, output{err: p.Err, first: p.First, last: p.Last})
		if p.Err != "" {
			return
		}
		time.Sleep(time.Duration(rnd.IntN(40)) * time.Millisecond)
	}
}

// surely asks one replica after the other until one answers.
func (w *fixture) surely(rnd *rand.Rand, q request) response {
	for {
		p, ok := w.call(rnd.IntN(2), q)
		if ok && p.Err != again {
			return p
		}
		time.Sleep(time.Duration(1+rnd.IntN(10)) * time.Millisecond)
	}
}

// poller shows the stream and reads from positions in it.
func (w *fixture) poller(h *history, stream string, caller int) {
	rnd := rand.New(rand.NewPCG(h.seed, uint64(caller)))
	for range polls {
		in, q := input{op: "info"}, request{Op: "info", Stream: stream}
		if rnd.IntN(4) > 0 {
			tail := h.tail.Load()
			in = input{op: "poll", after: tail + 1 - min(tail+1, rnd.Uint64N(window+1))}
			q = request{Op: "poll", Stream: stream, After: in.after}
		}
		begin := time.Since(h.start)
		p, ok := w.call(rnd.IntN(2), q)
		if ok && p.Err != again {
			h.add(caller, begin, in, output{
				err: p.Err, first: p.First, last: p.Last, ids: p.Events, earliest: p.Earliest, tail: p.Tail,
				ended: p.Ended,
			})
		}
		time.Sleep(time.Duration(rnd.IntN(60)) * time.Millisecond)
	}
}

// proxy forwards connections until they are cut.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	conns map[net.Conn]bool
	done  sync.WaitGroup
}

func openProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: target, conns: map[net.Conn]bool{}}
	p.done.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.cut()
		p.done.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		p.done.Go(func() { p.pass(client, server) })
		p.done.Go(func() { p.pass(server, client) })
	}
}

func (p *proxy) pass(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range []net.Conn{from, to} {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// cut cuts all connections, even in the middle of data.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}
