package mcphttp

import (
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// The headers of MCP.
const (
	headerVersion  = "Mcp-Protocol-Version"
	headerSession  = "Mcp-Session-Id"
	headerInstance = "Mcp-Client-Instance-Id" // by which some clients find their session again; see rejoined
	headerEventID  = "Last-Event-ID"
	headerResume   = "Mcp-Last-Event-Id" // by which some clients call the same
	headerMethod   = "Mcp-Method"
	headerName     = "Mcp-Name"
)

// fromElsewhere returns the reason to reject the origin of a request, or "". A page of another site must not reach a
// server through the browser of a user who can.
func (h *Handler) fromElsewhere(r *http.Request) string {
	if !h.hostAllowed(r) {
		return "the Host header names another server"
	}
	if !h.originAllowed(r) {
		return "pages of this origin may not send requests"
	}
	return ""
}

func (h *Handler) hostAllowed(r *http.Request) bool {
	host := hostname(r.Host)
	if h.opts.AllowedHosts != nil {
		return slices.Contains(h.opts.AllowedHosts, "*") ||
			slices.ContainsFunc(h.opts.AllowedHosts, func(allowed string) bool {
				return strings.EqualFold(allowed, host)
			})
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return !ok || !isLoopback(hostname(local.String())) || isLoopback(host)
}

func (h *Handler) originAllowed(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	if h.opts.AllowedOrigins != nil {
		return slices.Contains(h.opts.AllowedOrigins, origin)
	}
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, r.Host)
}

// hostname is an address without its port.
func hostname(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.Trim(address, "[]")
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// allowPage lets a page of an allowed origin read the answer, and reports whether that is all there is to the
// request: it asked whether it may send another one.
func (h *Handler) allowPage(w http.ResponseWriter, r *http.Request) (preflight bool) {
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(h.opts.AllowedOrigins, origin) {
		return false
	}
	head := w.Header()
	head.Set("Access-Control-Allow-Origin", origin)
	head.Add("Vary", "Origin")
	head.Set("Access-Control-Expose-Headers", headerSession+", WWW-Authenticate")
	if r.Method != http.MethodOptions {
		return false
	}
	head.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	head.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	w.WriteHeader(http.StatusNoContent)
	return true
}

// accepts reports which of the two content types of MCP a client takes.
func accepts(r *http.Request) (json, stream bool) {
	for _, value := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(value, ",") {
			media, params, err := mime.ParseMediaType(part)
			if err != nil || params["q"] == "0" {
				continue
			}
			json = json || media == "application/json" || media == "application/*" || media == "*/*"
			stream = stream || media == "text/event-stream" || media == "text/*" || media == "*/*"
		}
	}
	return json, stream
}

func isJSON(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && media == "application/json"
}
