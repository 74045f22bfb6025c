package httpserver

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
)

// Kept is a connection that counts although its response has left net/http.
type Kept struct {
	conn *conn
	turn *turn // nil but for a request through a trusted proxy
	// unread are the bytes of further requests that the server had read.
	unread []byte
}

// Keep keeps counting the connection of r, over TCP, when the caller takes it from net/http with http.Hijacker. closed
// is called if the connection is closed for another one. The result is nil, and nothing has changed, if r came over
// another kind of connection, or to a server that New has not made. It is called by the handler.
func Keep(r *http.Request, closed func()) *Kept {
	c, ok := r.Context().Value(connKey{}).(*conn)
	if !ok {
		return nil
	}
	if tcp(c.net) == nil {
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

// Take takes what http.Hijacker has returned. What the client has already sent of its next request is kept for Return.
func (k *Kept) Take(nc net.Conn, in *bufio.Reader) *net.TCPConn {
	unread, _ := in.Peek(in.Buffered())
	k.unread = bytes.Clone(unread)
	if a, ok := nc.(*again); ok {
		k.unread = append(k.unread, a.unread...)
	}
	return tcp(nc)
}

// HasUnread reports whether the next request, or a part of it, had come before Take.
func (k *Kept) HasUnread() bool { return len(k.unread) > 0 }

// Return returns the connection for the server to accept it again.
func (k *Kept) Return() net.Conn {
	if len(k.unread) > 0 {
		return &again{tcp(k.conn.net), k.unread}
	}
	return k.conn.net
}

// again is a connection that a server accepts again, after bytes that it had read before.
type again struct {
	*net.TCPConn
	unread []byte
}

func (a *again) Read(p []byte) (int, error) {
	if len(a.unread) > 0 {
		n := copy(p, a.unread)
		a.unread = a.unread[n:]
		return n, nil
	}
	return a.TCPConn.Read(p)
}

// tcp returns the connection of nc, nil if it is another kind of connection.
func tcp(nc net.Conn) *net.TCPConn {
	switch nc := nc.(type) {
	case *again:
		return nc.TCPConn
	case *net.TCPConn:
		return nc
	}
	return nil
}

// keyOf returns the key of nc in limit.conns, which is the same when the server accepts it again.
func keyOf(nc net.Conn) net.Conn {
	if c := tcp(nc); c != nil {
		return c
	}
	return nc
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
	c := l.conns[keyOf(nc)]
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
