package mcphttp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"reprise"
	"reprise/internal/sseloop"
)

// In version 2026-07-28 each request is self-contained, and its response ends with the connection. Responses are not
// kept. A call that must outlive its connection is a task.

// errGone is why a request ends whose client has closed the connection.
var errGone = errors.New("the client has closed the connection")

// isModern reports whether a POST is of a version without sessions.
func isModern(r *http.Request, messages []Message) bool {
	if r.Header.Get(headerVersion) == version20260728 {
		return true
	}
	for i := range messages {
		if m := &messages[i]; m.isCall() && metaOf(m.Params).version >= version20260728 {
			return true
		}
	}
	return false
}

// serveModern answers a request.
func (h *Handler) serveModern(
	w http.ResponseWriter, r *http.Request, c caller, messages []Message, batch bool,
) *refusal {
	m := &messages[0]
	switch {
	case batch:
		return invalidRequest(http.StatusBadRequest, "version "+version20260728+" has no batches")
	case m.Method == "":
		return invalidRequest(http.StatusBadRequest, "clients send no responses on version "+version20260728)
	}
	x := &Exchange{
		Messages: messages, Version: version20260728, Header: r.Header, Tenant: c.tenant, Principal: c.principal,
		Request: r, h: h, waiting: map[ID]string{},
	}
	if !m.isCall() {
		return h.takeNote(w, r, x)
	}
	refused := h.checkMeta(r, m)
	if refused == nil {
		refused = h.checkParams(r.Context(), x)
	}
	if refused != nil {
		return refused
	}
	live := newLive()
	x.sink = live
	x.aside = h.opts.JSONResponse && m.Method != methodListen
	x.waiting[m.ID] = m.Method
	life, end := context.WithCancelCause(h.running)
	defer end(errGone)
	if !h.run(life, x) {
		return refusalOf(reprise.ErrClosed)
	}
	defer live.leave()
	h.answerLive(w, r, live, x.aside)
	return nil
}

// takeNote takes a notification. The protocol has none that says anything here.
func (h *Handler) takeNote(w http.ResponseWriter, r *http.Request, x *Exchange) *refusal {
	if v := r.Header.Get(headerVersion); !h.serves(v) {
		return h.unsupported(v, "")
	}
	if x.Messages[0].Method != noteCancelled {
		h.begin(func() {
			if err := h.serve(h.running, x); err != nil && h.running.Err() == nil {
				h.opts.Logger.Warn("a notification of an MCP client failed",
					"method", x.Messages[0].Method, "error", err)
			}
		})
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// live is the sink of an exchange whose messages go to one connection and are not kept.
type live struct {
	mu    sync.Mutex
	room  sync.Cond
	queue [][]byte
	bytes int
	ended bool          // the last message is queued
	gone  bool          // no client reads any more
	more  chan struct{} // holds one when the queue has grown
}

func newLive() *live {
	l := &live{more: make(chan struct{}, 1)}
	l.room.L = &l.mu
	return l
}

func (l *live) send(message []byte, last bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.bytes > maxQueue && !l.gone && !l.ended {
		l.room.Wait()
	}
	if l.gone || l.ended {
		return reprise.ErrEnded
	}
	l.queue = append(l.queue, message)
	l.bytes += len(message)
	l.ended = last
	select {
	case l.more <- struct{}{}:
	default:
	}
	return nil
}

// take removes and returns the queued messages.
func (l *live) take() (messages [][]byte, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	messages, l.queue, l.bytes = l.queue, nil, 0
	l.room.Broadcast()
	return messages, l.ended
}

func (l *live) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone, l.queue = true, nil
	l.room.Broadcast()
}

// answerLive sends messages until the last one, or until the client is gone: as JSON if the response is the only
// message, and otherwise as a stream.
func (h *Handler) answerLive(w http.ResponseWriter, r *http.Request, l *live, whole bool) {
	out := &liveResponse{w: w}
	out.Init(w)
	out.Silence, out.WriteTimeout = h.opts.KeepAlive, h.opts.WriteTimeout
	keepAlive := time.NewTimer(h.opts.KeepAlive)
	defer keepAlive.Stop()
	for out.Err() == nil {
		select {
		case <-l.more:
			messages, last := l.take()
			if last && len(messages) == 1 && !out.begun {
				writeJSON(w, statusOf(messages[0]), messages[0])
				return
			}
			out.stream(messages)
			if last {
				return
			}
		case <-keepAlive.C:
			if !whole { // a JSON answer cannot begin before it is there
				keepAlive.Reset(out.keepAlive())
			}
		case <-r.Context().Done():
			return
		case <-h.answering.Done(): // what was to be said has been, unless the backend does not return
			if messages, _ := l.take(); len(messages) > 0 {
				out.stream(messages)
			}
			return
		}
	}
}

// liveResponse is a stream of messages without ids.
type liveResponse struct {
	sseloop.Conn // whose loop is not used: what is sent is in no stream
	w            http.ResponseWriter
	begun        bool
	buf          []byte
}

func (o *liveResponse) start() {
	if !o.begun {
		o.begun = true
		setStreamHeader(o.w.Header())
		o.Begin()
	}
}

func (o *liveResponse) stream(messages [][]byte) {
	if len(messages) == 0 {
		return
	}
	o.start()
	for _, m := range messages {
		o.buf = reprise.AppendJSONLine(append(o.buf, "event: message\ndata: "...), m)
		o.buf = append(o.buf, "\n\n"...)
		if len(o.buf) >= maxPiece {
			_, _ = o.Write(o.buf) // Err has the error
			o.buf = o.buf[:0]
		}
	}
	_, _ = o.Write(o.buf)
	o.buf = o.buf[:0]
	o.Flush()
}

// maxPiece is the number of bytes written at a time, plus or minus one message.
const maxPiece = 64 << 10

// keepAlive sends a comment if the silence has lasted for long enough, and begins the response with the first one. It
// returns the time until the next.
func (o *liveResponse) keepAlive() time.Duration {
	if left := o.Left(); left > 0 {
		return left
	}
	o.start()
	_, _ = o.Write(comment)
	o.Flush()
	return o.Silence
}

// statusOf is the status of a response that is an error of the protocol.
func statusOf(response []byte) int {
	m, err := ParseMessage(response)
	if err != nil || m.Err == nil {
		return http.StatusOK
	}
	var e struct {
		Code int `json:"code"`
	}
	_ = json.Unmarshal(m.Err, &e) // of another form it is no error of the protocol
	switch e.Code {
	case codeMethodNotFound:
		return http.StatusNotFound
	case codeInvalidParams, codeUnsupportedVersion, codeMissingCapability, codeHeaderMismatch:
		return http.StatusBadRequest
	}
	return http.StatusOK
}
