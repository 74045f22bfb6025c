package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"reprise/internal/web"
	"reprise/sse/ssehttp"
)

// maxReads bounds the streams that one request follows.
const maxReads = 64

// piece is a line of the answer to a request that follows several streams: the beginning, a part or the end of the
// answer that a request for one of them would get.
type piece struct {
	Read   int               `json:"read"` // which of them, from 0
	Status int               `json:"status,omitempty"`
	Head   map[string]string `json:"head,omitempty"`
	Text   string            `json:"text,omitempty"`
	Over   bool              `json:"over,omitempty"`
}

// readSeveral follows several streams over one connection. Each is read as a request of its own would read it, with its
// rights, its place among the readers, its line in the log, and its answer, whose parts are lines of this one.
func (s *Server) readSeveral(x *web.Exchange) error {
	reads, err := s.parseReads(x)
	if err != nil {
		return err
	}
	x.EndWithConnection()
	ctx, stop := context.WithCancel(x.R.Context())
	defer stop()
	h := x.W.Header()
	h.Set("Content-Type", web.NDJSON)
	h.Set("X-Accel-Buffering", "no")
	out := &pieces{w: x.W, rc: http.NewResponseController(x.W), timeout: s.opts.WriteTimeout, failed: stop}
	x.W.WriteHeader(http.StatusOK)
	var under sync.WaitGroup
	for i, r := range reads {
		under.Go(func() { s.readOne(r.WithContext(ctx), out, i) })
	}
	under.Wait()
	return nil
}

// parseReads returns a request for each stream in x: "executions/ID" or "streams/NAME", each optionally with "@" and
// the cursor to begin at.
func (s *Server) parseReads(x *web.Exchange) ([]*http.Request, error) {
	names := strings.Split(x.Query.Text("of"), ",")
	if len(names) > maxReads {
		return nil, web.BadRequest("of", fmt.Sprintf("at most %d streams are followed at a time", maxReads))
	}
	reads := make([]*http.Request, len(names))
	for i, name := range names {
		name, cursor, _ := strings.Cut(name, "@")
		kind, name, _ := strings.Cut(name, "/")
		if kind != "executions" && kind != "streams" || name == "" {
			return nil, web.BadRequest("of", "executions/ID and streams/NAME are taken, with commas between them")
		}
		r := x.R.Clone(x.R.Context())
		r.Body, r.ContentLength = http.NoBody, 0
		r.Header.Set("Accept", web.SSE)
		r.Header.Del("Accept-Encoding")
		r.Header.Del("Last-Event-ID")
		if cursor != "" {
			r.Header.Set("Last-Event-ID", cursor)
		}
		path := "/v1/" + kind + "/" + url.PathEscape(name) + "/events"
		r.URL = &url.URL{Path: "/v1/" + kind + "/" + name + "/events", RawPath: path, RawQuery: "gap=event"}
		reads[i] = r
	}
	return reads, nil
}

// readOne answers the request for one of the streams by pieces.
func (s *Server) readOne(r *http.Request, out *pieces, read int) {
	w := &pieceWriter{out: out, read: read, header: http.Header{}}
	s.web.ServeInside(w, r)
	_ = out.write(piece{Read: read, Over: true}) // the next write returns the error
	_ = out.flush()
}

// pieces is an answer that several goroutines write, line by line.
type pieces struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	failed  context.CancelFunc // ends all that write
	err     error              // of the first write that failed
}

func (p *pieces) write(line piece) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.do(func() error {
		_, err := p.w.Write(append(text, '\n'))
		return err
	})
}

func (p *pieces) flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.do(p.rc.Flush)
}

// do calls write within the time that the client has, unless a write has failed before. It is called with the mutex.
func (p *pieces) do(write func() error) error {
	if p.err != nil {
		return p.err
	}
	_ = p.rc.SetWriteDeadline(time.Now().Add(p.timeout))
	if p.err = write(); p.err != nil {
		p.failed()
	}
	return p.err
}

// pieceWriter is the http.ResponseWriter of one of the streams.
type pieceWriter struct {
	out    *pieces
	read   int
	header http.Header
	begun  bool
}

// Header implements http.ResponseWriter.
func (w *pieceWriter) Header() http.Header { return w.header }

// pieceHead are the headers that a piece contains.
var pieceHead = []string{
	"Content-Type", "Retry-After", ssehttp.HeaderEarliest, ssehttp.HeaderTail, ssehttp.HeaderOutcome,
	"Stream-Missed",
}

// WriteHeader implements http.ResponseWriter.
func (w *pieceWriter) WriteHeader(status int) {
	if w.begun || status < 200 {
		return
	}
	w.begun = true
	head := map[string]string{}
	for _, name := range pieceHead {
		if value := w.header.Get(name); value != "" {
			head[name] = value
		}
	}
	_ = w.out.write(piece{Read: w.read, Status: status, Head: head}) // the next write has the error
}

// Write implements http.ResponseWriter. What is written at a time is whole events, or a whole refusal, and so UTF-8.
func (w *pieceWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(b), w.out.write(piece{Read: w.read, Text: string(b)})
}

// FlushError implements what http.ResponseController looks for.
func (w *pieceWriter) FlushError() error { return w.out.flush() }
