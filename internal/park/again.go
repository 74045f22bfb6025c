package park

import (
	"net"
	"net/http"
	"time"

	"reprise/internal/httpserver"
)

// Serve makes server accept the connections of responses that have ended, with their next requests. It returns when the
// server is shut down, and is called once. Without it these connections are closed.
func (l *Lot) Serve(server *http.Server) error {
	l.mu.Lock()
	select {
	case <-l.over:
	default:
		l.idle = map[*httpserver.Kept]struct{}{}
	}
	l.mu.Unlock()
	return server.Serve((*listener)(l))
}

// listener accepts the connections that come back.
type listener Lot

// Accept implements net.Listener.
func (a *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-a.ready:
		return conn, nil
	case <-a.over:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Connections without a further request are closed.
func (a *listener) Close() error {
	(*Lot)(a).stopReturning()
	return nil
}

// Addr implements net.Listener.
func (a *listener) Addr() net.Addr { return &net.UnixAddr{Name: "parked"} }

// stopReturning closes the idle connections, and from now on those whose response ends.
func (l *Lot) stopReturning() {
	l.mu.Lock()
	idle := l.idle
	l.idle = nil
	select {
	case <-l.over:
	default:
		close(l.over)
	}
	l.mu.Unlock()
	for kept := range idle {
		_ = kept.Close()
	}
}

// giveBack lets the server accept a connection when its next request comes. Until then it is idle, with the bound that
// net/http has for that.
func (l *Lot) giveBack(conn *net.TCPConn, kept *httpserver.Kept) {
	l.mu.Lock()
	returned := l.idle != nil
	if returned {
		l.idle[kept] = struct{}{}
	}
	l.mu.Unlock()
	if !returned {
		_ = kept.Close()
		return
	}
	go func() {
		var err error
		if !kept.HasUnread() {
			err = conn.SetReadDeadline(time.Now().Add(l.opts.IdleTimeout))
			if err == nil {
				err = awaitInput(conn)
			}
		}
		if err == nil {
			err = conn.SetDeadline(time.Time{})
		}
		l.mu.Lock()
		delete(l.idle, kept)
		l.mu.Unlock()
		if err == nil {
			select {
			case l.ready <- kept.Return():
				return
			case <-l.over:
			}
		}
		_ = kept.Close()
	}()
}
