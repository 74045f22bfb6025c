package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// wire is one connection to an HTTP server that is kept, with the least work for this side: requests are bytes that
// are made once, and of responses the status and the length are read.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
	// nextOffset is the Stream-Next-Offset of the last response, which Durable Streams sends.
	nextOffset string
	// extended is when the deadline of the connection was last set.
	extended time.Time
}

func dialWire(addr string) (*wire, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &wire{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// write sends a request. The server has lapTimeout from then to answer, to within a second: setting the deadline more
// often would cost time that is measured.
func (w *wire) write(request []byte) error {
	if now := time.Now(); now.Sub(w.extended) > time.Second {
		if err := w.conn.SetDeadline(now.Add(lapTimeout)); err != nil {
			return err
		}
		w.extended = now
	}
	_, err := w.conn.Write(request)
	return err
}

// newRequest makes a request with a body.
func newRequest(method, path, token, contentType string, body []byte) []byte {
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: %s\r\nContent-Length: %d\r\n\r\n", method, path, token, contentType, len(body))
	return append([]byte(head), body...)
}

// do sends a request and reads the response. It fails unless the status is 2xx.
func (w *wire) do(request []byte) error {
	length, err := w.send(request)
	switch {
	case err != nil:
		return err
	case length == chunked:
		_, err = w.body(length)
	default:
		_, err = w.in.Discard(length)
	}
	return err
}

// ask is do for a caller who wants the body.
func (w *wire) ask(request []byte) (body []byte, err error) {
	length, err := w.send(request)
	if err != nil {
		return nil, err
	}
	return w.body(length)
}

// chunked stands for the length of a body that comes in chunks.
const chunked = -1

// body reads a body of a length.
func (w *wire) body(length int) (body []byte, err error) {
	if length != chunked {
		body = make([]byte, length)
		_, err = io.ReadFull(w.in, body)
		return body, err
	}
	for {
		line, err := w.line()
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil {
			return nil, err
		}
		chunk := make([]byte, n+2) // with the end of its line
		if _, err := io.ReadFull(w.in, chunk); err != nil || n == 0 {
			return body, err
		}
		body = append(body, chunk[:n]...)
	}
}

// send sends a request and reads the head of the response. It returns the length of the body, which is not read yet,
// or chunked; unless the status is 2xx, it returns the body in an error.
func (w *wire) send(request []byte) (length int, err error) {
	if err := w.write(request); err != nil {
		return 0, err
	}
	status, err := w.line()
	if err != nil {
		return 0, err
	}
	ok := len(status) > 9 && status[9] == '2'
	status = bytes.Clone(status)
	for {
		line, err := w.line()
		if err != nil {
			return 0, err
		}
		if len(line) == 0 {
			break
		}
		if value, found := bytes.CutPrefix(line, []byte("Stream-Next-Offset: ")); found {
			w.nextOffset = string(value)
		}
		if bytes.Equal(line, []byte("Transfer-Encoding: chunked")) {
			length = chunked
		}
		if value, found := bytes.CutPrefix(line, []byte("Content-Length: ")); found {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, err
			}
		}
	}
	if ok {
		return length, nil
	}
	body, _ := w.body(length)
	return 0, fmt.Errorf("%s: %s", status, body)
}

// line returns a line without its end, good until the next read.
func (w *wire) line() ([]byte, error) {
	line, err := w.in.ReadSlice('\n')
	return bytes.TrimRight(line, "\r\n"), err
}

// Close closes the connection.
func (w *wire) Close() error { return w.conn.Close() }

// lapWire is a wire that is dialled again after it was idle, since servers close connections that are idle while other
// contenders have their laps. Its zero value with an address is ready to use.
type lapWire struct {
	addr string
	wire *wire // nil before the first request
	used time.Time
}

// do is that of wire.
func (l *lapWire) do(request []byte) (err error) {
	idle := time.Since(l.used)
	l.used = time.Now()
	if idle > time.Second {
		_ = l.Close()
		if l.wire, err = dialWire(l.addr); err != nil {
			return err
		}
	}
	return l.wire.do(request)
}

// Close closes the connection, if there is one.
func (l *lapWire) Close() error {
	if l.wire == nil {
		return nil
	}
	return l.wire.Close()
}
