package httpserver

import (
	"crypto/rand"
	"log/slog"
	"net/http"
	"time"

	"reprise/internal/problem"
	"reprise/internal/tracecontext"
)

// RequestIDHeader carries the name of a request, the client's or ours.
const RequestIDHeader = "X-Request-Id"

// statusClientGone is logged if the client has disconnected before the answer.
const statusClientGone = 499

// Record is the ResponseWriter of a request. It records data for the log.
type Record struct {
	http.ResponseWriter
	// ID is the name of the request, which the header of the answer has too.
	ID string
	// Principal and Tenant identify the sender of the request, or are "".
	Principal, Tenant string
	// Execution is the execution that the request has started or found, or "". The header of the answer has it too, but
	// once the answer has begun, net/http copies the header for each look at it.
	Execution string
	// Quiet is set for a request of which a client sends many: a success is for debugging alone.
	Quiet bool
	// OriginRefused is set for a request of a page whose origin may not use the server. A browser does not tell the
	// page why, so the log does.
	OriginRefused bool

	began  time.Time
	status int // 0 until the header is written
	bytes  int64
	code   problem.Code // of the problem that was the answer, "" for none
}

// NewRecord begins the record of a request: it names the request in the header of the answer.
func NewRecord(w http.ResponseWriter, r *http.Request) *Record {
	rec := &Record{}
	rec.Init(w, r)
	return rec
}

// Init is NewRecord for a Record that is part of another struct.
func (rec *Record) Init(w http.ResponseWriter, r *http.Request) {
	rec.ResponseWriter, rec.ID, rec.began = w, requestID(r), time.Now()
	w.Header().Set(RequestIDHeader, rec.ID)
}

// Unwrap lets http.ResponseController reach the connection.
func (rec *Record) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// WriteHeader notes the first status that is final.
func (rec *Record) WriteHeader(status int) {
	if rec.status == 0 && status >= 200 {
		rec.status = status
	}
	rec.ResponseWriter.WriteHeader(status)
}

// Write counts the written bytes.
func (rec *Record) Write(b []byte) (int, error) {
	if rec.status == 0 {
		rec.status = http.StatusOK
	}
	n, err := rec.ResponseWriter.Write(b)
	rec.bytes += int64(n)
	return n, err
}

// NoteProblem implements problem.Noter.
func (rec *Record) NoteProblem(code problem.Code) { rec.code = code }

// Begun reports whether the answer has begun.
func (rec *Record) Begun() bool { return rec.status != 0 }

// Code returns the code of the problem in the answer, or "" if there was none.
func (rec *Record) Code() problem.Code { return rec.code }

// Status returns the status of the answer after its end, or 499 if the client has disconnected before it.
func (rec *Record) Status(r *http.Request) int {
	switch {
	case rec.status != 0:
		return rec.status
	case r.Context().Err() != nil:
		return statusClientGone
	}
	return http.StatusOK
}

// Took is the time since the record began.
func (rec *Record) Took() time.Duration { return time.Since(rec.began) }

// Requests says of which requests a line is logged. The level of the others is debug.
type Requests string

// The requests of which a line is logged.
const (
	LogAll     Requests = "all"
	LogChanges Requests = "changes" // and refusals; the default
	LogErrors  Requests = "errors"  // refusals and failures
)

// Log logs a finished request, without empty attributes. It never logs the query, which may contain a ticket. A failure
// of the server has the level error.
func (rec *Record) Log(logger *slog.Logger, wanted Requests, r *http.Request) {
	status, level := rec.Status(r), slog.LevelInfo
	refused := status >= 400 && status != statusClientGone
	switch {
	case status >= 500:
		level = slog.LevelError
	case rec.OriginRefused:
		level = slog.LevelWarn
	case refused, wanted == LogAll:
	case wanted == LogErrors, rec.Quiet, isRead(r.Method):
		level = slog.LevelDebug
	}
	if !logger.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("id", rec.ID), slog.String("method", Clip(r.Method, 16)),
		slog.String("path", Clip(r.URL.Path, 256)), slog.Int("status", status),
		slog.Int64("bytes", rec.bytes), slog.Duration("took", rec.Took()),
	}
	origin, advice := "", ""
	if rec.OriginRefused {
		origin = Clip(r.Header.Get("Origin"), 256)
		advice = "--allow-origin " + origin
	}
	for _, optional := range []struct{ name, value string }{
		{"code", string(rec.code)},
		{"principal", rec.Principal},
		{"tenant", rec.Tenant},
		{"execution", rec.Execution},
		{"trace", tracecontext.Of(r.Header).TraceID()},
		{"origin", origin},
		{"advice", advice},
	} {
		if optional.value != "" {
			attrs = append(attrs, slog.String(optional.name, optional.value))
		}
	}
	logger.LogAttrs(r.Context(), level, "request", append(attrs, slog.String("remote", r.RemoteAddr))...)
}

// isRead reports whether requests with a method change nothing.
func isRead(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// requestID is the client's name for the request if that is 1 to 64 letters,
// digits, '.', '_' and '-', else one of ours.
func requestID(r *http.Request) string {
	id := r.Header.Get(RequestIDHeader)
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

// Clip returns at most n bytes of s, to keep the log readable.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "..."
}
