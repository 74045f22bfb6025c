package httpserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"reprise/internal/httpserver"
)

// listen serves "/" to strangers and "/known" to those who are known then, and returns the address.
func listen(t *testing.T, opts *httpserver.Options) (address string) {
	t.Helper()
	server := httpserver.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w, r, done := httpserver.GuardBody(w, r, pause)
		defer done()
		if r.URL.Path == "/known" {
			httpserver.Authenticated(r)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, "hello")
	}), opts)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return l.Addr().String()
}

// client is one connection.
type client struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, address, send string) *client {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(2 * time.Minute))
	io.WriteString(conn, send)
	return &client{conn, bufio.NewReader(conn)}
}

const get, getKnown = "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET /known HTTP/1.1\r\nHost: x\r\n\r\n"

// answered reads one answer.
func (c *client) answered(t *testing.T) {
	t.Helper()
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, res.Body)
}

// closed waits until the server has closed the connection.
func (c *client) closed(t *testing.T) {
	t.Helper()
	// What the server had not read yet makes it a reset.
	if n, err := io.Copy(io.Discard, c.in); n > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("%d bytes, %v, want a closed connection", n, err)
	}
}

func TestBoundClosesOldestUnauthenticatedConnection(t *testing.T) {
	address := listen(t, &httpserver.Options{MaxConnections: 4, MaxPerAddress: 4})
	known := dial(t, address, getKnown)
	known.answered(t)
	var strangers []*client
	for i := range 3 {
		strangers = append(strangers, dial(t, address, get))
		strangers[i].answered(t)
	}
	for i := range 3 { // each new one closes the oldest stranger, and no other
		strangers = append(strangers, dial(t, address, get))
		strangers[len(strangers)-1].answered(t)
		strangers[i].closed(t)
	}
	io.WriteString(known, getKnown)
	known.answered(t)
	strangers[3].Close() // makes room: nobody has to go
	io.WriteString(strangers[4], get)
	strangers[4].answered(t)
}

func TestAddressBoundClosesOldestUnauthenticatedConnection(t *testing.T) {
	address := listen(t, &httpserver.Options{MaxConnections: 100, MaxPerAddress: 2})
	var known []*client
	for i := range 5 {
		known = append(known, dial(t, address, getKnown))
		known[i].answered(t)
	}
	first, second := dial(t, address, get), dial(t, address, get)
	first.answered(t)
	second.answered(t)
	third := dial(t, address, get)
	third.answered(t)
	first.closed(t)
	for _, c := range append(known, second, third) {
		io.WriteString(c, get)
		c.answered(t)
	}
}

// Those who are known cannot take all connections: there is always one that gives way to a newcomer.
func TestNewcomerIsAnsweredBesideKnownConnections(t *testing.T) {
	address := listen(t, &httpserver.Options{MaxConnections: 4, MaxPerAddress: 4})
	var known []*client
	for i := range 4 {
		known = append(known, dial(t, address, getKnown))
		known[i].answered(t)
	}
	dial(t, address, get).answered(t)
	known[3].closed(t)
	for _, c := range known[:3] {
		io.WriteString(c, get)
		c.answered(t)
	}
}

// Credentials are not enough: their request has to be whole.
func TestUnfinishedRequestCountsAsUnauthenticated(t *testing.T) {
	address := listen(t, &httpserver.Options{MaxConnections: 4, MaxPerAddress: 1})
	for _, begun := range []string{
		"POST /known HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf",
		"GET /known HTTP/1.1\r\nHost:",
	} {
		unfinished := dial(t, address, begun)
		dial(t, address, get).answered(t)
		unfinished.closed(t)
	}
	whole := dial(t, address, "POST /known HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
	io.WriteString(whole, " whole")
	whole.answered(t)
	dial(t, address, get).answered(t)
	dial(t, address, get).answered(t)
	io.WriteString(whole, get)
	whole.answered(t)
}

func TestConnectionAge(t *testing.T) {
	const age = 50 * time.Millisecond
	remaining := make(chan time.Duration, 1)
	server := httpserver.New(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		left, ok := httpserver.Remaining(r.Context())
		if !ok {
			t.Error("no bound on the age")
		}
		remaining <- left
	}), &httpserver.Options{MaxAge: age})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	defer server.Close()
	c := dial(t, l.Addr().String(), get)
	for requests := 1; ; requests++ {
		res, err := http.ReadResponse(c.in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if left := <-remaining; left < age/10 || left > age {
			t.Errorf("%v remain", left)
		}
		if res.Close {
			break
		}
		io.WriteString(c, get)
	}
	c.closed(t)
	if _, ok := httpserver.Remaining(context.Background()); ok {
		t.Error("there is a bound without a server")
	}
}
