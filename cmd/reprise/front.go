package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
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

// connectionFlags bound the connections of clients.
type connectionFlags struct {
	MaxClientConnections     int           `placeholder:"N" help:"Maximum number of client connections. At the limit the oldest unauthenticated connection is closed. Default: derived from the limit on open files."`
	MaxConnectionsPerAddress int           `placeholder:"N" help:"Maximum number of unauthenticated connections of one remote address; the oldest is closed. Behind a proxy all clients have its address, unless --trusted-proxies names it. Default: half of all."`
	MaxConnectionAge         time.Duration `placeholder:"DURATION" help:"Maximum age of a connection, for proxies that cut old ones: readers are told to reconnect, and resume. Default: no limit."`
}

func (c *connectionFlags) options(logger *slog.Logger) *httpserver.Options {
	return &httpserver.Options{
		MaxConnections: c.MaxClientConnections, MaxPerAddress: c.MaxConnectionsPerAddress,
		MaxAge: c.MaxConnectionAge, Logger: logger,
	}
}

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
	silent    bool       // begin prints nothing
	failed    chan error // of Serve
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
	if !f.silent {
		fmt.Fprintln(stdout, "listening on", f.url())
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

// awaitStore calls open until the store is open. It waits for an external store that does not answer, and requests are
// refused meanwhile. Any other error is returned, and so is the cause of ctx. discard is called after each failed
// attempt.
func (s *server) awaitStore(ctx context.Context, url string, open func() error, discard func() error) error {
	var told time.Time
	var last string
	wait := backoff.Backoff{First: minStoreWait, Most: maxStoreWait}
	for {
		err := open()
		switch {
		case err == nil:
			if last != "" {
				s.logger.Info("the store is there", "store", storeurl.Redact(url))
			}
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !isRemote(url) || !errors.Is(err, reprise.ErrUnavailable):
			return err
		}
		if derr := discard(); derr != nil {
			s.logger.Warn("a store that does not answer was closed", "error", derr)
		}
		s.front.begin()
		if text := err.Error(); text != last || time.Since(told) >= tellStoreWait {
			s.logger.Warn("waiting for the store", "store", storeurl.Redact(url), "error", text)
			last, told = text, time.Now()
		}
		select {
		case <-time.After(wait.Next()):
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-s.front.failed: // the listener is broken
			return err
		}
	}
}

// isRemote reports whether the store that a URL names is a server.
func isRemote(url string) bool {
	_, base := storeurl.Split(url)
	return strings.Contains(base, "://")
}

// closeEngine closes the parts behind the front, from the outside in.
func (s *server) closeEngine() error {
	s.telemetry.meter.Close() // while the metrics still exist
	errs := []error{s.mcp.close(), s.closeDuties(), s.closeFiles()}
	s.mcp = nil
	left := 0
	if s.host != nil {
		var err error
		left, err = s.host.Leave()
		errs = append(errs, err)
		s.host = nil
	}
	s.roster.Close()
	s.roster = nil
	s.audit.Close()
	s.audit = nil
	s.logins.Close()
	s.logins = nil
	if s.keys != nil {
		s.keys.Close()
		s.keys = nil
	}
	if s.member != nil {
		if left > 0 {
			s.member.Vanish() // the others must not end commands as lost if this server is soon back
		}
		errs = append(errs, s.member.Close())
		s.member = nil
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
		s.log = nil
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
		s.store = nil
	}
	s.telemetry.tracer.Close()
	s.telemetry = telemetry{}
	return errors.Join(errs...)
}

// stoppedEarly reports whether err means that the server was stopped before it was open.
func stoppedEarly(err error) bool {
	_, ok := errors.AsType[*askedToStop](err)
	return ok
}
