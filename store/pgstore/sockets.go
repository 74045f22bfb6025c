package pgstore

import (
	"context"
	"net"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// sockets are the network connections that the driver has open. The driver closes one in the background, politely and
// for up to 15 seconds; a Store that is closed does not wait that long for a server that stands still.
type sockets struct {
	mu   sync.Mutex
	open map[*socket]struct{}
	cut  bool
}

type socket struct {
	net.Conn
	all *sockets
}

// dial makes connections by next and keeps account of them.
func (s *sockets) dial(next pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.cut {
			_ = conn.Close()
			return nil, net.ErrClosed
		}
		one := &socket{conn, s}
		s.open[one] = struct{}{}
		return one, nil
	}
}

// Close closes one connection.
func (s *socket) Close() error {
	s.all.mu.Lock()
	delete(s.all.open, s)
	s.all.mu.Unlock()
	return s.Conn.Close()
}

// closeAll closes all of them, and those that are made later.
func (s *sockets) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = true
	for one := range s.open {
		_ = one.Conn.Close()
	}
}
