package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"reprise"
	"reprise/internal/httpserver"
	"reprise/internal/identity"
)

// checkNames refuses options that cannot match any request.
func (o *Options) checkNames() error {
	for _, host := range o.Hosts {
		if host == "" || httpserver.HostName(host) != strings.ToLower(host) {
			return fmt.Errorf("%w: %q is not a host name without a port", reprise.ErrInvalid, host)
		}
	}
	for _, origin := range o.Origins {
		u, err := url.Parse(origin)
		if origin != "null" && (err != nil || u.Host == "" || u.Scheme+"://"+u.Host != origin) {
			return fmt.Errorf("%w: %q is not an origin such as \"https://example.org:8443\"",
				reprise.ErrInvalid, origin)
		}
	}
	return nil
}

// commonHeaders are headers of every response, with names in canonical form. Responses share the values: they have no
// room behind them, so that http.Header.Add copies them. With X-Request-Id and Content-Type they are eight, which is as
// many as a small map holds: a ninth header would cost each request two larger maps.
var commonHeaders = []struct {
	name  string
	value []string
}{
	{"X-Content-Type-Options", []string{"nosniff"}},
	{"X-Frame-Options", []string{"DENY"}},
	{"Cross-Origin-Resource-Policy", []string{"same-origin"}},
	{"Content-Security-Policy", []string{"default-src 'none'; frame-ancestors 'none'"}},
	{"Cache-Control", []string{"no-store"}},
	{"Vary", []string{"Origin"}},
}

// guard refuses repeated headers and cross-site requests of browsers, and answers preflight requests of browsers. It
// reports whether the request may continue.
func (m *Mux) guard(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	for _, common := range commonHeaders {
		h[common.name] = common.value
	}
	if !httpserver.HostAllowed(r, m.opts.Hosts) && !isHealthCheck(r) {
		m.refuse(w, r, fmt.Errorf(
			"%w: the server does not go by the name in the header Host; name it with --allow-host",
			identity.ErrForbidden,
		))
		return false
	}
	if name := httpserver.RepeatedHeader(r); name != "" {
		m.refuse(w, r, BadRequest(name, httpserver.RepeatedDetail))
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" || httpserver.SameOrigin(origin, r.Host) {
		return true
	}
	if !slices.Contains(m.opts.Origins, origin) {
		recordOf(w).OriginRefused = true
		m.refuse(w, r, fmt.Errorf("%w: pages of this origin may not use the server; name it with --allow-origin",
			identity.ErrForbidden))
		return false
	}
	exposed, allowed := exposedHeaders, allowedHeaders
	if face := recordOf(w).face; face != nil && face.Allow != "" {
		exposed, allowed = exposed+", "+face.Expose, allowed+", "+face.Allow
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", exposed)
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
		h.Set("Access-Control-Allow-Headers", allowed)
		h.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
		return false
	}
	return true
}

const (
	exposedHeaders = "Execution-Id, Location, Retry-After, Content-Range, Accept-Ranges, X-Request-Id, " +
		"Mcp-Session-Id, Stream-Earliest, Stream-Tail, Stream-Outcome, Stream-Missed, Execution-Hold, " +
		"Execution-Receipts, ETag, Upload-Offset, WWW-Authenticate"
	allowedHeaders = "Authorization, Content-Type, Cache-Control, If-None-Match, Last-Event-ID, Idempotency-Key, " +
		"Execution-Hold, Execution-Receipts, traceparent, tracestate, Producer-Id, Producer-Epoch, Producer-Seq, " +
		"Range, If-Range, X-Request-Id, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name"
)

// isHealthCheck reports whether r is a health check, which reveals nothing: load balancers send it with any Host, or
// with none.
func isHealthCheck(r *http.Request) bool {
	return r.URL.Path == "/healthz" || r.URL.Path == "/readyz"
}
