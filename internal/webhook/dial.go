package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

// ErrAddress means that the address of a receiver is neither public nor allowed.
var ErrAddress = errors.New("the address of the receiver is not public, and --webhook-allow does not name it")

// errPlain means that a URL without encryption leads to an address that is not allowed.
var errPlain = errors.New("the URL of the receiver begins with http://, which is only for addresses of --webhook-allow")

// Time limits of a request.
const (
	dialTimeout = 5 * time.Second
	sendTimeout = 15 * time.Second
	idleTimeout = 60 * time.Second
)

// reserved are networks that are not for hosts of the public internet and that package netip does not classify (IANA
// special-purpose address registries), or in which an address embeds another one.
var reserved = prefixes(
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16",
	"fec0::/10", "::/96", "::ffff:0:0:0/96",
)

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

// isPublic reports whether addr is an address of the public internet.
func isPublic(addr netip.Addr) bool {
	return addr.IsGlobalUnicast() && !addr.IsPrivate() && !contains(reserved, addr)
}

func contains(list []netip.Prefix, addr netip.Addr) bool {
	for _, p := range list {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// guard permits connections to public addresses and to allowed ones. It checks the resolved address when the socket is
// about to connect, so a name that later resolves to another address cannot get around it.
func guard(allowed []netip.Prefix, onlyAllowed bool) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %s", ErrAddress, address)
		}
		addr := at.Addr().Unmap().WithZone("")
		switch {
		case contains(allowed, addr):
			return nil
		case !isPublic(addr):
			return ErrAddress
		case onlyAllowed:
			return errPlain
		}
		return nil
	}
}

// checkLiteral refuses a URL whose host is an address that no message could be sent to. The addresses of a name are
// checked when they are used.
func (h *Hooks) checkLiteral(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return err
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil //nolint:nilerr // it is a name
	}
	permit := guard(h.opts.Allow, u.Scheme == "http")
	if err := permit("tcp", netip.AddrPortFrom(addr, 0).String(), nil); err != nil {
		return invalid("url", "%v", err)
	}
	return nil
}

// newClient returns a client for receivers. It follows no redirects, uses no proxy, and keeps no cookies.
func newClient(allowed []netip.Prefix) *http.Client {
	return &http.Client{
		Transport:     &transport{plain: newTransport(allowed, true), encrypted: newTransport(allowed, false)},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       sendTimeout,
	}
}

func newTransport(allowed []netip.Prefix, onlyAllowed bool) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, Control: guard(allowed, onlyAllowed)}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		},
		TLSHandshakeTimeout: dialTimeout, MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost: 2, IdleConnTimeout: idleTimeout, ForceAttemptHTTP2: true,
	}
}

// transport sends requests without encryption to allowed addresses only.
type transport struct{ plain, encrypted *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "http" {
		return t.plain.RoundTrip(r)
	}
	return t.encrypted.RoundTrip(r)
}

// CloseIdleConnections closes the idle connections of both transports.
func (t *transport) CloseIdleConnections() {
	t.plain.CloseIdleConnections()
	t.encrypted.CloseIdleConnections()
}
