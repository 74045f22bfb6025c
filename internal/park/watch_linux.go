package park

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// Supported reports whether this system can park responses.
const Supported = true

// watch notices clients that disconnect, with one epoll instance for all.
type watch struct {
	file *os.File // the epoll instance
	raw  syscall.RawConn
	done chan struct{} // closed when the goroutine has ended

	mu     sync.Mutex
	seats  map[int32]*Seat // by descriptor
	number int32           // of the last Seat
}

func newWatch() (*watch, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil { // so that the runtime waits for it with its own epoll
		_ = syscall.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	w := &watch{file: os.NewFile(uintptr(fd), "epoll"), done: make(chan struct{}), seats: map[int32]*Seat{}}
	if w.raw, err = w.file.SyscallConn(); err != nil {
		_ = w.file.Close()
		return nil, err
	}
	go w.run()
	return w, nil
}

func (w *watch) close() error {
	err := w.file.Close()
	<-w.done
	return err
}

// run ends the contexts of the responses whose clients have disconnected.
func (w *watch) run() {
	defer close(w.done)
	var events [128]syscall.EpollEvent
	for {
		n := 0
		err := w.raw.Read(func(fd uintptr) bool {
			var err error
			n, err = syscall.EpollWait(int(fd), events[:], 0)
			return n > 0 || err != nil && !errors.Is(err, syscall.EINTR)
		})
		if err != nil {
			return // closed
		}
		for _, e := range events[:max(n, 0)] {
			if s := w.find(e.Fd, e.Pad); s != nil && !w.asksOn(s, e.Events) {
				s.End(context.Canceled) // as net/http does
			}
		}
	}
}

// asksOn reports whether the client has only ended its side of the connection, after a further request. net/http reads
// one byte of that request and looks no further before the response ends, so the request is answered. The connection is
// still watched.
func (w *watch) asksOn(s *Seat, events uint32) bool {
	if events&(syscall.EPOLLHUP|syscall.EPOLLERR) != 0 || !hasInput(s) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seats[s.fd] != s { // the descriptor may belong to another connection
		return true
	}
	event := syscall.EpollEvent{Events: syscall.EPOLLONESHOT, Fd: s.fd, Pad: s.number}
	return w.control(syscall.EPOLL_CTL_MOD, &event) == nil
}

// hasInput reports whether there is something to read from the connection of s.
func hasInput(s *Seat) bool {
	n := 0
	err := control(s, func(fd uintptr) (err error) {
		var b [1]byte
		n, _, err = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return err
	})
	return err == nil && n > 0
}

// find returns the Seat of an event, nil if the event is of an earlier connection with the same descriptor.
func (w *watch) find(fd, number int32) *Seat {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.seats[fd]; s != nil && s.number == number {
		return s
	}
	return nil
}

// add watches the connection of s.
func (w *watch) add(s *Seat) error {
	return control(s, func(fd uintptr) error {
		w.mu.Lock()
		w.number++
		s.fd, s.number = int32(fd), w.number
		w.seats[s.fd] = s
		w.mu.Unlock()
		event := syscall.EpollEvent{
			Events: syscall.EPOLLRDHUP | syscall.EPOLLONESHOT, // EPOLLHUP and EPOLLERR are always reported
			Fd:     s.fd, Pad: s.number,
		}
		return w.control(syscall.EPOLL_CTL_ADD, &event)
	})
}

// remove ends the watch of the connection of s, which may be closed.
func (w *watch) remove(s *Seat) {
	w.mu.Lock()
	if w.seats[s.fd] == s {
		delete(w.seats, s.fd)
	}
	w.mu.Unlock()
	_ = control(s, func(uintptr) error { return w.control(syscall.EPOLL_CTL_DEL, &syscall.EpollEvent{Fd: s.fd}) })
}

func (w *watch) control(operation int, event *syscall.EpollEvent) (err error) {
	cerr := w.raw.Control(func(fd uintptr) {
		err = os.NewSyscallError("epoll_ctl", syscall.EpollCtl(int(fd), operation, int(event.Fd), event))
	})
	return errors.Join(cerr, err)
}

// control calls f with the descriptor of the connection of s, which stays open meanwhile.
func control(s *Seat, f func(fd uintptr) error) (err error) {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) { err = f(fd) })
	return errors.Join(cerr, err)
}

// awaitInput waits until there is something to read from conn. The error is io.EOF if the client has closed it.
func awaitInput(conn *net.TCPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var end error
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR):
			return false
		case err != nil:
			end = err
		case n == 0:
			end = io.EOF
		}
		return true
	})
	return errors.Join(err, end)
}

// tryWrite writes as much of p as conn accepts without a wait, whatever the deadline for writes.
func tryWrite(conn *net.TCPConn, p []byte) (n int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var werr error
	err = raw.Control(func(fd uintptr) {
		for {
			n, werr = syscall.Write(int(fd), p)
			if !errors.Is(werr, syscall.EINTR) {
				return
			}
		}
	})
	if errors.Is(werr, syscall.EAGAIN) {
		werr = nil
	}
	return max(n, 0), errors.Join(err, os.NewSyscallError("write", werr))
}
