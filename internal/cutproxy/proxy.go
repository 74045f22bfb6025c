// Package cutproxy simulates a faulty network between a client and a server: a proxy that cuts, stalls, slows down and
// refuses connections, or answers them itself, at chosen bytes. "reprise proxy" and the tests use it.
package cutproxy

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Options are the settings of a Proxy.
type Options struct {
	// Listen is the address to listen on. Default: a free port of 127.0.0.1.
	Listen string
	// Plan determines the fault of each connection; nil forwards all connections.
	Plan Plan
	// On, if not empty, is the text of a client from which on a Delay counts. A connection without the text is not cut
	// by a Delay.
	On string
	// Report, if not nil, is called with each fault as it happens; n is 1 for the first one. Several goroutines call
	// it.
	Report func(n int, f Fault)
}

// Proxy passes connections on to a target. It is safe for concurrent use.
type Proxy struct {
	listener net.Listener
	opts     Options

	mu     sync.Mutex
	plan   Plan
	target string
	done   int               // faults of the plan
	faults int               // all of them
	conns  map[net.Conn]bool // true for those to clients
	closed bool
	wg     sync.WaitGroup

	passed atomic.Int64
}

// Listen starts a Proxy for target, for example "127.0.0.1:7070". opts may be nil.
func Listen(target string, opts *Options) (*Proxy, error) {
	p := &Proxy{target: target, conns: map[net.Conn]bool{}}
	if opts != nil {
		p.opts = *opts
	}
	p.plan = p.opts.Plan
	address := p.opts.Listen
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	p.listener = listener
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is the address that p listens on.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Faults returns the number of faults so far, including those of Cut.
func (p *Proxy) Faults() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults
}

// Passed returns the number of forwarded bytes of answers, over all connections.
func (p *Proxy) Passed() int64 { return p.passed.Load() }

// SetPlan replaces the plan for new connections, and counts its faults from 0. nil forwards connections.
func (p *Proxy) SetPlan(plan Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan, p.done = plan, 0
}

// SetTarget resets all connections and passes new ones on to another target.
func (p *Proxy) SetTarget(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.Cut()
}

// Cut resets all connections, whatever is on its way.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn, isClient := range p.conns {
		reset(conn)
		if isClient {
			p.faults++
		}
	}
}

// Close resets all connections and returns when all goroutines of p have ended.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.Cut()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many files
			time.Sleep(10 * time.Millisecond)
			continue
		}
		p.wg.Go(func() { p.serve(conn) })
	}
}

// serve applies the plan to a connection.
func (p *Proxy) serve(conn net.Conn) {
	client := conn.(*net.TCPConn)
	fault, target := p.next()
	if fault != nil && answers[fault.Kind] != nil && p.report(*fault) {
		p.track(client)
		defer p.forget(client)
		answers[fault.Kind](client, fault)
		return
	}
	dialed, err := net.Dial("tcp", target)
	if err != nil {
		reset(client)
		return
	}
	server := dialed.(*net.TCPConn)
	if !p.track(client, server) {
		return
	}
	defer p.forget(client, server)
	link := &link{proxy: p, client: client, server: server}
	switch {
	case fault == nil || answers[fault.Kind] != nil || fault.Kind == Foreign && !p.report(*fault):
		link.pass()
	case fault.Kind == Foreign:
		link.interleave(cmp.Or(fault.Text, foreignEvent))
	default:
		link.fail(fault)
	}
}

func (p *Proxy) next() (fault *Fault, target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.plan != nil {
		fault = p.plan(p.done)
	}
	return fault, p.target
}

// report counts a fault that is due. It is false if it must not happen: others have used up the plan meanwhile.
func (p *Proxy) report(f Fault) bool {
	p.mu.Lock()
	if p.plan == nil || p.plan(p.done) == nil {
		p.mu.Unlock()
		return false
	}
	p.done++
	p.faults++
	n := p.done
	p.mu.Unlock()
	if p.opts.Report != nil {
		p.opts.Report(n, f)
	}
	return true
}

