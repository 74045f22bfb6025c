package web

import (
	"net/http"
	"time"

	"reprise/internal/otlp"
)

// untraced are the paths that monitoring requests every few seconds.
var untraced = map[string]bool{"/healthz": true, "/readyz": true, "/metrics": true}

// beginSpan begins the span of a request, which is nil unless requests are traced.
func (m *Mux) beginSpan(rec *record, r *http.Request) *http.Request {
	if m.opts.Tracer == nil || untraced[r.URL.Path] {
		return r
	}
	rec.span = m.opts.Tracer.Begin(r.Method, otlp.Server, otlp.ParentOf(r.Header), time.Now())
	return r.WithContext(otlp.WithSpan(r.Context(), rec.span))
}

// endSpan ends the span of a finished request. The span contains neither the path nor the query, because they may
// contain a ticket.
func (rec *record) endSpan(r *http.Request) {
	if rec.span == nil {
		return
	}
	method := r.Method
	if len(method) > 16 {
		method = "_OTHER"
	}
	rec.span.Rename(method + " " + rec.route)
	status := rec.Status(r)
	if status >= 500 {
		rec.span.Fail(string(rec.Code()))
	}
	rec.span.End(time.Now(),
		otlp.Attribute{Name: "http.request.method", Value: method},
		otlp.Attribute{Name: "http.route", Value: rec.route},
		otlp.Attribute{Name: "http.response.status_code", Value: int64(status)},
		otlp.Attribute{Name: "reprise.request", Value: rec.ID},
		otlp.Attribute{Name: "reprise.tenant", Value: rec.Tenant},
		otlp.Attribute{Name: "reprise.execution", Value: rec.Execution},
	)
}
