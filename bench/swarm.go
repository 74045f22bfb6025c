package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// swarm is many readers at the least cost: descriptors in one epoll, read by one
// goroutine into one buffer, events counted by their mark.
type swarm struct {
	epoll int
	fds   []int
	buf   []byte
	// late takes the time from publishing to reading of each event, while timing is true.
	late   []time.Duration
	timing bool
}

// newSwarm connects n readers to addr, each of which sends a request.
func newSwarm(addr string, request []byte, n int) (*swarm, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	s := &swarm{epoll: epoll, buf: make([]byte, 256<<10)}
	for range n {
		if err := s.connect(addr, request); err != nil {
			return nil, errors.Join(fmt.Errorf("reader %d: %w", len(s.fds), err), s.Close())
		}
	}
	return s, nil
}

func (s *swarm) connect(addr string, request []byte) error {
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	s.fds = append(s.fds, fd)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: tcp.Port, Addr: [4]byte(tcp.IP.To4())}); err != nil {
		return err
	}
	if _, err := unix.Write(fd, request); err != nil {
		return err
	}
	// The head of the response shows that the reader follows.
	if _, err := unix.Read(fd, s.buf); err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	return unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// request asks for a stream after a position, "" for what comes from now on.
func request(after string) []byte {
	text := "GET /?after=tail HTTP/1.1\r\nHost: bench\r\nAccept: text/event-stream\r\n\r\n"
	if after != "" {
		text = "GET / HTTP/1.1\r\nHost: bench\r\nAccept: text/event-stream\r\nLast-Event-ID: " + after + "\r\n\r\n"
	}
	return []byte(text)
}

// await reads until all readers together have got n events.
func (s *swarm) await(ctx context.Context, n int) error {
	var ready [256]unix.EpollEvent
	for n > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		k, err := unix.EpollWait(s.epoll, ready[:], 100)
		if err != nil && err != unix.EINTR {
			return err
		}
		for i := range max(k, 0) {
			got, err := s.read(int(ready[i].Fd))
			if err != nil {
				return err
			}
			n -= got
		}
	}
	if n < 0 {
		return fmt.Errorf("%d events more than were published", -n)
	}
	return nil
}

// read takes what one reader has got and returns the number of events.
func (s *swarm) read(fd int) (events int, err error) {
	n, err := unix.Read(fd, s.buf)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, nil
	case err != nil:
		return 0, err
	case n == 0:
		return 0, fmt.Errorf("the server closed a connection")
	}
	if s.timing {
		s.late = lateness(s.late, s.buf[:n])
	}
	return bytes.Count(s.buf[:n], []byte{mark}), nil
}

// lateness appends how late the events in b are.
func lateness(late []time.Duration, b []byte) []time.Duration {
	now := time.Now()
	for {
		i := bytes.IndexByte(b, mark)
		if i < 0 {
			return late
		}
		b = b[i:]
		if t, ok := stamped(b); ok {
			late = append(late, now.Sub(t))
		}
		b = b[1:]
	}
}

// Close lets all readers go.
func (s *swarm) Close() error {
	for _, fd := range s.fds {
		_ = unix.Close(fd)
	}
	return unix.Close(s.epoll)
}
