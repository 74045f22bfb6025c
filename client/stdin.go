package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"reprise"
)

// Stdin is the progress of the stdin of an execution.
type Stdin struct {
	// Offset is the number of bytes that the command has received.
	Offset int64 `json:"offset"`
	Open   bool  `json:"open"`
}

// StdinWrite is a part of the stdin of an execution.
type StdinWrite struct {
	// Offset is the position of Data. Without a Writer it counts all stdin of the command, including what the start
	// request has sent; with a Writer it counts the bytes of that writer.
	Offset int64
	// Writer names one of several writers; each counts its own bytes: 1 to 128 bytes of letters, digits, '.',
	// '_' and '-'. Stdin.Offset is then the count of the writer. The server remembers the newest 256 of an execution.
	Writer string
	// Data is at most 16 MiB. EOF closes stdin after it.
	Data []byte
	EOF  bool
}

// WriteStdin writes data to the command, as the bytes from offset on, and closes its stdin after them if eof
// is true. The server skips bytes before the offset that it has accepted, so a write can be
// repeated, and is repeated after a lost connection. It blocks
// while the command does not read. Data is at most 16 MiB.
//
// The error is reprise.ErrConflict for an offset beyond the accepted one, and reprise.ErrEnded
// after the end of stdin or of the execution.
func (c *Client) WriteStdin(ctx context.Context, id string, offset int64, data []byte, eof bool) (Stdin, error) {
	return c.WriteStdinAt(ctx, id, StdinWrite{Offset: offset, Data: data, EOF: eof})
}

// WriteStdinAt is WriteStdin for one of several writers.
func (c *Client) WriteStdinAt(ctx context.Context, id string, w StdinWrite) (Stdin, error) {
	op := "write to execution " + id
	if err := checkName(op, id); err != nil {
		return Stdin{}, err
	}
	if w.Offset < 0 {
		return Stdin{}, fmt.Errorf("%s: %w: the offset %d", op, reprise.ErrInvalid, w.Offset)
	}
	query := url.Values{"offset": {strconv.FormatInt(w.Offset, 10)}}
	setText(query, "writer", w.Writer)
	if w.EOF {
		query.Set("eof", "true")
	}
	data := w.Data
	if data == nil {
		data = []byte{}
	}
	return answer[Stdin](ctx, c, &request{
		op: op, method: http.MethodPost, path: executionPath(id, "/stdin"), query: query,
		header: http.Header{"Content-Type": {bytesType}}, body: data, patient: true,
	})
}

// StdinWriter returns a writer to the stdin of an execution that begins at an offset: 0, or
// the length of the stdin in StartRequest. Its Close ends the command's stdin. It is safe for
// concurrent use. Each Write blocks until the command has received all of it. If a Write fails and it is unknown
// whether the command has received the bytes after those that were counted, the next Write must begin with them; with
// others the error is reprise.ErrInvalid.
func (c *Client) StdinWriter(ctx context.Context, id string, offset int64) io.WriteCloser {
	return &stdinWriter{c: c, ctx: ctx, id: id, offset: offset}
}

type stdinWriter struct {
	c   *Client
	ctx context.Context
	id  string

	mu     sync.Mutex
	offset int64
	doubt  []byte // of the failed write; the command may have some of them
	closed bool
}

// stdinChunk limits the size of one request, and so of what is sent again after a lost connection.
const stdinChunk = 1 << 20

func (w *stdinWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, io.ErrClosedPipe
	}
	n := 0
	for n < len(p) {
		given, err := w.send(p[n:min(n+stdinChunk, len(p))])
		n += given
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// send sends one chunk and returns the number of accepted bytes.
func (w *stdinWriter) send(chunk []byte) (int, error) {
	// The server would take other bytes at this offset for those that the command has already, and skip them.
	if !bytes.HasPrefix(chunk, w.doubt) {
		return 0, fmt.Errorf("%w: stdin: the bytes of the failed write come first", reprise.ErrInvalid)
	}
	at, err := w.c.WriteStdin(w.ctx, w.id, w.offset, chunk, false)
	given := at.Offset - w.offset
	if err == nil && (given <= 0 || given > int64(len(chunk))) {
		err = fmt.Errorf("%w: stdin is at %d after %d bytes at %d", ErrProtocol, at.Offset, len(chunk), w.offset)
	}
	if err != nil {
		if !decided(err) {
			w.doubt = bytes.Clone(chunk)
		}
		return 0, err
	}
	w.doubt = nil
	w.offset = at.Offset
	return int(given), nil
}

// Close ends the command's stdin. It does nothing if stdin has ended already, or if another writer has written
// more meanwhile.
func (w *stdinWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	_, err := w.c.WriteStdin(w.ctx, w.id, w.offset, nil, true)
	if errors.Is(err, reprise.ErrEnded) {
		err = nil
	}
	w.closed = err == nil
	return err
}
