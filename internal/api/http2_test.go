package api_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/internal/api"
)

// overTLS serves w over TLS too. The client of the transport speaks HTTP/2; conns counts its connections.
func overTLS(w *fixture) (url string, transport *http.Transport, conns *atomic.Int32) {
	w.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.Config = api.NewHTTPServer(w.server)
	server.EnableHTTP2 = true
	conns = new(atomic.Int32)
	server.Config.ConnState = count(conns, server.Config.ConnState)
	server.StartTLS()
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	transport = &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		DisableCompression: true,
	}
	w.Cleanup(func() {
		w.server.Drain()
		transport.CloseIdleConnections()
		server.Close()
	})
	return server.URL, transport, conns
}

// count counts new connections.
func count(n *atomic.Int32, next func(net.Conn, http.ConnState)) func(net.Conn, http.ConnState) {
	return func(c net.Conn, state http.ConnState) {
		if state == http.StateNew {
			n.Add(1)
		}
		next(c, state)
	}
}

// over sends a request over a transport.
func (w *fixture) over(transport http.RoundTripper, method, url, token, accept, body string) *http.Response {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), method, url, strings.NewReader(body))
	w.ok(err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", accept)
	req.Header.Set("Content-Type", "application/json")
	res, err := transport.RoundTrip(req)
	w.ok(err)
	if res.ProtoMajor != 2 {
		w.Fatalf("%s %s over %s", method, url, res.Proto)
	}
	return res
}

const sseForm = "text/event-stream"

// TestFollowersShareAConnection: many readers of one connection get live events, and more than it carries open another.
func TestFollowersShareAConnection(t *testing.T) {
	w := start(t, setup{})
	url, transport, conns := overTLS(w)
	s := w.stream("s", "first")
	const readers = 120
	w.over(transport, "GET", url+"/v1/streams", token, "application/json", "").Body.Close() // one connection to share
	var following, done sync.WaitGroup
	for range readers {
		following.Add(1)
		done.Go(func() {
			res := w.over(transport, "GET", url+"/v1/streams/s/events", token, sseForm, "")
			defer res.Body.Close()
			in := bufio.NewScanner(res.Body)
			until := func(text string) {
				for in.Scan() {
					if strings.Contains(in.Text(), text) {
						return
					}
				}
				t.Errorf("%q did not come: %v", text, in.Err())
			}
			until(`"first"`)
			following.Done()
			until(`"live"`)
		})
	}
	following.Wait()
	_, err := s.Append(t.Context(), reprise.Event{Type: "note", Data: []byte("live")})
	w.ok(err)
	done.Wait()
	if n := conns.Load(); n < 2 || n > readers/2 {
		t.Errorf("%d connections for %d readers", n, readers)
	}
}

// TestStalledStreamIsGivenUp: a reader over HTTP/2 that takes nothing is closed, and the others of its connection go
// on.
func TestStalledStreamIsGivenUp(t *testing.T) {
	const bound = 3 * time.Second // of a write
	w := start(t, setup{api: api.Options{WriteTimeout: bound}})
	url, transport, conns := overTLS(w)
	s := w.stream("s", "first")
	stalled := w.over(transport, "GET", url+"/v1/streams/s/events", token, sseForm, "")
	defer stalled.Body.Close()
	quiet := w.stream("quiet", "first")
	other := w.over(transport, "GET", url+"/v1/streams/quiet/events", token, sseForm, "")
	defer other.Body.Close()
	for range 16 { // more than the windows of HTTP/2 hold
		_, err := s.Append(t.Context(), reprise.Event{Type: "blob", Data: make([]byte, 1<<20)})
		w.ok(err)
	}
	w.eventually("the stalled reader is closed", func() bool { return w.metric("reprise_readers") == "1" })
	_, err := quiet.Append(t.Context(), reprise.Event{Type: "note", Data: []byte("live")})
	w.ok(err)
	for in := bufio.NewScanner(other.Body); !strings.Contains(in.Text(), `"live"`); {
		if !in.Scan() {
			t.Fatalf("the other reader of the connection was closed: %v", in.Err())
		}
	}
	<-time.After(bound + time.Second) // who waits for events does not stall
	last := reprise.Event{Data: []byte(`{"outcome":"completed"}`), Format: reprise.FormatMembers}
	_, err = quiet.End(t.Context(), "completed", last)
	w.ok(err)
	if rest, err := io.ReadAll(other.Body); err != nil || !strings.Contains(string(rest), "event: end") {
		t.Errorf("%q, %v", rest, err)
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestRevocationOverHTTP2: a key that is revoked ends its stream, and not the connection.
func TestRevocationOverHTTP2(t *testing.T) {
	w := start(t, setup{})
	url, transport, conns := overTLS(w)
	w.stream("s", "first")
	added := w.do("POST", "/v1/keys", `{"name":"ci","scopes":["read"]}`).is(201)
	res := w.over(transport, "GET", url+"/v1/streams/s/events", added.text("key"), sseForm, "")
	defer res.Body.Close()
	w.do("DELETE", "/v1/keys/"+added.text("id"), "").is(204)
	if _, err := io.ReadAll(res.Body); err != nil {
		t.Errorf("the stream has ended with %v", err)
	}
	again := w.over(transport, "GET", url+"/v1/streams/s/events", added.text("key"), sseForm, "")
	again.Body.Close()
	if n := conns.Load(); again.StatusCode != http.StatusUnauthorized || n != 1 {
		t.Errorf("status %d, %d connections", again.StatusCode, n)
	}
}

// TestRefusalsLeaveTheConnection: what is refused with its body unread, or cut short, ends its stream alone.
func TestRefusalsLeaveTheConnection(t *testing.T) {
	w := start(t, setup{})
	url, transport, conns := overTLS(w)
	for i := range 20 {
		res := w.over(transport, "POST", url+"/v1/executions", "wrong-token-of-nobody", "application/json",
			fmt.Sprintf(`{"argv":["true","%d %s"]}`, i, strings.Repeat("x", 100_000)))
		_, err := io.Copy(io.Discard, res.Body)
		w.ok(errors.Join(err, res.Body.Close()))
		if res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("status %d", res.StatusCode)
		}
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}
