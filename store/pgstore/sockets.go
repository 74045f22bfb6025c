package pgstore

import (
	"context"
	"net"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// sockets are the open network connections of the driver. The driver closes a connection gracefully in the background,
// for up to 15 seconds. Close of a Store does not wait that long for a stalled server.
type sockets struct {
	mu   sync.Mutex
	open map[*socket]struct{}
	cut  bool
}

type socket struct {
	net.Conn
	all *sockets
}

// dial wraps next so that sockets records each connection.
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

// Close closes the connection and removes it from sockets.
func (s *socket) Close() error {
	s.all.mu.Lock()
	delete(s.all.open, s)
	s.all.mu.Unlock()
	return s.Conn.Close()
}

// closeAll closes all connections, including those that are opened later.
func (s *sockets) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = true
	for one := range s.open {
		_ = one.Conn.Close()
	}
}
