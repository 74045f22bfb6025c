package cutproxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
)

// answers are the kinds for which the proxy answers without the server.
var answers = map[Kind]func(net.Conn, *Fault){
	Refuse: func(conn net.Conn, _ *Fault) { reset(conn) },
	Status: func(conn net.Conn, f *Fault) {
		header := ""
		if f.RetryAfter != "" {
			header = "Retry-After: " + f.RetryAfter + "\r\n"
		}
		respond(conn, f.Code, header)
	},
	Redirect: func(conn net.Conn, f *Fault) { respond(conn, http.StatusFound, "Location: "+f.Location+"\r\n") },
	Page:     func(conn net.Conn, _ *Fault) { respond(conn, http.StatusOK, "") },
	Wrong: func(conn net.Conn, _ *Fault) {
		_, _ = io.WriteString(conn, "SSH-2.0-OpenSSH_9.2\r\n")
		_ = conn.Close()
	},
}

// respond answers one request with a page, as something in front of the server does.
func respond(conn net.Conn, status int, header string) {
	defer conn.Close()
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	text := http.StatusText(status)
	if status == http.StatusNoContent { // which has no page
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\n%sConnection: close\r\n\r\n", status, text, header)
		return
	}
	page := fmt.Sprintf("<!DOCTYPE html>\n<title>%d %s</title>\n<p>event: end\n<p>data: {}\n", status, text)
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: text/html\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, text, header, len(page), page)
}

// watched calls seen when it has read text for the first time, or anything at all if text is empty.
type watched struct {
	io.Reader
	text, last []byte
	seen       func()
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if w.seen == nil {
		return n, err
	}
	w.last = append(w.last, p[:n]...)
	if bytes.Contains(w.last, w.text) || err != nil && len(w.text) == 0 {
		w.seen()
		w.seen = nil
		return n, err
	}
	w.last = w.last[max(0, len(w.last)-len(w.text)+1):]
	return n, err
}

// interleave answers the requests of a connection as the server does, with events of something else among its own.
func (l *link) interleave(text string) {
	l.server.Close() // the transport below has connections of its own
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	reverse := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", l.server.RemoteAddr().String()
			r.Out.Host = r.In.Host
			r.Out.Header.Del("Accept-Encoding") // nothing can be inserted into what is compressed
		},
		ModifyResponse: func(res *http.Response) error {
			if res.Header.Get("Content-Type") == "text/event-stream" {
				res.Body, res.ContentLength = &interleaved{ReadCloser: res.Body, text: text}, -1
				res.Header.Del("Content-Length")
			}
			return nil
		},
	}
	defer transport.CloseIdleConnections()
	one := &oneConn{conn: l.client, closed: make(chan struct{})}
	// Without it the server closes the body of a request when its answer begins, which may be before the transport
	// has found the end of the body, and fails the answer.
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		reverse.ServeHTTP(w, r)
	})
	server := &http.Server{Handler: handler, ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed || state == http.StateHijacked {
			one.Close()
		}
	}}
	_ = server.Serve(one) // until the connection is closed
}

// foreignEvent is what something in front of a server might say.
const foreignEvent = "event: ping\ndata: {\"from\":\"a proxy\"}\n\nevent: message\ndata: not JSON\n\n" +
	"data: 7\n\nevent: end\ndata: {\"seq\":\"none\"}\n\nevent: gap\ndata: null\n\ndata\n\n"

// interleaved puts text before the first block and behind each block.
type interleaved struct {
	io.ReadCloser
	text  string
	begun bool
	ready []byte
	last  byte
}

func (i *interleaved) Read(p []byte) (int, error) {
	if !i.begun {
		i.begun = true
		i.ready = []byte(i.text)
	}
	if len(i.ready) == 0 {
		buf := make([]byte, len(p))
		n, err := i.ReadCloser.Read(buf)
		for _, b := range buf[:n] {
			i.ready = append(i.ready, b)
			if b == '\n' && i.last == '\n' {
				i.ready = append(i.ready, i.text...)
			}
			i.last = b
		}
		if len(i.ready) == 0 {
			return 0, err
		}
	}
	n := copy(p, i.ready)
	i.ready = i.ready[n:]
	return n, nil
}

// oneConn is a listener that accepts one connection and ends with it.
type oneConn struct {
	conn   net.Conn
	taken  bool
	once   sync.Once
	closed chan struct{}
}

// Accept returns the connection the first time.
func (o *oneConn) Accept() (net.Conn, error) {
	if !o.taken {
		o.taken = true
		return o.conn, nil
	}
	<-o.closed
	return nil, net.ErrClosed
}

// Close ends the second Accept.
func (o *oneConn) Close() error {
	o.once.Do(func() { close(o.closed) })
	return nil
}

// Addr returns the address of the connection.
func (o *oneConn) Addr() net.Addr { return o.conn.LocalAddr() }
