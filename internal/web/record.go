package web

import (
	"errors"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"reprise/internal/httpserver"
	"reprise/internal/otlp"
	"reprise/internal/park"
	"reprise/internal/problem"
	"reprise/internal/tracecontext"
)

// record is the ResponseWriter of a request. It records the data for logs and metrics.
type record struct {
	httpserver.Record
	route string // the path of the route with its wildcards
	span  *otlp.Span
	seat  *park.Seat // nil for a response that is not parked
	face  *Face      // nil for our own API
	ends  []func()   // called when the response ends, the last first
	room  [4]func()  // for ends
	// deadline is the deadline of writes in Unix nanoseconds, 0 for none.
	deadline int64
}

// SetWriteDeadline notes the deadline that http.ResponseController sets.
func (rec *record) SetWriteDeadline(t time.Time) error {
	rec.deadline = 0
	if !t.IsZero() {
		rec.deadline = t.UnixNano()
	}
	return http.NewResponseController(rec.ResponseWriter).SetWriteDeadline(t)
}

// allowWrite gives the client the time d for the next write. A deadline that would hardly move is left as it is.
func (rec *record) allowWrite(d time.Duration) {
	deadline := time.Now().Add(d)
	if moves := time.Duration(deadline.UnixNano() - rec.deadline); moves < 0 || moves >= min(time.Second, d/4) {
		_ = rec.SetWriteDeadline(deadline) // a ResponseWriter without deadlines has no network connection
	}
}

// atEnd calls f when the response ends, after all that is registered later.
func (rec *record) atEnd(f func()) {
	if rec.ends == nil {
		rec.ends = rec.room[:0]
	}
	rec.ends = append(rec.ends, f)
}

// end calls what atEnd has registered, and releases the seat.
func (rec *record) end() {
	for n := len(rec.ends); n > 0; n = len(rec.ends) {
		f := rec.ends[n-1]
		rec.ends = rec.ends[:n-1]
		f()
	}
	if rec.seat != nil {
		rec.seat.Release()
	}
}

// RecordOf returns the record of a request that was passed on; see Mux.Pass.
func RecordOf(w http.ResponseWriter) *httpserver.Record { return &recordOf(w).Record }

// recordOf finds the record behind the writer of a handler.
func recordOf(w http.ResponseWriter) *record {
	rec, ok := w.(*record)
	if !ok {
		return &record{}
	}
	return rec
}

// serve is the outermost layer: it names the request, bounds the answer in time, and
// writes one line about it, whatever happens within.
func (m *Mux) serve(w http.ResponseWriter, r *http.Request) {
	w, r, done := httpserver.GuardBody(w, r, m.opts.BodyTimeout)
	defer done()
	rec := &record{route: "none"}
	rec.Init(w, r)
	m.turn(rec, r)
	r = m.beginSpan(rec, r)
	defer func() {
		v := recover()
		if rec.seat.Parked() {
			m.leaveParked(rec, r, v)
			return
		}
		rec.end()
		cut := v != nil && !m.panicked(rec, r, v)
		// What lies in buffers is sent after we return, and not for ever either.
		rec.allowWrite(m.opts.WriteTimeout)
		m.note(rec, r)
		if cut {
			panic(http.ErrAbortHandler) // the client must see that the answer is cut short
		}
	}()
	if m.guard(rec, r) {
		m.route(rec, r)
	}
}

// ServeInside answers a request that is a part of another one, with a line in the log and a span of its own. Its head
// was checked with that one.
func (m *Mux) ServeInside(w http.ResponseWriter, r *http.Request) {
	rec := &record{route: "none"}
	rec.Init(w, r)
	r = m.beginSpan(rec, r)
	defer func() {
		if v := recover(); v != nil {
			m.panicked(rec, r, v) // in any case this part of the answer is over
		}
		rec.end()
		m.note(rec, r)
	}()
	m.route(rec, r)
}

// leaveParked leaves a parked response. It is over when the client, the stream or the server ends it.
func (m *Mux) leaveParked(rec *record, r *http.Request, v any) {
	// The method and the path share memory with the first line of the request.
	method, path := strings.Clone(r.Method), strings.Clone(r.URL.Path)
	remote, trace := r.RemoteAddr, r.Header[tracecontext.ParentHeader]
	finish := func() {
		_ = http.NewResponseController(rec).SetWriteDeadline(time.Now().Add(m.opts.WriteTimeout))
		rec.end()
		m.note(rec, &http.Request{ // what is logged of it
			Method: method, URL: &url.URL{Path: path}, RemoteAddr: remote,
			Header: http.Header{tracecontext.ParentHeader: trace},
		})
	}
	if v != nil {
		m.panicked(rec, r, v)
		rec.seat.Abort(finish)
		return
	}
	rec.seat.Settle(finish)
}

// panicked answers for a handler that could not, and reports whether it was in time for that.
func (m *Mux) panicked(rec *record, r *http.Request, v any) (answered bool) {
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		return false
	}
	m.opts.Logger.ErrorContext(r.Context(), "a handler panicked", "id", rec.ID, "panic", v,
		"stack", string(debug.Stack()))
	if rec.Begun() {
		return false
	}
	return problem.Write(rec, problem.New(problem.CodeInternal, "")) == nil
}

// note counts and logs a request that is over.
func (m *Mux) note(rec *record, r *http.Request) {
	m.opts.Observed(Observation{rec.route, r.Method, rec.Status(r), rec.Code(), rec.Took()})
	rec.endSpan(r)
	rec.Log(m.opts.Logger, m.opts.LogRequests, r)
}
