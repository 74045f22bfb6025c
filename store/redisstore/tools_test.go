package redisstore_test

import (
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"reprise"
	"reprise/store/redisstore"
)

func mustOpen(tb testing.TB, url string, opts *redisstore.Options) *redisstore.Store {
	tb.Helper()
	s, err := redisstore.Open(tb.Context(), url, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { must(tb, s.Close()) })
	return s
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func create(tb testing.TB, s *redisstore.Store, name string) reprise.StreamInfo {
	tb.Helper()
	info := reprise.StreamInfo{
		Key:     reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: name},
		Epoch:   reprise.NewEpoch(),
		Created: time.Now(),
	}
	info, err := s.Create(tb.Context(), info)
	must(tb, err)
	return info
}

// one is the append of one event behind the tail of info.
func one(info *reprise.StreamInfo, data []byte) reprise.AppendRequest {
	info.Tail++
	info.Bytes += int64(len(data))
	return reprise.AppendRequest{
		Key:      info.Key,
		Epoch:    info.Epoch,
		First:    info.Tail,
		Count:    1,
		Bytes:    data,
		Earliest: info.Earliest,
		Kept:     info.Bytes,
	}
}

// tryOne appends one event, and forgets about it if that fails.
func tryOne(tb testing.TB, s *redisstore.Store, info *reprise.StreamInfo, data string) error {
	before := *info
	errs := s.Append(tb.Context(), []reprise.AppendRequest{one(info, []byte(data))})
	if errs == nil {
		return nil
	}
	*info = before
	return errs[0]
}

// appendN appends so many events, each in a batch of its own.
func appendN(tb testing.TB, s *redisstore.Store, info *reprise.StreamInfo, n int) {
	tb.Helper()
	for range n {
		must(tb, tryOne(tb, s, info, "event"))
	}
}

func wantError(tb testing.TB, err, want error) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Fatalf("the error is %v, want %v", err, want)
	}
}

// read reads all of a stream.
func read(tb testing.TB, s *redisstore.Store, key reprise.StreamKey) reprise.Page {
	tb.Helper()
	page, err := s.Read(tb.Context(), key, 0, 1<<30)
	must(tb, err)
	return page
}

// until calls done until it returns true.
func until(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	const patience = 2 * time.Minute
	for deadline := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("%s: not after %v", what, patience)
		}
	}
}

// proxy stands between a Store and a server, and cuts their connections.
type proxy struct {
	listener net.Listener
	done     sync.WaitGroup

	mu     sync.Mutex
	target string
	conns  map[net.Conn]struct{}
	left   int  // bytes towards the server until all are cut; 0 is no bound
	deaf   bool // all are cut when the server answers
}

func newProxy(tb testing.TB, target string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(tb, err)
	p := &proxy{listener: l, target: target, conns: map[net.Conn]struct{}{}}
	p.done.Go(p.accept)
	tb.Cleanup(func() {
		must(tb, l.Close())
		p.cut()
		p.done.Wait()
	})
	return p
}

// url is that of a server, through the proxy.
func (p *proxy) url(of string) string {
	return strings.Replace(of, p.target, p.listener.Addr().String(), 1)
}

func (p *proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		far, err := net.Dial("tcp", p.target)
		if err != nil {
			p.mu.Unlock()
			_ = near.Close()
			continue
		}
		p.conns[near], p.conns[far] = struct{}{}, struct{}{}
		p.mu.Unlock()
		p.done.Go(func() { p.copy(far, near, true) })
		p.done.Go(func() { p.copy(near, far, false) })
	}
}

func (p *proxy) copy(to, from net.Conn, counted bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			pass := p.pass(n, counted)
			if _, werr := to.Write(buf[:pass]); werr != nil || pass < n {
				if pass < n {
					p.cut()
				}
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass is how many of n bytes may go on, to the server or back.
func (p *proxy) pass(n int, toServer bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !toServer && p.deaf:
		return 0
	case !toServer || p.left == 0:
		return n
	case p.left > n:
		p.left -= n
		return n
	}
	n, p.left = p.left-1, 0
	return n
}

// loseAnswers cuts all connections whenever the server answers, or no longer.
func (p *proxy) loseAnswers(lose bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = lose
}

// cutAfter cuts all connections when so many bytes have gone to the server.
func (p *proxy) cutAfter(bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = bytes
}

// cut cuts all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

// redirect cuts all connections, and lets new ones go to another server.
func (p *proxy) redirect(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.cut()
}

func isUnavailable(err error) bool { return errors.Is(err, reprise.ErrUnavailable) }
