package park

import (
	"bytes"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"reprise/internal/sseloop"
)

// response is the ResponseWriter of a response that has left net/http after its header and whole chunks. It writes
// further chunks (RFC 9112, section 7.1).
type response struct {
	conn *net.TCPConn
	buf  *buffer // nil while it is empty
	err  error   // of the first write that failed
	// glancing is set while a goroutine writes that must not wait.
	glancing bool
	// rest are whole chunks, and the rest of one, that are to be sent first. It grows while glancing only.
	rest []byte
}

// bufferSize is the size of the chunks that are gathered. A larger write is a chunk of its own.
const bufferSize = 4 << 10

// headSize is the room for the line before a chunk that fits into a buffer.
const headSize = len("1000\r\n")

// buffer gathers one chunk.
type buffer struct {
	data [headSize + bufferSize + 2]byte
	n    int // bytes of the chunk
	// line and parts are for a chunk that is not copied.
	line  [20]byte
	parts [4][]byte
	vec   net.Buffers
}

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// Header implements http.ResponseWriter. The header was sent before, so it is empty and changes have no effect.
func (w *response) Header() http.Header { return http.Header{} }

// WriteHeader implements http.ResponseWriter. The header was sent before.
func (w *response) WriteHeader(int) {}

// Write implements http.ResponseWriter.
func (w *response) Write(p []byte) (int, error) {
	if w.err != nil || len(p) == 0 {
		return 0, w.err
	}
	if w.buf == nil {
		w.buf = buffers.Get().(*buffer)
	}
	if w.buf.n+len(p) > bufferSize {
		return len(p), w.writeAll(p)
	}
	w.buf.n += copy(w.buf.data[headSize+w.buf.n:], p)
	return len(p), nil
}

// writeAll sends what was gathered and p as one chunk, without copying p.
func (w *response) writeAll(p []byte) error {
	b := w.buf
	line := append(strconv.AppendInt(b.line[:0], int64(b.n+len(p)), 16), "\r\n"...)
	if w.glancing {
		w.rest = append(append(w.rest, line...), b.data[headSize:headSize+b.n]...)
		w.rest = append(append(w.rest, p...), crlf...)
		w.release()
		return nil
	}
	if w.sendRest() == nil {
		b.parts = [4][]byte{line, b.data[headSize : headSize+b.n], p, crlf}
		b.vec = b.parts[:]
		_, w.err = b.vec.WriteTo(w.conn)
	}
	w.release()
	return w.err
}

var crlf = []byte("\r\n")

// FlushError sends what was gathered. While glancing, its error is sseloop.ErrBlocked if the connection does not accept
// all of it.
func (w *response) FlushError() error {
	if w.err != nil || w.buf == nil && w.rest == nil {
		return w.err
	}
	if w.glancing {
		return w.tryAll()
	}
	if w.sendRest() != nil || w.buf == nil {
		return w.err
	}
	_, w.err = w.conn.Write(w.chunk())
	w.release()
	return w.err
}

// sendRest sends what did not go while glancing.
func (w *response) sendRest() error {
	if w.rest != nil {
		_, w.err = w.conn.Write(w.rest)
		w.rest = nil
	}
	return w.err
}

// tryAll sends as much as the connection accepts immediately.
func (w *response) tryAll() error {
	if w.rest == nil { // the usual case: no copy is made
		var n int
		chunk := w.chunk()
		if n, w.err = tryWrite(w.conn, chunk); n < len(chunk) && w.err == nil {
			w.rest = bytes.Clone(chunk[n:])
		}
		w.release()
	} else {
		if w.buf != nil {
			w.rest = append(w.rest, w.chunk()...)
			w.release()
		}
		var n int
		if n, w.err = tryWrite(w.conn, w.rest); n == len(w.rest) {
			w.rest = nil
		} else {
			w.rest = w.rest[n:]
		}
	}
	if w.err == nil && w.rest != nil {
		return sseloop.ErrBlocked
	}
	return w.err
}

// chunk returns what was gathered as a chunk, which is valid until release.
func (w *response) chunk() []byte {
	b := w.buf
	line := append(strconv.AppendInt(b.line[:0], int64(b.n), 16), "\r\n"...)
	begin := headSize - len(line)
	copy(b.data[begin:], line)
	return b.data[begin : headSize+b.n+copy(b.data[headSize+b.n:], crlf)]
}

// release gives up the buffer.
func (w *response) release() {
	w.buf.n, w.buf.parts, w.buf.vec = 0, [4][]byte{}, nil
	buffers.Put(w.buf)
	w.buf = nil
}

// SetWriteDeadline is called by http.ResponseController.
func (w *response) SetWriteDeadline(t time.Time) error { return w.conn.SetWriteDeadline(t) }

// end sends the last chunk, by which the client knows that the response is whole.
func (w *response) end() error {
	if w.FlushError() == nil {
		_, w.err = w.conn.Write([]byte("0\r\n\r\n"))
	}
	return w.err
}
