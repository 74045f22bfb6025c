//go:build unix

package httpserver_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"testing/synctest"

	"reprise/internal/httpserver"
)

// failing is a listener that fails with its errors, one after the other, and is then closed.
type failing struct {
	errs []error
	net.Listener
}

func (f *failing) Accept() (net.Conn, error) {
	if len(f.errs) == 0 {
		return nil, net.ErrClosed
	}
	err := f.errs[0]
	f.errs = f.errs[1:]
	if err == nil {
		near, far := net.Pipe()
		_ = far.Close()
		return near, nil
	}
	return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("epoll_ctl", err)}
}

func (f *failing) Close() error { return nil }

// TestServerOutlastsLackOfResources: a command that takes all watches of the user does not end the server. The command
// could bind the address then.
func TestServerOutlastsLackOfResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &failing{errs: []error{
			syscall.ENOSPC, syscall.ENOSPC, syscall.EMFILE, syscall.ENOMEM, nil, syscall.ENOSPC, nil,
		}}
		p := httpserver.Patient(l, nil)
		for range 2 {
			conn, err := p.Accept()
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.Close()
		}
		if conn, err := p.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v, %v", conn, err)
		}
		l.errs = []error{syscall.EBADF, syscall.ENOSPC, syscall.ENOSPC, syscall.ENOSPC}
		if conn, err := p.Accept(); !errors.Is(err, syscall.EBADF) {
			t.Errorf("%v, %v", conn, err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if conn, err := p.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: %v, %v", conn, err)
		}
	})
}

// TestServeGoesOnAfterFailedAccept: http.Server.Serve ends at an error such as ENOSPC if the listener is not patient.
func TestServeGoesOnAfterFailedAccept(t *testing.T) {
	real, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	flaky := &once{Listener: real, err: &net.OpError{Op: "accept", Err: syscall.ENOSPC}}
	server := &http.Server{Handler: http.NotFoundHandler()}
	served := make(chan error, 1)
	go func() { served <- server.Serve(httpserver.Patient(flaky, nil)) }()
	response, err := http.Get("http://" + real.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// once is a listener that fails once.
type once struct {
	net.Listener
	err error
}

func (o *once) Accept() (net.Conn, error) {
	if err := o.err; err != nil {
		o.err = nil
		return nil, err
	}
	return o.Listener.Accept()
}
