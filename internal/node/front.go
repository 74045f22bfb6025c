package node

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"reprise"
	"reprise/internal/backoff"
	"reprise/internal/console"
	"reprise/internal/httpserver"
	"reprise/internal/park"
	"reprise/internal/problem"
	"reprise/internal/storeurl"
)

// front is the HTTP server and its listener. Until it has a handler, it answers /healthz and the web console, if there
// is one, and refuses the rest with store_unavailable.
type front struct {
	console  http.Handler // nil for none; set before begin
	socket   *socket
	listener net.Listener // socket, or the encrypted connections of it
	scheme   string       // of the URL
	http     *http.Server
	parking  *park.Lot // nil for none; set before begin

	newcomers newcomers
	handler   atomic.Pointer[http.Handler]
	begun     bool
	listening func(url string) // called by begin; nil for nothing
	failed    chan error       // of Serve
}

// listenFront returns the front of the socket that was passed to us, or if that is nil, of one that it opens at an
// address. Its connections are encrypted unless encrypt is nil.
func listenFront(ctx context.Context, passed net.Listener, address string,
	encrypt *tls.Config, opts *httpserver.Options,
) (*front, error) {
	socket, err := listen(ctx, passed, address)
	if err != nil {
		return nil, err
	}
	f := &front{
		socket: socket, listener: httpserver.Patient(socket, opts.Logger), scheme: "http", failed: make(chan error, 1),
	}
	if encrypt != nil {
		f.listener, f.scheme = tls.NewListener(f.listener, encrypt), "https"
	}
	f.http = httpserver.New(f, opts)
	f.newcomers.watch(f.http)
	return f, nil
}

// begin begins to answer. It does nothing if that has begun.
func (f *front) begin() {
	if f.begun {
		return
	}
	f.begun = true
	go func() { f.failed <- f.http.Serve(f.listener) }()
	if f.parking != nil {
		go func() { _ = f.parking.Serve(f.http) }() // it ends with the other
	}
	if f.listening != nil {
		f.listening(f.url())
	}
}

// serve makes h handle requests from now on.
func (f *front) serve(h http.Handler) { f.handler.Store(&h) }

// url returns the URL of the server. If it listens on all addresses, it is one that works on this machine.
func (f *front) url() string {
	address := f.listener.Addr().String()
	if at, err := netip.ParseAddrPort(address); err == nil && at.Addr().IsUnspecified() {
		address = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port()).String()
	}
	return f.scheme + "://" + address
}

// shutdown finishes current requests and accepts no new connections: they are left to another process with the socket,
// such as the next server. If that takes longer than ctx, the connections are closed.
func (f *front) shutdown(ctx context.Context) error {
	if f.begun {
		if err := f.socket.stop(); err != nil {
			return errors.Join(err, f.http.Close())
		}
		f.newcomers.wait(ctx)
	}
	if f.http.Shutdown(ctx) != nil || f.parking.Wait(ctx) != nil {
		return errors.Join(f.http.Close(), f.parking.Close())
	}
	return nil
}

// close closes the listener and all connections.
func (f *front) close() error {
	err := errors.Join(f.http.Close(), f.parking.Close())
	if lerr := f.listener.Close(); err == nil && !errors.Is(lerr, net.ErrClosed) {
		err = lerr
	}
	return err
}

// bodyTimeout bounds the pauses in a body that is not read.
const bodyTimeout = 30 * time.Second

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := f.handler.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	if f.console != nil && isForConsole(r) {
		f.console.ServeHTTP(w, r) // its page reports the missing store, and continues once it is back
		return
	}
	refuseWaiting(w, r)
}

// isForConsole reports whether a browser asks for the web console.
func isForConsole(r *http.Request) bool {
	if r.Method != http.MethodGet || r.ContentLength != 0 {
		return false
	}
	return strings.HasPrefix(r.URL.Path, console.Prefix) ||
		r.URL.Path == "/" && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// refuseWaiting refuses a request before the store is open.
func refuseWaiting(w http.ResponseWriter, r *http.Request) {
	w, r, done := httpserver.GuardBody(w, r, bodyTimeout)
	defer done()
	if r.URL.Path == "/healthz" {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{\"status\":\"ok\"}\n")
		return
	}
	_ = problem.Write(w, problem.From(reprise.ErrUnavailable))
}

// The bounds of the waits between two attempts to open a store, and the time between two identical log lines.
const (
	minStoreWait  = 250 * time.Millisecond
	maxStoreWait  = 2 * time.Second
	tellStoreWait = time.Minute
)

// awaitStore opens the parts. While the store cannot be reached it waits, and the server already answers that it does.
func (n *Node) awaitStore(ctx context.Context, parts []Part) error {
	var told time.Time
	var last string
	wait := backoff.Backoff{First: minStoreWait, Most: maxStoreWait}
	for opened := len(n.closers); ; {
		err := n.openParts(ctx, parts)
		switch {
		case err == nil:
			if last != "" {
				n.Logger.Info("the store is there", "store", storeurl.Redact(n.Store))
			}
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !storeurl.IsRemote(n.Store) || !errors.Is(err, reprise.ErrUnavailable):
			return err
		}
		if derr := n.closeTo(opened); derr != nil {
			n.Logger.Warn("a store that does not answer was closed", "error", derr)
		}
		n.front.begin()
		if text := err.Error(); text != last || time.Since(told) >= tellStoreWait {
			n.Logger.Warn("waiting for the store", "store", storeurl.Redact(n.Store), "error", text)
			last, told = text, time.Now()
		}
		select {
		case <-time.After(wait.Next()):
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-n.front.failed: // the listener is broken
			return err
		}
	}
}
