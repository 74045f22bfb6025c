package httpserver

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"reprise"
)

// ParseProxies reads the addresses of trusted proxies: "192.0.2.1", "2001:db8::1" or networks such as "10.0.0.0/8".
// The error wraps reprise.ErrInvalid.
func ParseProxies(entries []string) ([]netip.Prefix, error) {
	var proxies []netip.Prefix
	for _, entry := range entries {
		if addr, err := netip.ParseAddr(entry); err == nil && addr.Zone() == "" {
			addr = addr.Unmap()
			proxies = append(proxies, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(entry)
		if err != nil || prefix.Addr().Is4In6() {
			return nil, fmt.Errorf("%w: %q is neither an IP address nor a network such as 10.0.0.0/8",
				reprise.ErrInvalid, entry)
		}
		proxies = append(proxies, prefix.Masked())
	}
	return proxies, nil
}

// IsSecure reports whether the client of r uses TLS: on its connection to the server, or by the word of a trusted
// proxy on its connection to that.
func IsSecure(r *http.Request) bool {
	secure, _ := r.Context().Value(secureKey{}).(bool)
	return r.TLS != nil || secure
}

type secureKey struct{}

// proxies are the peers whose headers are believed.
type proxies []netip.Prefix

// trusts reports whether addr is one of them.
func (p proxies) trusts(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, prefix := range p {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// trustsPeer is trusts for the address of a connection. What has no IP address is not trusted.
func (p proxies) trustsPeer(remote string) bool {
	at, err := netip.ParseAddrPort(remote)
	return err == nil && p.trusts(at.Addr())
}

// forwarded gives each request that comes through a trusted proxy the address of its client in RemoteAddr.
func (p proxies) forwarded(next http.Handler) http.Handler {
	if len(p) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.trustsPeer(r.RemoteAddr) {
			next.ServeHTTP(w, r)
			return
		}
		client, secure := p.client(r.Header)
		if secure {
			r = r.WithContext(context.WithValue(r.Context(), secureKey{}, true))
		}
		if client.IsValid() {
			r.RemoteAddr = client.String()
		}
		if c, ok := r.Context().Value(connKey{}).(*conn); ok && r.ProtoMajor == 1 {
			c.enter(networkOf(r.RemoteAddr))
			t := &turn{conn: c}
			defer t.end()
			r = r.WithContext(context.WithValue(r.Context(), turnKey{}, t))
		}
		next.ServeHTTP(w, r)
	})
}

// client returns the address of the client in the headers of a proxy, and whether the client has used TLS. The address
// is invalid if the headers do not contain it. A proxy sets one of Forwarded and X-Forwarded-For, and may pass on the
// other one from the client: if both name different clients, neither counts.
func (p proxies) client(h http.Header) (addr netip.AddrPort, secure bool) {
	standard, common := hopsOfForwarded(h.Values("Forwarded")), hopsOfXForwardedFor(h)
	switch {
	case len(standard) == 0:
		return p.nearest(common)
	case len(common) == 0:
		return p.nearest(standard)
	}
	addr, secure = p.nearest(standard)
	other, alsoSecure := p.nearest(common)
	if addr.Addr() != other.Addr() {
		return netip.AddrPort{}, false
	}
	// X-Forwarded-Proto has no counterpart in a Forwarded without proto.
	return addr, secure || alsoSecure && standard[len(standard)-1].proto == ""
}

// hop is one hop of a request: its sender, and the protocol, or "" if it is unknown.
type hop struct {
	from  netip.AddrPort // not valid for a name that says nothing to us
	proto string
}

// nearest returns the last hop that is not a trusted proxy. Earlier hops were written by untrusted senders. A hop
// without an address ends the search: the client is then the one after it.
func (p proxies) nearest(hops []hop) (addr netip.AddrPort, secure bool) {
	for _, h := range slices.Backward(hops) {
		if !h.from.IsValid() {
			break
		}
		addr, secure = h.from, h.proto == "https"
		if !p.trusts(addr.Addr()) {
			break
		}
	}
	return addr, secure
}

// hopsOfXForwardedFor reads X-Forwarded-For and X-Forwarded-Proto. Proxies set the latter, or append to both.
func hopsOfXForwardedFor(h http.Header) []hop {
	list, protos := listOf(h.Values("X-Forwarded-For")), listOf(h.Values("X-Forwarded-Proto"))
	if len(list) == 0 {
		return nil
	}
	hops := make([]hop, len(list))
	for i, text := range list {
		hops[i].from = hopAddress(text)
		switch {
		case len(protos) == len(list):
			hops[i].proto = strings.ToLower(protos[i])
		case len(protos) > 0:
			hops[i].proto = strings.ToLower(protos[len(protos)-1])
		}
	}
	return hops
}

// listOf splits the values of a header at their commas.
func listOf(values []string) []string {
	var list []string
	for _, value := range values {
		for entry := range strings.SplitSeq(value, ",") {
			list = append(list, strings.TrimSpace(entry))
		}
	}
	return list
}

// hopsOfForwarded reads Forwarded (RFC 7239, section 4). An element that is malformed is a hop without an address.
func hopsOfForwarded(values []string) []hop {
	var hops []hop
	for _, value := range values {
		for _, element := range splitQuoted(value, ',') {
			hops = append(hops, hopOfElement(element))
		}
	}
	return hops
}

func hopOfElement(element string) (h hop) {
	seen := map[string]bool{}
	for _, pair := range splitQuoted(element, ';') {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		name = strings.ToLower(name)
		value, quotedWell := unquoted(value)
		if !ok || !quotedWell || seen[name] {
			return hop{}
		}
		seen[name] = true
		switch name {
		case "for":
			h.from = hopAddress(value)
		case "proto":
			h.proto = strings.ToLower(value)
		}
	}
	return h
}

// splitQuoted splits text at a separator outside of quoted strings (RFC 9110, section 5.6.4).
func splitQuoted(text string, separator byte) (parts []string) {
	begin, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == separator && !quoted:
			parts = append(parts, text[begin:i])
			begin = i + 1
		}
	}
	return append(parts, text[begin:])
}

// unquoted returns the value of a token or a quoted string. ok is false for any other text.
func unquoted(text string) (value string, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		return text, !strings.ContainsAny(text, "\"\\ \t")
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '"':
			return b.String(), i == len(text)-1
		case text[i] == '\\' && i+1 < len(text):
			i++
		}
		b.WriteByte(text[i])
	}
	return "", false
}

// hopAddress parses an address with or without a port and brackets. The result is invalid for any other text, such as
// "unknown" and "_hidden".
func hopAddress(text string) netip.AddrPort {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
	}
	if inner, ok := strings.CutPrefix(text, "["); ok {
		text = strings.TrimSuffix(inner, "]")
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(addr.Unmap().WithZone(""), 0)
}
