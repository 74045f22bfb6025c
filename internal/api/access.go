package api

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"reprise/internal/httpserver"
	"reprise/internal/problem"
)

// requestIDHeader carries the name of a request, the client's or ours.
const requestIDHeader = "X-Request-Id"

// statusClientGone is logged where nobody was left to answer.
const statusClientGone = 499

// record is the ResponseWriter of a request. It notes what the log wants to know.
type record struct {
	http.ResponseWriter
	route     string // the path of the route with its wildcards
	principal string
	status    int // 0 until the header is written
	bytes     int64
	code      problem.Code // of the problem that was the answer, "" for none
}

// recordOf finds the record behind the writer of a handler.
func recordOf(w http.ResponseWriter) *record {
	rec, ok := w.(*record)
	if !ok {
		return &record{}
	}
	return rec
}

// Unwrap lets http.ResponseController reach the connection.
func (rec *record) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// WriteHeader notes the first status that is final.
func (rec *record) WriteHeader(status int) {
	if rec.status == 0 && status >= 200 {
		rec.status = status
	}
	rec.ResponseWriter.WriteHeader(status)
}

// NoteProblem implements problem.Noter.
func (rec *record) NoteProblem(code problem.Code) { rec.code = code }

func (rec *record) Write(b []byte) (int, error) {
	if rec.status == 0 {
		rec.status = http.StatusOK
	}
	n, err := rec.ResponseWriter.Write(b)
	rec.bytes += int64(n)
	return n, err
}

// serve is the outermost layer: it names the request, bounds the answer in time, and
// writes one line about it, whatever happens within. The query is never logged: it
// may hold a ticket.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	id := requestID(r)
	w.Header().Set(requestIDHeader, id)
	w, r, done := httpserver.GuardBody(w, r, s.opts.BodyTimeout)
	defer done()
	rec := &record{ResponseWriter: w, route: "none"}
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Time{}) // the one of the request before is over
	defer func() {
		v := recover()
		cut := v != nil && !s.panicked(rec, r, v)
		// What lies in buffers is sent after we return, and not for ever either.
		_ = rc.SetWriteDeadline(time.Now().Add(s.opts.WriteTimeout))
		s.note(rec, r, id, time.Since(start))
		if cut {
			panic(http.ErrAbortHandler) // the client must see that the answer is cut short
		}
	}()
	if s.guard(rec, r) {
		s.route(rec, r)
	}
}

// panicked answers for a handler that could not, and reports whether it was in time for that.
func (s *Server) panicked(rec *record, r *http.Request, v any) (answered bool) {
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		return false
	}
	s.opts.Logger.ErrorContext(r.Context(), "a handler panicked", "panic", v, "stack", string(debug.Stack()))
	if rec.status != 0 {
		return false
	}
	return problem.Write(rec, problem.New(problem.CodeInternal, "")) == nil
}

func (s *Server) note(rec *record, r *http.Request, id string, took time.Duration) {
	status := rec.status
	if status == 0 {
		status = http.StatusOK
		if r.Context().Err() != nil {
			status = statusClientGone
		}
	}
	s.opts.Metrics.request(rec.route, r.Method, status, took)
	if rec.code != "" {
		s.opts.Metrics.problems.With(string(rec.code), rec.route).Inc()
	}
	level := slog.LevelInfo
	if status >= 500 {
		level = slog.LevelError
	}
	s.opts.Logger.LogAttrs(r.Context(), level, "request",
		slog.String("id", id), slog.String("method", clip(r.Method, 16)), slog.String("path", clip(r.URL.Path, 256)),
		slog.Int("status", status), slog.Int64("bytes", rec.bytes), slog.Duration("took", took),
		slog.String("principal", rec.principal), slog.String("remote", r.RemoteAddr))
}

// requestID is the client's name for the request if that is 1 to 64 letters,
// digits, '.', '_' and '-', else one of ours.
func requestID(r *http.Request) string {
	id := r.Header.Get(requestIDHeader)
	if id == "" || len(id) > 64 {
		return rand.Text()[:16]
	}
	for i := range len(id) {
		c := id[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-') {
			return rand.Text()[:16]
		}
	}
	return id
}

// clip keeps the log readable whatever is asked for.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "..."
}
