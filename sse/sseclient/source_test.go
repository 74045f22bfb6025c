package sseclient_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"reprise/sse"
	"reprise/sse/sseclient"
)

// source is a server over net.Pipe, so that it can run in a synctest bubble. answer gets the number of the request,
// from 0 on.
type source struct {
	answer func(i int, w http.ResponseWriter, r *http.Request)

	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

func (s *source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	i := len(s.requests)
	s.requests = append(s.requests, r.Clone(context.Background()))
	s.bodies = append(s.bodies, string(body))
	s.mu.Unlock()
	s.answer(i, w, r)
}

func (s *source) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// lastIDs are the Last-Event-ID headers of the requests.
func (s *source) lastIDs() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		ids = append(ids, r.Header.Get("Last-Event-ID"))
	}
	return ids
}

// pipes is a listener for net.Pipe.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// open starts s for a test and returns a Client of it.
func (s *source) open(t *testing.T, opts sseclient.Options) *sseclient.Client {
	t.Helper()
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: s}
	served := make(chan error, 1)
	go func() { served <- server.Serve(p) }()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		select {
		case p.conns <- there:
			return here, nil
		case <-p.done:
			return nil, errors.New("the server is closed")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		<-served
	})
	if opts.HTTPClient == nil {
		opts.HTTPClient = &http.Client{}
	}
	opts.HTTPClient.Transport = transport
	c, err := sseclient.New("http://source.test/events?x=1", &opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// stream answers with an event stream of text. The answer ends after it.
func stream(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	_, _ = io.WriteString(w, text)
	_ = http.NewResponseController(w).Flush()
}

// abort ends the connection in mid-answer.
func abort() { panic(http.ErrAbortHandler) }

// collect reads a loop to its end.
func collect(ctx context.Context, c *sseclient.Client) (got []sse.Event, err error) {
	for event, err := range c.Events(ctx) {
		if err != nil {
			return got, err
		}
		got = append(got, event)
	}
	return got, nil
}

// data are the data of events.
func data(events []sse.Event) (got []string) {
	for _, e := range events {
		got = append(got, string(e.Data))
	}
	return got
}
