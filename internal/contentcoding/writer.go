package contentcoding

import (
	"net/http"
	"sync"

	"reprise/internal/problem"
)

// pieceBytes bounds a piece.
const pieceBytes = 64 << 10

// buffers are for bytes that wait to be compressed, and for their compressed form.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, pieceBytes+pieceBytes/8)
	return &b
}}

// Writer is a ResponseWriter that compresses the body of a response with status 200 and passes other responses
// unchanged. It must not be used by several goroutines at once.
type Writer struct {
	http.ResponseWriter
	coding Coding

	begun   bool    // the status is known
	active  bool    // the body is compressed
	wrote   bool    // something compressed was written
	pending *[]byte // written and not yet compressed, nil for nothing
	trailer trailer // of gzip
	err     error   // the first failed write
}

// NewWriter returns a Writer in front of w. coding must not be Identity. Close must be called at the end of the
// response.
func NewWriter(w http.ResponseWriter, coding Coding) *Writer {
	return &Writer{ResponseWriter: w, coding: coding}
}

// Unwrap lets http.ResponseController reach the connection.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// NoteProblem implements problem.Noter.
func (w *Writer) NoteProblem(code problem.Code) {
	if noter, ok := w.ResponseWriter.(problem.Noter); ok {
		noter.NoteProblem(code)
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *Writer) WriteHeader(status int) {
	if !w.begun && status >= http.StatusOK {
		w.begun, w.active = true, status == http.StatusOK
		if w.active {
			w.Header().Set("Content-Encoding", string(w.coding))
			w.Header().Del("Content-Length")
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write adds p to the current piece. It does not retain p.
func (w *Writer) Write(p []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if !w.active {
		return w.ResponseWriter.Write(p)
	}
	for rest := p; len(rest) > 0 && w.err == nil; {
		if w.pending == nil && len(rest) >= pieceBytes {
			w.send(rest[:pieceBytes])
			rest = rest[pieceBytes:]
			continue
		}
		if w.pending == nil {
			w.pending = buffers.Get().(*[]byte)
		}
		n := min(len(rest), pieceBytes-len(*w.pending))
		*w.pending = append(*w.pending, rest[:n]...)
		if rest = rest[n:]; len(*w.pending) == pieceBytes {
			w.sendPending()
		}
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// FlushError sends everything written so far, in a form that the client can decode to the last byte.
func (w *Writer) FlushError() error {
	w.sendPending()
	if w.err != nil {
		return w.err
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Close ends the body.
func (w *Writer) Close() {
	w.sendPending()
	if !w.active || w.err != nil || w.coding != Gzip {
		return
	}
	var end []byte
	if !w.wrote {
		end = append(end, gzipHeader...)
	}
	_, w.err = w.ResponseWriter.Write(w.trailer.append(end))
}

// sendPending sends the pending bytes.
func (w *Writer) sendPending() {
	if w.pending == nil {
		return
	}
	piece := w.pending
	w.pending = nil
	if w.err == nil {
		w.send(*piece)
	}
	release(piece)
}

// send compresses a piece and writes it to the response.
func (w *Writer) send(piece []byte) {
	buffer := buffers.Get().(*[]byte)
	defer release(buffer)
	out := *buffer
	if w.coding == Gzip {
		if !w.wrote {
			out = append(out, gzipHeader...)
		}
		w.trailer.add(piece)
	}
	w.wrote = true
	out = shares[w.coding].append(out, piece, encoders[w.coding])
	_, w.err = w.ResponseWriter.Write(out)
	*buffer = out
}

// release returns a buffer to the pool unless it has grown too large.
func release(b *[]byte) {
	if cap(*b) <= 2*pieceBytes {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}
