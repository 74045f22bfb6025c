package node

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// firstPassed is the number of the first file that a service manager passes.
const firstPassed = 3

// PassedSocket returns the socket that the service manager has passed to this process (LISTEN_PID, LISTEN_FDS; see
// sd_listen_fds(3)), nil if there is none. It may be called once: it removes the variables, so that no command inherits
// the socket.
func PassedSocket() (net.Listener, error) {
	pid, count := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		if err := os.Unsetenv(name); err != nil {
			return nil, err
		}
	}
	if pid != strconv.Itoa(os.Getpid()) || count == "" || count == "0" {
		return nil, nil // no socket and no error
	}
	if count != "1" {
		return nil, usage("LISTEN_FDS=%s: the service manager is to pass one socket, that of --listen", count)
	}
	syscall.CloseOnExec(firstPassed)
	file := os.NewFile(firstPassed, "LISTEN_FDS")
	listener, err := net.FileListener(file)
	if cerr := file.Close(); err == nil && cerr != nil {
		return nil, cerr
	}
	if err != nil {
		return nil, usage("LISTEN_FDS=1: file 3 is no socket that listens: %w", err)
	}
	if _, ok := listener.(*net.TCPListener); !ok {
		_ = listener.Close()
		return nil, usage("LISTEN_FDS=1: the socket is of %s; it has to be a TCP socket (ListenStream=HOST:PORT)",
			listener.Addr().Network())
	}
	return listener, nil
}

// socket is a listener that can stop accepting and stay open. An accepted connection is then known to the HTTP server,
// whose Shutdown waits for the response. Later connections are left to another process with the socket.
type socket struct {
	*net.TCPListener

	stopping sync.Once
	stopped  chan struct{} // closed when Accept waits for Close
	closing  sync.Once
	closed   chan struct{}
}

// listen returns the passed socket or, if that is nil, a new one at an address.
func listen(ctx context.Context, passed net.Listener, address string) (*socket, error) {
	if passed == nil {
		opened, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		passed = opened
	}
	return &socket{
		TCPListener: passed.(*net.TCPListener), stopped: make(chan struct{}), closed: make(chan struct{}),
	}, nil
}

// Accept implements net.Listener. After stop it waits for Close.
func (s *socket) Accept() (net.Conn, error) {
	conn, err := s.TCPListener.Accept()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.stopping.Do(func() { close(s.stopped) })
		<-s.closed
		return nil, net.ErrClosed
	}
	return conn, err
}

// stop returns when the caller of Accept knows the last accepted connection, because it has called Accept again or
// closed the socket. There must be such a caller.
func (s *socket) stop() error {
	if err := s.SetDeadline(time.Unix(1, 0)); err != nil {
		return err
	}
	select {
	case <-s.stopped:
	case <-s.closed:
	}
	return nil
}

// Close implements net.Listener.
func (s *socket) Close() error {
	s.closing.Do(func() { close(s.closed) })
	return s.TCPListener.Close()
}
