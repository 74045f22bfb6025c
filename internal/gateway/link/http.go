package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"reprise"
	"reprise/internal/gateway/wire"
)

// Endpoint is where an upstream speaks Streamable HTTP.
type Endpoint struct {
	URL string
	// Header is sent with each request.
	Header map[string]string
}

// HTTP is a Link to an Endpoint.
type HTTP struct {
	at     Endpoint
	logger *slog.Logger
	client *http.Client
	to     Receiver
	life   context.Context
	end    context.CancelCauseFunc
	work   sync.WaitGroup
	ended  chan struct{}

	mu      sync.Mutex
	closed  bool
	keep    bool // the session, see Keep
	session string
	version string
	stops   map[int64]context.CancelFunc // end the requests that are under way
	cause   error
}

// goodbyeTimeout limits the time for telling the upstream that a session has ended.
const goodbyeTimeout = 3 * time.Second

// errForgotten is the error of a session that the upstream no longer knows.
var errForgotten = errors.New("the upstream has forgotten the session")

var errClosed = fmt.Errorf("%w: the link", reprise.ErrClosed)

// OpenHTTP returns a Link to an endpoint, which is not called before the first Send.
func OpenHTTP(at Endpoint, logger *slog.Logger) *HTTP {
	l := &HTTP{at: at, logger: logger, ended: make(chan struct{}), stops: map[int64]context.CancelFunc{}}
	l.client = &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
		},
		// The headers, which may hold secrets, are for this endpoint alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	l.life, l.end = context.WithCancelCause(context.Background())
	return l
}

// Start implements Link.
func (l *HTTP) Start(r Receiver) {
	l.to = r
	l.run(func() { <-l.life.Done() })
	go func() {
		l.work.Wait()
		l.client.CloseIdleConnections()
		close(l.ended)
	}()
}

// run runs f in a goroutine that the end of the link waits for. It reports false if the link is ending.
func (l *HTTP) run(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.work.Go(f)
	return true
}

// Agree implements Link.
func (l *HTTP) Agree(version string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version = version
}

// Done implements Link.
func (l *HTTP) Done() <-chan struct{} { return l.ended }

// Lost implements Link.
func (l *HTTP) Lost() bool { return l.Err() != nil }

// Ending implements Link.
func (l *HTTP) Ending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Err implements Link.
func (l *HTTP) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// Close implements Link. It ends the session with a DELETE.
func (l *HTTP) Close() { l.closeWith(nil) }

// Keep makes the end of the link leave the session at the upstream, where another link goes on with it.
func (l *HTTP) Keep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keep = true
}

// closeWith begins to end the link. The session is ended at the upstream, too, unless the upstream has
// forgotten it or Keep was called.
func (l *HTTP) closeWith(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed, l.cause = true, why
	if l.session == "" || l.keep || errors.Is(why, errForgotten) {
		l.end(errClosed)
		return
	}
	l.work.Go(l.endSession)
}

// endSession ends the session at the upstream, then all requests.
func (l *HTTP) endSession() {
	defer l.end(errClosed)
	ctx, cancel := context.WithTimeout(l.life, goodbyeTimeout)
	defer cancel()
	r, err := l.newRequest(ctx, http.MethodDelete, nil)
	if err != nil {
		return
	}
	if resp, err := l.client.Do(r); err == nil {
		_ = resp.Body.Close()
	}
}

// Drop implements Link. It ends the HTTP request.
func (l *HTTP) Drop(id int64) {
	l.mu.Lock()
	stop := l.stops[id]
	l.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// agreed returns the session, or "", and the version.
func (l *HTTP) agreed() (session, version string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session, l.version
}

func (l *HTTP) hasSession() bool {
	session, _ := l.agreed()
	return session != ""
}

// newRequest returns an HTTP request with the headers that all requests have.
func (l *HTTP) newRequest(ctx context.Context, method string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, l.at.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range l.at.Header {
		r.Header.Set(name, value)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	session, version := l.agreed()
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	if version != "" && version != wire.Version20250326 {
		r.Header.Set("Mcp-Protocol-Version", version)
	}
	return r, nil
}
