package remote

import (
	"bufio"
	"io"
	"net"
	"sync"
	"time"
)

// Conn is the stdin and the stdout of a helper as a connection: no command of the machine gets at it by a name. It has
// no deadlines.
type Conn struct {
	r      *bufio.Reader
	in     io.Closer
	out    io.WriteCloser
	close  sync.Once
	closed chan struct{}
}

// NewConn returns a connection that reads from in and writes to out. Close closes both.
func NewConn(in io.ReadCloser, out io.WriteCloser) *Conn {
	return &Conn{r: bufio.NewReader(in), in: in, out: out, closed: make(chan struct{})}
}

// ReadLine returns the next line, with its end.
func (c *Conn) ReadLine() ([]byte, error) { return c.r.ReadBytes('\n') }

// Watch calls gone if the other side ends before it sends more. The result is closed when it has done either; until
// then nothing else may read.
func (c *Conn) Watch(gone func()) (begun <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := c.r.Peek(1); err != nil {
			gone()
		}
	}()
	return done
}

// Read reads from the other side. An error closes the connection.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	if err != nil {
		_ = c.Close()
	}
	return n, err
}

// Write writes to the other side.
func (c *Conn) Write(b []byte) (int, error) { return c.out.Write(b) }

// Close closes both directions, once.
func (c *Conn) Close() (err error) {
	c.close.Do(func() {
		close(c.closed)
		err = c.out.Close()
		_ = c.in.Close()
	})
	return err
}

// Closed is closed with the connection.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

// LocalAddr and RemoteAddr name a pipe.
func (*Conn) LocalAddr() net.Addr { return pipeAddr{} }

// RemoteAddr is LocalAddr.
func (*Conn) RemoteAddr() net.Addr { return pipeAddr{} }

// SetDeadline does nothing: pipes of a process have no deadlines on all systems.
func (*Conn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (*Conn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (*Conn) SetWriteDeadline(time.Time) error { return nil }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// Listener accepts one connection. Accept then waits until that is closed.
type Listener struct {
	conn     *Conn
	accepted bool
}

// NewListener returns a listener that accepts conn.
func NewListener(conn *Conn) *Listener { return &Listener{conn: conn} }

// Accept returns the connection, and after it has been closed net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	if l.accepted {
		<-l.conn.closed
		return nil, net.ErrClosed
	}
	l.accepted = true
	return l.conn, nil
}

// Close closes the connection.
func (l *Listener) Close() error { return l.conn.Close() }

// Addr names a pipe.
func (*Listener) Addr() net.Addr { return pipeAddr{} }
