package node

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"reprise"
	"reprise/internal/datadir"
	"reprise/internal/durable"
	"reprise/internal/httpserver"
	"reprise/internal/mcpserver"
	"reprise/internal/problem"
	"reprise/mcp/mcphttp"
)

// windows is the endpoint of the process that holds a data directory for other "reprise mcp" processes: a Unix socket
// in the directory, for callers that know the secret in it.
type windows struct {
	dir      *os.File
	listener net.Listener
	http     *http.Server
	handler  *mcphttp.Handler
}

// Windows opens a server without a listener but for others of the same user, and the tools on top of it. It takes dir.
func Windows(ctx context.Context, dir *datadir.Dir, o *Options) (n *Node, err error) {
	n = &Node{Options: *o, dir: dir}
	n.onClose(dir.Close)
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
			n = nil
		}
	}()
	if err := n.openCredentials(); err != nil {
		return n, err
	}
	return n, n.openParts(ctx, []Part{
		openStore, openQuotas, openLog, openMember, openHost, openOwnTools, openWindows,
	})
}

// openOwnTools opens the tools for whoever owns the data directory: they may do everything, without quotas.
func openOwnTools(_ context.Context, n *Node) (err error) {
	n.tools = &mcpEndpoint{}
	n.onClose(n.tools.close)
	n.tools.tools, err = mcpserver.New(n.log, n.host, &mcpserver.Options{
		Replica: n.member, MaxBytes: n.MaxBytes, Directory: n.Directory, Version: n.Version, Logger: n.Logger,
	})
	return err
}

// Tools returns the tools of a server that runs commands.
func (n *Node) Tools() *mcpserver.Server { return n.tools.tools }

// StopTools ends what the clients of tools have under way, commands when drained is done, and closes the server.
func (n *Node) StopTools(drained context.Context) error {
	return errors.Join(n.tools.close(), n.host.Stop(drained), n.Close())
}

// windowsName is the name of the endpoint.
const windowsName = "windows"

// listenWindows opens the endpoint over the tools of n, which holds the data directory.
func listenWindows(n *Node, keepAlive time.Duration) (w *windows, err error) {
	secret, err := durable.Secret(filepath.Join(n.dir.Path, datadir.SecretFile))
	if err != nil {
		return nil, err
	}
	w = &windows{}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
			w = nil
		}
	}()
	if w.dir, err = os.Open(n.dir.Path); err != nil {
		return w, err
	}
	if w.listener, err = listenIn(w.dir, datadir.SocketFile); err != nil {
		return w, err
	}
	w.handler, err = mcphttp.New(n.log, n.tools.tools.Backend(), &mcphttp.Options{
		Name: windowsName, Replica: n.member, KeepAlive: keepAlive, Logger: n.Logger,
		Identify: demand(secret), AllowedHosts: []string{"*"}, // no page gets at a Unix socket
	})
	if err != nil {
		return w, err
	}
	w.http = &http.Server{Handler: w.handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = w.http.Serve(httpserver.Patient(w.listener, nil)) }() // which ends when it is closed
	return w, nil
}

// demand accepts callers that know the secret, as the user of this process.
func demand(secret string) func(*http.Request) (reprise.Tenant, string, error) {
	want := []byte("Bearer " + secret)
	return func(r *http.Request) (reprise.Tenant, string, error) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			return "", "", problem.New(problem.CodeUnauthenticated, "the secret is in the data directory")
		}
		return reprise.DefaultTenant, "", nil
	}
}

// close ends the requests of other processes and removes the socket. The directory stays locked. Closing again does
// nothing.
func (w *windows) close() error {
	if w == nil {
		return nil
	}
	var errs []error
	if w.handler != nil {
		errs = append(errs, w.handler.Close())
	}
	if w.http != nil {
		errs = append(errs, w.http.Close())
	}
	if w.listener != nil {
		if err := w.listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if w.dir != nil {
		if err := w.dir.Close(); !errors.Is(err, fs.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// within returns a path of a file in an open directory. The path of a socket has at most 108 bytes, which the path of
// the directory may exceed; the kernel's path of the open descriptor does not.
func within(dir *os.File, name string) string {
	if runtime.GOOS == "linux" {
		return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
	}
	return filepath.Join(dir.Name(), name)
}

// listenIn listens on a socket in a directory that only our user can open. One of a killed process gives way.
func listenIn(dir *os.File, name string) (net.Listener, error) {
	path := within(dir, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// WindowsURL is the URL of the endpoint, for a client that dials the socket whatever the host.
const WindowsURL = "http://reprise/mcp"

// WindowsClient sends requests to the process that holds a data directory, each on its own connection, so that a killed
// process is noticed before anything is sent.
func WindowsClient(dir string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		opened, err := os.Open(dir)
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: "unix", Err: err}
		}
		defer opened.Close()
		return new(net.Dialer).DialContext(ctx, "unix", within(opened, datadir.SocketFile))
	}
	return &http.Client{Transport: &secretive{
		path: filepath.Join(dir, datadir.SecretFile),
		next: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: time.Minute, DialContext: dial},
	}}
}

// secretive is a RoundTripper that sends the secret in a file.
type secretive struct {
	path string
	next *http.Transport
}

// RoundTrip implements http.RoundTripper. Where there is no secret yet nothing was sent, as if no program listened. A
// body is sent when the server asks for it: a connection that was made to a process about to die breaks before that.
func (s *secretive) RoundTrip(r *http.Request) (*http.Response, error) {
	secret, err := durable.ReadSecret(s.path)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: err}
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+secret)
	if r.Body == nil || r.ContentLength == 0 {
		return s.next.RoundTrip(r)
	}
	r.Header.Set("Expect", "100-continue")
	body := &noted{ReadCloser: r.Body}
	r.Body, r.GetBody = body, nil
	response, err := s.next.RoundTrip(r)
	if err != nil && r.Context().Err() == nil && !body.read.Load() {
		err = &net.OpError{Op: "dial", Net: "unix", Err: err}
	}
	return response, err
}

// noted is a body that records whether it was read.
type noted struct {
	io.ReadCloser
	read atomic.Bool
}

// Read implements io.Reader.
func (n *noted) Read(p []byte) (int, error) {
	n.read.Store(true)
	return n.ReadCloser.Read(p)
}

// CloseIdleConnections is called by http.Client.CloseIdleConnections.
func (s *secretive) CloseIdleConnections() { s.next.CloseIdleConnections() }
