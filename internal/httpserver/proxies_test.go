package httpserver_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/httpserver"
)

// parsed are trusted proxies by their text.
func parsed(t *testing.T, entries ...string) []netip.Prefix {
	t.Helper()
	proxies, err := httpserver.ParseProxies(entries)
	if err != nil {
		t.Fatal(err)
	}
	return proxies
}

func TestProxiesThatAreRefused(t *testing.T) {
	for _, entry := range []string{
		"", "proxy.example", "10.0.0.0/33", "10.0.0.1:80", "fe80::1%eth0", "::ffff:10.0.0.0/104", "10/8",
	} {
		if got, err := httpserver.ParseProxies([]string{"10.0.0.1", entry}); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%q: %v, %v", entry, got, err)
		}
	}
}

// serveWho answers with the address of the client and whether that uses TLS.
func serveWho(t *testing.T, network, address string, trusted []netip.Prefix) net.Addr {
	t.Helper()
	server := httpserver.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, r.RemoteAddr, httpserver.IsSecure(r))
	}), &httpserver.Options{TrustedProxies: trusted})
	l, err := new(net.ListenConfig).Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return l.Addr()
}

// who asks serveWho on a connection of its own, with header lines.
func who(t *testing.T, at net.Addr, lines ...string) (answer string, local net.Addr) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), at.Network(), at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n",
		strings.Join(append(lines, "Connection: close"), "\r\n"))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text)), conn.LocalAddr()
}

// TestClientBehindProxies: the client is the last hop that is no trusted proxy, whatever it has written itself.
func TestClientBehindProxies(t *testing.T) {
	at := serveWho(t, "tcp", "127.0.0.1:0", parsed(t, "127.0.0.1", "10.0.0.0/8", "2001:db8:1::/48"))
	const peer = "" // the proxy itself
	for _, tt := range []struct{ header, want string }{
		{"X-A: b", peer},
		{"X-Forwarded-For: 203.0.113.7", "203.0.113.7:0 false"},
		{"X-Forwarded-For: 203.0.113.7:4711", "203.0.113.7:4711 false"},
		{"X-Forwarded-For: 2001:db8::7", "[2001:db8::7]:0 false"},
		{"X-Forwarded-For: [2001:db8::7]:80", "[2001:db8::7]:80 false"},
		{"X-Forwarded-For: ::ffff:203.0.113.7", "203.0.113.7:0 false"},
		// Through two proxies of ours; what the client says itself is on the left.
		{"X-Forwarded-For: 198.51.100.1, 203.0.113.7, 10.1.2.3", "203.0.113.7:0 false"},
		{"X-Forwarded-For: 127.0.0.1, 203.0.113.7, 2001:db8:1::9", "203.0.113.7:0 false"},
		{"X-Forwarded-For: 198.51.100.1\r\nX-Forwarded-For: 203.0.113.7", "203.0.113.7:0 false"},
		{"X-Forwarded-For: 10.9.9.9, 10.1.2.3", "10.9.9.9:0 false"},
		{"X-Forwarded-For: 203.0.113.7, unknown, 10.1.2.3", "10.1.2.3:0 false"},
		{"X-Forwarded-For: 203.0.113.7, <script>", peer},
		{"X-Forwarded-For: 203.0.113.7,", peer},
		{"X-Forwarded-For:", peer},
		{"X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: https", "203.0.113.7:0 true"},
		{"X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: https, http", "203.0.113.7:0 false"},
		{"X-Forwarded-For: 203.0.113.7, 10.1.2.3\r\nX-Forwarded-Proto: HTTPS, http", "203.0.113.7:0 true"},
		{"X-Forwarded-For: 1.1.1.1, 203.0.113.7, 10.1.2.3\r\nX-Forwarded-Proto: https, http", "203.0.113.7:0 false"},

		{"Forwarded: for=203.0.113.7;proto=https;by=10.0.0.1", "203.0.113.7:0 true"},
		{"Forwarded: FOR=\"203.0.113.7:80\" ; Proto=http", "203.0.113.7:80 false"},
		{"Forwarded: for=\"[2001:db8::7]:4711\"", "[2001:db8::7]:4711 false"},
		{"Forwarded: for=198.51.100.1;proto=https, for=203.0.113.7;proto=http, for=10.1.2.3", "203.0.113.7:0 false"},
		{"Forwarded: for=198.51.100.1\r\nForwarded: for=203.0.113.7;proto=https", "203.0.113.7:0 true"},
		{"Forwarded: for=\"_x, for=198.51.100.1\", for=203.0.113.7", "203.0.113.7:0 false"},
		{"Forwarded: for=\"203.0.113\\.7\"", "203.0.113.7:0 false"},
		{"Forwarded: for=_hidden", peer},
		{"Forwarded: for=unknown;proto=https", peer},
		{"Forwarded: for=198.51.100.1;x=\", for=203.0.113.7", peer}, // an open quote swallows what the proxy has added
		{"Forwarded: for=198.51.100.1;for=203.0.113.7", peer},
		{"Forwarded: for=\"203.0.113.7\"x", peer},
		{"Forwarded: ;;;=,=\"\\", peer},

		// A proxy sets one of them, and hands on the other as the client has sent it.
		{"Forwarded: for=198.51.100.1\r\nX-Forwarded-For: 203.0.113.7", peer},
		{
			"Forwarded: for=203.0.113.7\r\nX-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: https",
			"203.0.113.7:0 true",
		},
		{
			"Forwarded: for=203.0.113.7;proto=http\r\nX-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: https",
			"203.0.113.7:0 false",
		},
		{"X-Forwarded-For: " + strings.Repeat("10.0.0.1,", 10_000) + " 203.0.113.7", "203.0.113.7:0 false"},
	} {
		got, local := who(t, at, tt.header)
		if want := tt.want; got != want && !(want == peer && got == local.String()+" false") {
			t.Errorf("%.100s: %s, want %q", tt.header, got, want)
		}
	}
}

