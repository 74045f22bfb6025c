package httpserver

import (
	"container/list"
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// limit bounds the connections of a server. Closing the oldest stranger is what makes room for a new connection,
// so a share of the connections always remains strangers: those that authenticate beyond maxKnown
// are served, and may be closed like a stranger.
type limit struct {
	max, maxKnown, maxPerAddress int
	maxAge                       time.Duration
	proxies                      proxies
	logger                       *slog.Logger

	mu        sync.Mutex
	conns     map[net.Conn]*conn
	known     int
	strangers list.List // of *conn, the oldest first
	// addresses hold the strangers of each remote address, the oldest first.
	addresses map[netip.Prefix]*list.List
	closed    int // connections that gave way since the last line in the log
	told      time.Time
}

// conn is one connection.
type conn struct {
	limit *limit
	net   net.Conn
	// address is the address that the connection counts for. A waiting connection of a trusted proxy counts for none;
	// with a request it counts for the client of the request: see enter.
	address netip.Prefix
	proxy   bool
	expires time.Time
	// authenticated is set once by Authenticated.
	authenticated atomic.Bool
	// inAll and inAddress are the places in the lists of strangers, nil for a known connection. inAddress is nil as
	// well for one of a proxy that carries no request. limit.mu guards them.
	inAll, inAddress *list.Element
	// closed is called when the connection was closed for another one, while it is kept: see Keep. limit.mu guards it.
	closed func()
}

type connKey struct{}

func newLimit(o *Options) *limit {
	return &limit{
		max: o.MaxConnections, maxKnown: o.MaxConnections - max(1, o.MaxConnections/16), maxPerAddress: o.MaxPerAddress,
		maxAge: o.MaxAge, proxies: o.TrustedProxies, logger: o.Logger,
		conns: map[net.Conn]*conn{}, addresses: map[netip.Prefix]*list.List{},
	}
}

// Authenticated tells the server of r that the sender of r is authorized. From the end of the body of r on, its
// connection is not a stranger. It does nothing for a server that New has not made.
func Authenticated(r *http.Request) {
	c, ok := r.Context().Value(connKey{}).(*conn)
	if !ok || c.authenticated.Load() {
		return
	}
	if b, ok := r.Body.(*body); ok {
		if ended, _ := b.state(); !ended {
			b.whole = c.authenticate
			return
		}
	}
	c.authenticate()
}

// accept counts a new connection. It is http.Server.ConnContext.
func (l *limit) accept(ctx context.Context, nc net.Conn) context.Context {
	if c := l.accepted(nc); c != nil {
		return context.WithValue(ctx, connKey{}, c)
	}
	c := &conn{limit: l, net: nc}
	if remote := nc.RemoteAddr(); remote != nil {
		c.address, c.proxy = networkOf(remote.String()), l.proxies.trustsPeer(remote.String())
	}
	if l.maxAge > 0 {
		c.expires = time.Now().Add(l.maxAge - rand.N(l.maxAge/10+1))
	}
	l.mu.Lock()
	l.conns[nc] = c
	c.inAll = l.strangers.PushBack(c)
	var old *conn
	if !c.proxy {
		old = l.joinAddress(c)
	}
	if old == nil && len(l.conns) > l.max {
		old = l.strangers.Front().Value.(*conn) // c at least is one
	}
	l.closeUnlock(old)
	return context.WithValue(ctx, connKey{}, c)
}

// joinAddress counts c for its address, and returns the connection that must be closed for it, or nil. The caller holds
// mu.
func (l *limit) joinAddress(c *conn) (old *conn) {
	of := l.addresses[c.address]
	if of == nil {
		of = list.New()
		l.addresses[c.address] = of
	}
	c.inAddress = of.PushBack(c)
	if of.Len() > l.maxPerAddress {
		old = of.Front().Value.(*conn)
	}
	return old
}

// closeUnlock drops and closes a connection, or none if it is nil. The caller holds mu, which closeUnlock unlocks.
func (l *limit) closeUnlock(old *conn) {
	var told int
	var closed func()
	if old != nil {
		told, closed = l.giveWay(old), old.closed
	}
	l.mu.Unlock()
	if old != nil {
		_ = old.net.Close()
	}
	if closed != nil {
		closed()
	}
	if told > 0 {
		l.logger.Warn("too many connections that have not authenticated: the oldest were closed",
			"closed", told, "max", l.max, "max_per_address", l.maxPerAddress)
	}
}

// enter counts the connection of a proxy for the client of its current request.
func (c *conn) enter(client netip.Prefix) {
	l := c.limit
	l.mu.Lock()
	if !c.proxy || l.conns[c.net] != c || c.inAddress != nil {
		l.mu.Unlock()
		return
	}
	c.address = client
	l.closeUnlock(l.joinAddress(c))
}

// leave ends the request. The sender of the next one may differ, so the connection becomes the youngest stranger.
func (c *conn) leave() {
	l := c.limit
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.proxy || l.conns[c.net] != c {
		return
	}
	if c.inAll == nil {
		l.known--
		c.authenticated.Store(false)
	} else {
		l.leaveStrangers(c)
	}
	c.inAll = l.strangers.PushBack(c)
}

// giveWay drops c and returns the number of connections to log: once a minute, all since the previous time.
func (l *limit) giveWay(c *conn) (told int) {
	l.drop(c)
	l.closed++
	if now := time.Now(); l.told.IsZero() || now.Sub(l.told) >= time.Minute {
		told, l.closed, l.told = l.closed, 0, now
	}
	return told
}

// changed forgets a connection that has ended. It is http.Server.ConnState.
func (l *limit) changed(nc net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.conns[keyOf(nc)]; c != nil && (state == http.StateClosed || c.closed == nil) {
		l.drop(c)
	}
}

// drop stops counting c. The caller holds mu.
func (l *limit) drop(c *conn) {
	delete(l.conns, c.net)
	if c.inAll == nil {
		l.known--
		return
	}
	l.leaveStrangers(c)
}

// leaveStrangers takes c out of the lists. The caller holds mu.
func (l *limit) leaveStrangers(c *conn) {
	l.strangers.Remove(c.inAll)
	if of := l.addresses[c.address]; c.inAddress != nil {
		of.Remove(c.inAddress)
		if of.Len() == 0 {
			delete(l.addresses, c.address)
		}
	}
	c.inAll, c.inAddress = nil, nil
}

// authenticate makes c known, if there is room for one more.
func (c *conn) authenticate() {
	l := c.limit
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.inAll == nil || l.conns[c.net] != c || l.known >= l.maxKnown {
		return
	}
	l.leaveStrangers(c)
	l.known++
	c.authenticated.Store(true)
}

// networkOf returns the address by which connections are counted: an IPv4 address, or the 64 bits of an IPv6 network.
// The zero Prefix stands for all connections that have neither.
func networkOf(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	addr := at.Addr().Unmap().WithZone("")
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	network, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return network
}
