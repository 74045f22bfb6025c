package contentcoding

import (
	"net/http"
	"sync"

	"reprise/internal/problem"
)

// pieceBytes is the most that is compressed at a time.
const pieceBytes = 64 << 10

// buffers are for what is written until it is flushed or is a piece, and for what it compresses to.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, pieceBytes+pieceBytes/8)
	return &b
}}

// Writer is a ResponseWriter that compresses the body of a response with status 200. Others pass as they are. Its
// methods are called by one goroutine at a time.
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

// NewWriter returns a Writer in front of w. coding is not Identity. Close must be called when the response is over.
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

// Write takes p for the next piece. It keeps nothing of p.
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

// FlushError sends all that was written, in a form that the client can decode up to the last byte.
func (w *Writer) FlushError() error {
	w.sendPending()
	if w.err != nil {
		return w.err
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Close ends the body. The response is over.
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

// sendPending sends what is pending.
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

// send compresses a piece and hands it to the response.
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

// release gives a buffer back, unless it has grown beyond what is kept.
func release(b *[]byte) {
	if cap(*b) <= 2*pieceBytes {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}
