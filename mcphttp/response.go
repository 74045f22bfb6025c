package mcphttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"reprise"
)

// response is one HTTP response that follows a stream.
type response struct {
	h      *Handler
	s      *Session
	w      http.ResponseWriter
	rc     *http.ResponseController
	req    *http.Request
	reader *reprise.Reader
	form   form
	// primes is true on versions that know the priming event and retry.
	primes bool
	stop   context.CancelCauseFunc

	known    time.Time // when it was asked last who the client is
	flushed  time.Time // when all that there was had been sent
	deadline time.Time // that is set for writes
	err      error     // the first failed write

	retryMu sync.Mutex
	retry   time.Duration // what the client is told as the connection is closed
}

// Why a response ends before its stream.
var (
	errTakenOver = errors.New("a newer connection reads the stream")
	errToPoll    = errors.New("the server closes the connection for a while")
)

// takeover ends the connection that reads a stream in favour of a newer one, which is next unless it is
// another replica's.
func (s *Session) takeover(exchange string, next *response) {
	s.mu.Lock()
	old := s.conns[exchange]
	switch {
	case next != nil:
		s.conns[exchange] = next
	default:
		delete(s.conns, exchange)
	}
	s.mu.Unlock()
	if old == nil {
		return
	}
	old.stop(errTakenOver)
	if hook := s.h.opts.Hooks.TakenOver; hook != nil {
		hook(s.Tenant)
	}
}

// left drops a connection that has ended.
func (s *Session) left(exchange string, r *response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns[exchange] == r {
		delete(s.conns, exchange)
	}
	s.used = time.Now()
}

// closeConnection ends the connection that reads a stream, if there is one here.
func (s *Session) closeConnection(exchange string, retry time.Duration) {
	s.mu.Lock()
	r := s.conns[exchange]
	s.mu.Unlock()
	if r == nil {
		return
	}
	r.retryMu.Lock()
	r.retry = retry
	r.retryMu.Unlock()
	r.stop(errToPoll)
}

// follow answers with what reader gives, until the stream has ended, the client has gone, or
// another connection takes the stream over. It closes the reader. begun is called when the connection is the
// one that reads the stream, and may be nil.
func (s *Session) follow(w http.ResponseWriter, req *http.Request, exchange string, reader *reprise.Reader, begun func()) {
	defer reader.Close()
	ctx, stop := context.WithCancelCause(req.Context())
	defer stop(nil)
	defer context.AfterFunc(s.life, func() { stop(context.Cause(s.life)) })()
	r := &response{
		h: s.h, s: s, w: w, rc: http.NewResponseController(w), req: req, reader: reader, form: form{exchange},
		primes: s.Version() >= version20251125, stop: stop, flushed: time.Now(), known: time.Now(),
	}
	s.takeover(exchange, r)
	defer s.left(exchange, r)
	if begun != nil {
		begun()
	}
	r.begin()
	r.run(ctx)
}

// begin sends the head of the response, and what tells the client how to come back.
func (r *response) begin() {
	setStreamHeader(r.w.Header())
	r.w.WriteHeader(http.StatusOK)
	if info, at := r.reader.Info(), r.reader.Cursor(); info.Tail == at.Seq && info.End != nil || isBareEnd(&info, at.Seq) {
		return // there is nothing to come back for
	}
	if r.primes {
		prime := r.appendRetry(nil, r.h.opts.Retry)
		prime = fmt.Appendf(prime, "id: %s\ndata: \n\n", r.form.eventID(r.reader.Cursor()))
		r.write(prime)
	}
}

// appendRetry appends a retry field, the rest of whose block follows.
func (r *response) appendRetry(dst []byte, after time.Duration) []byte {
	return append(strconv.AppendInt(append(dst, "retry: "...), max(1, after.Milliseconds()), 10), '\n')
}

func setStreamHeader(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
}

