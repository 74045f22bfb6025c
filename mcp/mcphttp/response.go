package mcphttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"reprise"
	"reprise/internal/httpserver"
	"reprise/internal/sseloop"
)

// response is one HTTP response that follows a stream. It is the sseloop.Handler of its loop.
type response struct {
	sseloop.Conn
	h    *Handler
	s    *Session
	w    http.ResponseWriter
	req  *http.Request
	form form
	// primes is true on versions that know the priming event and retry.
	primes bool
	stop   context.CancelCauseFunc
	life   context.Context // ends when the response is to end before its stream

	known time.Time // when it was asked last who the client is

	retryMu sync.Mutex
	retry   time.Duration // the pause that the client gets as the connection is closed
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

// lastWords limits how long the response of an ended session continues, to send the last message of its stream.
const lastWords = time.Second

// follow sends the events of reader until the stream has ended, the client is gone, or another connection takes over
// the stream. It closes reader. begun is called once the connection is the reader of the stream, and may be nil.
func (s *Session) follow(
	w http.ResponseWriter, req *http.Request, exchange string, reader *reprise.Reader, begun func(),
) {
	defer reader.Close()
	ctx, stop := context.WithCancelCause(req.Context())
	defer stop(nil)
	defer context.AfterFunc(s.life, func() {
		why := context.Cause(s.life)
		if exchange == standalone && errors.Is(why, errSessionEnded) {
			time.AfterFunc(lastWords, func() { stop(why) }) // by then the end of the stream has come
			return
		}
		stop(why)
	})()
	r := &response{
		h: s.h, s: s, w: w, req: req, form: form{exchange},
		primes: s.Version() >= version20251125, stop: stop, life: ctx, known: time.Now(),
	}
	r.Init(w)
	r.Reader, r.Silence, r.WriteTimeout = reader, s.h.opts.KeepAlive, s.h.opts.WriteTimeout
	r.Last = true
	s.takeover(exchange, r)
	defer s.left(exchange, r)
	if begun != nil {
		begun()
	}
	if left, ok := httpserver.Remaining(ctx); ok && (r.primes || req.Method == http.MethodGet) {
		if req.ProtoMajor == 1 {
			w.Header().Set("Connection", "close")
		}
		defer time.AfterFunc(left, func() { stop(errToPoll) }).Stop()
	}
	if age := s.responseAge(); age > 0 && r.primes && exchange != standalone {
		defer time.AfterFunc(age, func() { stop(errToPoll) }).Stop()
	}
	r.begin()
	_ = r.Poll(ctx) // Follow deals with the error
	r.Follow(ctx, r)
}

// responseAge is the age at which the response to a call is closed; see Options.ResponseAge.
func (s *Session) responseAge() time.Duration {
	if age := s.h.opts.ResponseAge; age != 0 || !s.resumes.Load() {
		return age
	}
	return 45 * time.Second
}

// begin sends the head of the response, and how the client can come back.
func (r *response) begin() {
	setStreamHeader(r.w.Header())
	r.Begin()
	if info, at := r.Reader.Info(), r.Reader.Cursor(); info.Tail == at.Seq && info.End != nil ||
		isBareEnd(&info, at.Seq) {
		return // there is nothing to come back for
	}
	if r.primes {
		prime := r.appendRetry(nil, r.h.opts.Retry)
		prime = fmt.Appendf(prime, "data: \nid: %s\n\n", r.form.eventID(r.Reader.Cursor()))
		r.write(prime)
	}
}

// appendRetry appends a retry field. It counts from its line on, without the empty line that ends a block.
func (r *response) appendRetry(dst []byte, after time.Duration) []byte {
	return append(strconv.AppendInt(append(dst, "retry: "...), max(1, after.Milliseconds()), 10), '\n')
}

func setStreamHeader(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
}

// Send implements sseloop.Handler.
func (r *response) Send(events reprise.Events) { _ = events.WriteEncoded(&r.Conn, r.form) } // the loop has the error

// Gap implements sseloop.Handler. It sends a log message that names the messages that the client misses, and the number
// of received messages that the store has lost. The remaining messages follow, including the response that the client
// waits for.
func (r *response) Gap(refused *reprise.WindowError, at reprise.Cursor) {
	from := refused.Asked.Seq
	if refused.Reason == reprise.EpochChanged {
		from = refused.Fork.Seq
	}
	r.write(fmt.Appendf(nil, messageStart+"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"error\","+
		"\"logger\":\"reprise\",\"data\":{\"code\":%q,\"missed\":%d,\"taken_back\":%d}}}\nid: %s\n\n",
		refused.Reason, at.Seq-min(from, at.Seq), refused.TakenBack(), r.form.eventID(at)))
}

// Finish implements sseloop.Handler. It sends a client the pause before it reconnects.
func (r *response) Finish(why error) {
	if !errors.Is(why, reprise.ErrEnded) && r.life.Err() == nil {
		r.h.opts.Logger.Warn("an MCP connection is closed", "session", r.s.ID, "stream", r.form.exchange, "error", why)
	}
	sessionEnded := errors.Is(why, reprise.ErrEnded) && r.form.exchange == standalone
	if r.primes && (sessionEnded || errors.Is(why, errToPoll) || errors.Is(why, reprise.ErrClosed)) {
		r.retryMu.Lock()
		retry := r.retry
		r.retryMu.Unlock()
		if retry == 0 {
			retry = r.h.opts.Retry
		}
		r.write(r.appendRetry(nil, retry))
	}
}

// comment is what keeps a connection alive. It is a line and not a block: there are clients that
// dispatch an empty message for each empty line.
var comment = []byte(":\n")

// Beat implements sseloop.Handler.
func (r *response) Beat() { r.write(comment) }

// MayGoOn implements sseloop.Handler. It reports whether the client is still authorized, since its credentials may
// expire or be revoked. It checks that at intervals.
func (r *response) MayGoOn() bool {
	if time.Since(r.known) < r.h.opts.KeepAlive {
		return true
	}
	r.known = time.Now()
	tenant, principal, err := r.h.opts.Identify(r.req)
	return err == nil && tenant == r.s.Tenant && principal == r.s.Principal
}

func (r *response) write(b []byte) { _, _ = r.Write(b) } // the loop has the error
