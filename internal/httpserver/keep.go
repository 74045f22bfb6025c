package httpserver

import (
	"net"
	"net/http"
)

// Kept is a connection that counts although its response has left net/http.
type Kept struct {
	conn *conn
	turn *turn // nil but for a request through a trusted proxy
}

// Keep keeps counting the connection of r, over TCP, when the caller takes it from net/http with http.Hijacker. closed
// is called if the connection is closed for another one. The result is nil, and nothing has changed, if r came over
// another kind of connection, or to a server that New has not made. It is called by the handler.
func Keep(r *http.Request, closed func()) *Kept {
	c, ok := r.Context().Value(connKey{}).(*conn)
	if !ok {
		return nil
	}
	if _, ok := c.net.(*net.TCPConn); !ok {
		return nil
	}
	k := &Kept{conn: c}
	if k.turn, ok = r.Context().Value(turnKey{}).(*turn); ok {
		k.turn.kept = true
	}
	c.limit.mu.Lock()
	defer c.limit.mu.Unlock()
	if c.limit.conns[c.net] == c {
		c.closed = closed
	}
	return k
}

// Lose takes Keep back, for a connection that could not be taken. It is called by the handler.
func (k *Kept) Lose() {
	if k.turn != nil {
		k.turn.kept = false
	}
	k.conn.limit.mu.Lock()
	defer k.conn.limit.mu.Unlock()
	k.conn.closed = nil
}

// Done ends the request. The connection still counts, until Close is called or the server accepts it again.
func (k *Kept) Done() {
	if k.turn != nil {
		k.conn.leave()
	}
}

// Close closes the connection.
func (k *Kept) Close() error {
	c := k.conn
	c.limit.mu.Lock()
	c.closed = nil
	if c.limit.conns[c.net] == c {
		c.limit.drop(c)
	}
	c.limit.mu.Unlock()
	return c.net.Close()
}

// accepted returns the kept connection nc, which the server accepts again, or nil.
func (l *limit) accepted(nc net.Conn) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.conns[nc]
	if c != nil {
		c.closed = nil
	}
	return c
}

// turn is a request through a trusted proxy, which has its connection until the response ends.
type turn struct {
	conn *conn
	kept bool // the response goes on without its handler
}

type turnKey struct{}

func (t *turn) end() {
	if !t.kept {
		t.conn.leave()
	}
}