// run sends what there is, and then all that comes.
func (r *response) run(ctx context.Context) {
	keepAlive := time.NewTimer(r.h.opts.KeepAlive)
	defer keepAlive.Stop()
	for r.err == nil {
		changed := r.reader.Changed()
		run, err := r.reader.Poll(ctx)
		if run.Len() > 0 {
			_ = run.WriteEncoded(r, r.form) // r.err has the error
		}
		switch {
		case !r.isAllowed():
			return
		case ctx.Err() != nil:
			r.finish(context.Cause(ctx))
			return
		case err != nil:
			if !r.goOn(err) {
				return
			}
		case run.Len() == 0 && !r.wait(ctx, changed, keepAlive):
			return
		}
	}
}

// goOn deals with an error of the reader and reports whether there may be more.
func (r *response) goOn(err error) bool {
	window, ok := errors.AsType[*reprise.WindowError](err)
	if ok && window.Reason == reprise.CursorExpired && r.reader.Seek(reprise.Earliest()) == nil {
		r.gap(window, r.reader.Cursor())
		return true
	}
	if !errors.Is(err, io.EOF) {
		r.h.opts.Logger.Warn("an MCP connection is closed", "session", r.s.ID, "stream", r.form.exchange, "error", err)
	}
	r.finish(err)
	return false
}

// gap tells by a log message what cannot be had any more. What is left follows, in which is the response that
// the client waits for.
func (r *response) gap(refused *reprise.WindowError, at reprise.Cursor) {
	r.write(fmt.Appendf(nil, "event: message\nid: %s\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":"+
		"{\"level\":\"error\",\"logger\":\"reprise\",\"data\":{\"code\":%q,\"missed\":%d}}}\n\n",
		r.form.eventID(at), refused.Reason, at.Seq-refused.Asked.Seq))
}

// finish sends what was written. A client that is to come back is told when.
func (r *response) finish(why error) {
	if r.primes && (errors.Is(why, errToPoll) || errors.Is(why, reprise.ErrClosed)) {
		r.retryMu.Lock()
		retry := r.retry
		r.retryMu.Unlock()
		if retry == 0 {
			retry = r.h.opts.Retry
		}
		r.write(append(r.appendRetry(nil, retry), '\n'))
	}
	r.flush()
}

// wait sends what has been written and waits until there is more. It sends the keep-alive comments.
func (r *response) wait(ctx context.Context, changed <-chan struct{}, keepAlive *time.Timer) bool {
	select {
	case <-changed: // more has come meanwhile: send it together
		return true
	default:
	}
	r.flush()
	for r.err == nil {
		select {
		case <-changed:
			return true
		case <-ctx.Done():
			r.finish(context.Cause(ctx))
			return false
		case <-keepAlive.C:
			// The timer runs on while events are sent: setting it for each of them costs more
			// than to let it go off for nothing now and then.
			silence := time.Since(r.flushed)
			if silence >= r.h.opts.KeepAlive {
				r.write([]byte(":\n\n"))
				r.flush()
				silence = 0
			}
			keepAlive.Reset(r.h.opts.KeepAlive - silence)
			if !r.isAllowed() {
				return false
			}
		}
	}
	return false
}

// isAllowed reports whether the client is still who it was: what it has shown may have expired or been
// revoked. It asks every now and then.
func (r *response) isAllowed() bool {
	if time.Since(r.known) < r.h.opts.KeepAlive {
		return true
	}
	r.known = time.Now()
	tenant, principal, err := r.h.opts.Identify(r.req)
	return err == nil && tenant == r.s.Tenant && principal == r.s.Principal
}

// Write implements io.Writer within the time that the client has.
func (r *response) Write(b []byte) (int, error) {
	r.write(b)
	return len(b), r.err
}

func (r *response) write(b []byte) {
	if r.err != nil || len(b) == 0 {
		return
	}
	r.allow()
	_, r.err = r.w.Write(b)
}

func (r *response) flush() {
	if r.err == nil {
		r.allow()
		r.err = r.rc.Flush()
		r.flushed = time.Now()
	}
}

// allow moves the deadline for writes, at most once a second or a few times within a shorter timeout.
func (r *response) allow() {
	now, timeout := time.Now(), r.h.opts.WriteTimeout
	if deadline := now.Add(timeout); deadline.Sub(r.deadline) >= min(time.Second, timeout/4) {
		r.deadline = deadline
		// A ResponseWriter without deadlines is one without a network behind it.
		_ = r.rc.SetWriteDeadline(deadline)
	}
}
