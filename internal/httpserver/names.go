package httpserver

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// HostAllowed reports whether the client means this server by the header Host: it names loopback, the address that it
// has reached, or one of hosts. A page that is served under a name which later leads here (DNS rebinding) does not.
func HostAllowed(r *http.Request, hosts []string) bool {
	name := HostName(r.Host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(name, "[]"))
	if err != nil {
		return slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, name) })
	}
	if addr.Unmap().IsLoopback() || slices.Contains(hosts, name) {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	reached, err := netip.ParseAddrPort(local.String())
	return err == nil && reached.Addr().Unmap().WithZone("") == addr.Unmap().WithZone("")
}

// HostName is the header Host without its port, in lower case.
func HostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// SameOrigin reports whether a page of origin came from the server that is called host. The scheme is not compared:
// behind a proxy that ends TLS we do not know it.
func SameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, host)
}
