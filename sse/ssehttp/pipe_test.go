package ssehttp_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"

	"reprise"
	"reprise/sse/ssehttp"
)

// pipes is a site without a network, for tests inside a synctest bubble, where time is
// what the test makes of it. All of it ends with the test.
type pipes struct {
	log    *reprise.Log
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes(tb testing.TB, logOptions *reprise.Options, options *ssehttp.Options) *pipes {
	tb.Helper()
	return newPipesOf(tb, newLog(tb, logOptions), options)
}

func newPipesOf(tb testing.TB, log *reprise.Log, options *ssehttp.Options) *pipes {
	tb.Helper()
	p := &pipes{log: log, conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: handler(p.log, options)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(p)
	}()
	tb.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return p
}

// Accept, Close and Addr make p a net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// dial returns the client's end of a new connection.
func (p *pipes) dial(tb testing.TB) net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// ask sends a request over c.
func ask(tb testing.TB, c net.Conn, path string) {
	tb.Helper()
	_, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: pipe\r\n\r\n")
	check(tb, err)
}

// answer reads the head of the response to ask.
func answer(tb testing.TB, from *bufio.Reader) *http.Response {
	tb.Helper()
	res, err := http.ReadResponse(from, nil)
	check(tb, err)
	return res
}

// get asks over a connection of its own.
func (p *pipes) get(tb testing.TB, path string) io.Reader {
	tb.Helper()
	return p.over(tb, p.dial(tb), path)
}

// over asks over c.
func (p *pipes) over(tb testing.TB, c net.Conn, path string) io.Reader {
	tb.Helper()
	ask(tb, c, path)
	return answer(tb, bufio.NewReader(c)).Body
}
