package limit

import (
	"net"
	"net/http"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Head is what the limits answer a request with, where they write it themselves. The body ends with the connection.
const Head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"

// Ready answers every request with the same bytes, through net/http. With hold it then waits until the
// client goes, as a stream does that has not ended.
func Ready(body []byte, hold bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(body)
		if hold {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	})
}

// Coalesce lets each reader follow f through net/http: all frames that are there go into one write.
func Coalesce(f *Frames) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		w.Header().Set("Content-Type", "text/event-stream")
		at := f.End()
		_ = rc.Flush()
		for {
			frames, end, wake := f.After(at)
			if len(frames) > 0 {
				if _, err := w.Write(frames); err != nil {
					return
				}
				if err := rc.Flush(); err != nil {
					return
				}
				at = end
				continue
			}
			select {
			case <-wake:
			case <-r.Context().Done():
				return
			}
		}
	})
}

// Hijack is Coalesce without net/http after the request: a goroutine and a connection for each reader.
func Hijack(f *Frames) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		at := f.End()
		if _, err := conn.Write([]byte(Head)); err != nil {
			return
		}
		for {
			frames, end, wake := f.After(at)
			if len(frames) == 0 {
				<-wake
				continue
			}
			if _, err := conn.Write(frames); err != nil {
				return
			}
			at = end
		}
	})
}

// Raw writes to descriptors, from one goroutine, with nothing kept for a reader but its descriptor.
type Raw struct {
	mu  sync.Mutex
	fds []int
}

// Serve takes connections until the listener is closed. It reads one request of each, in one piece.
func (r *Raw) Serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		var request [4096]byte
		if _, err := conn.Read(request[:]); err != nil {
			return err
		}
		f, err := conn.(*net.TCPConn).File()
		if err != nil {
			return err
		}
		fd, err := unix.Dup(int(f.Fd()))
		if err != nil {
			return err
		}
		_ = f.Close()
		_ = conn.Close()
		if err := unix.SetNonblock(fd, true); err != nil {
			return err
		}
		r.mu.Lock()
		r.fds = append(r.fds, fd)
		_, err = unix.Write(fd, []byte(Head))
		r.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// Write writes frames to all readers. Whoever does not take them all at once is waited for.
func (r *Raw) Write(frames []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, fd := range r.fds {
		for rest := frames; len(rest) > 0; {
			n, err := unix.Write(fd, rest)
			if err == syscall.EAGAIN {
				_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1)
				continue
			}
			if err != nil {
				break
			}
			rest = rest[n:]
		}
	}
}
