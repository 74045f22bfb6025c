package node

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// newcomers are the connections of an HTTP server that have brought no request yet. http.Server.Shutdown closes them
// without an answer, even if their request arrives in that moment.
type newcomers struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
}

type newcomerKey struct{}

// newcomer is in the context of the requests of a connection.
type newcomer struct {
	conn net.Conn
	met  atomic.Bool // a request has come
}

// watch counts the connections of server from now on.
func (n *newcomers) watch(server *http.Server) {
	n.conns = map[net.Conn]bool{}
	accept, changed, next := server.ConnContext, server.ConnState, server.Handler
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		n.mu.Lock()
		n.conns[conn] = true
		n.mu.Unlock()
		return context.WithValue(accept(ctx, conn), newcomerKey{}, &newcomer{conn: conn})
	}
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		if state == http.StateClosed || state == http.StateHijacked {
			n.forget(conn)
		}
		changed(conn, state)
	}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(newcomerKey{}).(*newcomer); ok && !c.met.Swap(true) {
			n.forget(c.conn)
		}
		next.ServeHTTP(w, r)
	})
}

func (n *newcomers) forget(conn net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, conn)
}

func (n *newcomers) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.conns)
}

// newcomerPatience is how long a connection that was accepted may take to bring its request when the server stops.
const newcomerPatience = time.Second

// wait waits until there are none, but no longer than they may take.
func (n *newcomers) wait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, newcomerPatience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for n.count() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