// TestUntrustedForwardingHeadersAreIgnored: a peer that is not trusted, or that connects over a Unix socket, is itself
// the client.
func TestUntrustedForwardingHeadersAreIgnored(t *testing.T) {
	lines := []string{
		"X-Forwarded-For: 203.0.113.7", "X-Forwarded-Proto: https", "Forwarded: for=203.0.113.7;proto=https",
	}
	for _, trusted := range [][]netip.Prefix{nil, parsed(t, "10.0.0.0/8", "203.0.113.7", "::1")} {
		got, local := who(t, serveWho(t, "tcp", "127.0.0.1:0", trusted), lines...)
		if got != local.String()+" false" {
			t.Errorf("%v: %s, want the peer", trusted, got)
		}
	}
	socket := filepath.Join(t.TempDir(), "s")
	if got, _ := who(t, serveWho(
		t, "unix", socket, parsed(t, "0.0.0.0/0", "::/0"),
	), lines...); strings.Contains(got, "203.0") ||
		!strings.HasSuffix(got, "false") {
		t.Errorf("over a Unix socket: %s", got)
	}
}

const halfOf = "POST / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: %s\r\nContent-Length: 10\r\n\r\nhalf"

// TestConnectionsOfAProxyCountForItsClients: a client has its own bound, and takes nothing from the others.
func TestConnectionsOfAProxyCountForItsClients(t *testing.T) {
	came := make(chan bool)
	server := httpserver.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came <- true
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, "hello")
	}), &httpserver.Options{MaxConnections: 100, MaxPerAddress: 1, TrustedProxies: parsed(t, "127.0.0.1")})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	defer server.Close()
	send := func(request string) *client {
		t.Helper()
		c := dial(t, l.Addr().String(), request)
		c.SetDeadline(time.Now().Add(30 * time.Second))
		<-came
		return c
	}
	var idle []*client
	for range 2 { // one after the other: both have the address of the proxy
		c := send(get)
		c.answered(t)
		idle = append(idle, c)
	}
	var others []*client
	for i := range 3 {
		others = append(others, send(fmt.Sprintf(halfOf, fmt.Sprintf("203.0.113.%d", i+1))))
	}
	last := send(fmt.Sprintf(halfOf, "198.51.100.1"))
	for range 3 {
		next := send(fmt.Sprintf(halfOf, "198.51.100.1"))
		last.closed(t)
		last = next
	}
	for _, c := range append(others, last) {
		io.WriteString(c, " whole")
		c.answered(t)
	}
	for _, c := range idle {
		io.WriteString(c, get)
		<-came
		c.answered(t)
	}
}

// TestConnectionOfAProxyIsKnownForOneRequest: the next request on it may be of somebody else.
func TestConnectionOfAProxyIsKnownForOneRequest(t *testing.T) {
	address := listen(t, &httpserver.Options{MaxConnections: 2, TrustedProxies: parsed(t, "127.0.0.1")})
	was := dial(t, address, getKnown)
	was.answered(t)
	second := dial(t, address, get)
	second.answered(t)
	third := dial(t, address, get) // one has to go: it is the one that has waited longest
	third.answered(t)
	was.closed(t)
	io.WriteString(second, get)
	second.answered(t)
}