// track makes connections known to Cut, that to the client first. It is false, and they are closed, if p is closed.
func (p *Proxy) track(conns ...*net.TCPConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, conn := range conns {
		if p.closed {
			reset(conn)
			continue
		}
		p.conns[conn] = i == 0
	}
	return !p.closed
}

func (p *Proxy) forget(conns ...*net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		delete(p.conns, conn)
		_ = conn.Close()
	}
}

// reset closes a connection so that unread data are lost.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// link is one connection that is passed on.
type link struct {
	proxy          *Proxy
	client, server *net.TCPConn
}

// pass carries both ways until they have ended.
func (l *link) pass() {
	var requests sync.WaitGroup
	requests.Go(func() { l.requests(l.client) })
	l.answers(-1)
	_ = l.client.CloseWrite()
	requests.Wait()
}

// requests forwards the data of the client, read from from, until their end.
func (l *link) requests(from io.Reader) {
	if _, err := io.Copy(l.server, from); err != nil { // the client was reset, so the server is
		reset(l.server)
		return
	}
	_ = l.server.CloseWrite()
}

// answers carries at most n bytes to the client, or all if n is negative, and reports whether there may be more.
func (l *link) answers(n int64) bool {
	var from io.Reader = l.server
	if n >= 0 {
		from = io.LimitReader(l.server, n)
	}
	copied, err := io.Copy(&counted{l.client, &l.proxy.passed}, from)
	if err != nil {
		reset(l.client)
		reset(l.server)
	}
	return copied == n && err == nil
}

// counted counts what is written, as it is written.
type counted struct {
	io.Writer
	n *atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// fail carries the connection up to the place of the fault, and then does it.
func (l *link) fail(f *Fault) {
	var requests sync.WaitGroup
	if f.Delay > 0 {
		l.failLater(f, &requests)
		requests.Wait()
		return
	}
	asked := make(chan struct{})
	requests.Go(func() {
		l.requests(&watched{Reader: l.client, seen: sync.OnceFunc(func() { close(asked) })})
	})
	defer requests.Wait()
	<-asked // a cut before the first byte of the answer is one after the request
	if !l.answers(f.After) {
		_ = l.client.CloseWrite()
		return // it has ended by itself
	}
	if !l.proxy.report(*f) {
		l.answers(-1)
		_ = l.client.CloseWrite()
		return
	}
	switch f.Kind {
	case FIN:
		_ = l.client.CloseWrite()
		_ = l.client.Close()
		reset(l.server)
	case RST:
		reset(l.client)
		reset(l.server)
	case Half:
		_ = l.client.CloseWrite()
	case Slow:
		l.slow(f.Pace)
	case Stall: // until the client leaves
	}
}

// failLater passes the connection on until its time is over.
func (l *link) failLater(f *Fault, requests *sync.WaitGroup) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := time.AfterFunc(1<<62, func() { // not yet
		if ctx.Err() != nil || !l.proxy.report(*f) {
			return
		}
		if f.Kind == RST {
			reset(l.client)
		}
		_ = l.client.Close()
		reset(l.server)
	})
	defer timer.Stop()
	requests.Go(func() {
		l.requests(&watched{Reader: l.client, text: []byte(l.proxy.opts.On), seen: func() { timer.Reset(f.Delay) }})
	})
	l.answers(-1)
	_ = l.client.CloseWrite()
}

// slow passes the rest on a byte at a time.
func (l *link) slow(pace time.Duration) {
	if pace == 0 {
		pace = time.Millisecond
	}
	tick := time.NewTicker(pace)
	defer tick.Stop()
	one := make([]byte, 1)
	for {
		if _, err := l.server.Read(one); err != nil {
			_ = l.client.CloseWrite()
			return
		}
		if _, err := l.client.Write(one); err != nil {
			reset(l.server)
			return
		}
		<-tick.C
	}
}
