package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"sync"
	"time"

	"reprise/mcphttp"
)

// httpLink is a link to an endpoint of Streamable HTTP.
type httpLink struct {
	g      *Gateway
	p      *peer
	logger *slog.Logger
	client *http.Client
	life   context.Context
	end    context.CancelCauseFunc
	work   sync.WaitGroup
	ended  chan struct{}

	mu      sync.Mutex
	closed  bool
	session string
	version string
	calls   map[*call]*sending
	cause   error
}

const (
	// goodbyeTimeout bounds how long the end of a session is told to an upstream.
	goodbyeTimeout = 3 * time.Second
	// maxRefusal bounds what is read of an answer that is no success.
	maxRefusal = 64 << 10
)

// errForgotten: the upstream does not know the session any more.
var errForgotten = errors.New("the upstream has forgotten the session")

func openHTTP(g *Gateway, p *peer, logger *slog.Logger) *httpLink {
	l := &httpLink{g: g, p: p, logger: logger, ended: make(chan struct{}), calls: map[*call]*sending{}}
	l.client = &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // its headers are for one place
	}
	l.life, l.end = context.WithCancelCause(context.Background())
	l.begin(func() { <-l.life.Done() })
	go func() {
		l.work.Wait()
		l.client.CloseIdleConnections()
		close(l.ended)
	}()
	return l
}

// begin runs f in a goroutine that the end of the link waits for, and reports false when there will be none.
func (l *httpLink) begin(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.work.Go(f)
	return true
}

func (l *httpLink) agreed(version string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version = version
}

func (l *httpLink) spoken() (session, version string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session, l.version
}

func (l *httpLink) done() <-chan struct{} { return l.ended }

func (l *httpLink) lost() bool { return l.why() != nil }

func (l *httpLink) ending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

func (l *httpLink) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

func (l *httpLink) close() { l.shut(nil) }

// shut ends the link; the upstream is told so unless it has forgotten us.
func (l *httpLink) shut(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed, l.cause = true, why
	if l.session == "" || errors.Is(why, errForgotten) {
		l.end(errClosed)
		return
	}
	l.work.Go(func() {
		defer l.end(errClosed)
		ctx, cancel := context.WithTimeout(l.life, goodbyeTimeout)
		defer cancel()
		if r, err := l.request(ctx, http.MethodDelete, nil); err == nil {
			if resp, err := l.client.Do(r); err == nil {
				_ = resp.Body.Close()
			}
		}
	})
}

// sending is a call that is on its way; stop ends its HTTP request.
type sending struct{ stop context.CancelFunc }

// drop ends the request of a call that nobody waits for.
func (l *httpLink) drop(c *call) {
	l.mu.Lock()
	s := l.calls[c]
	l.mu.Unlock()
	if s != nil {
		s.stop()
	}
}

// request is an HTTP request with the headers that all have.
func (l *httpLink) request(ctx context.Context, method string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, l.g.up.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range l.g.up.Header {
		r.Header.Set(name, value)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	session, version := l.spoken()
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	if version != "" && version != version20250326 {
		r.Header.Set("Mcp-Protocol-Version", version)
	}
	return r, nil
}

func (l *httpLink) send(ctx context.Context, m outgoing) error {
	if m.call == nil {
		return l.tell(ctx, m)
	}
	life, stop := context.WithCancel(l.life)
	r, err := l.post(life, m)
	if err == nil {
		l.mu.Lock()
		s := &sending{stop}
		l.calls[m.call] = s
		l.mu.Unlock()
		if l.begin(func() { l.exchange(r, m.call, s) }) {
			return nil
		}
		err = errEnded
	}
	stop()
	return err
}

// tell sends a notification or a response, and waits until it was taken.
func (l *httpLink) tell(ctx context.Context, m outgoing) error {
	r, err := l.post(ctx, m)
	if err != nil {
		return err
	}
	resp, err := l.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound && l.hasSession():
		l.shut(errForgotten)
		return errForgotten
	case resp.StatusCode/100 != 2:
		return fmt.Errorf("the upstream answers %s", resp.Status)
	case m.method == noteInitialized:
		l.begin(l.listen)
	}
	return nil
}

func (l *httpLink) hasSession() bool {
	session, _ := l.spoken()
	return session != ""
}

// exchange sends a request and hands over what is answered.
func (l *httpLink) exchange(r *http.Request, c *call, s *sending) {
	defer func() {
		l.mu.Lock()
		if l.calls[c] == s { // else the call was sent again
			delete(l.calls, c)
		}
		l.mu.Unlock()
		s.stop()
	}()
	resp, err := l.client.Do(r)
	if err != nil {
		l.p.fail(c, failedRequest(err))
		return
	}
	defer resp.Body.Close()
	if id := resp.Header.Get("Mcp-Session-Id"); c.method == methodInitialize && id != "" {
		l.mu.Lock()
		l.session = id
		l.mu.Unlock()
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode == http.StatusNotFound && l.hasSession():
		l.forgotten(resp, c)
	case resp.StatusCode/100 != 2:
		l.refused(resp, c)
	case kind == "text/event-stream":
		l.stream(r.Context(), resp.Body, c)
	default:
		l.whole(resp.Body, c)
	}
}

// failedRequest is what a call is answered with that got no answer over HTTP.
func failedRequest(err error) *failure {
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return &failure{codeInternal, "the upstream cannot be reached; the request was not sent", "upstream_unavailable"}
	}
	return errLost(err)
}

// forgotten deals with a session that the upstream does not know any more: the request was not carried out, so it is
// sent again in a new one.
func (l *httpLink) forgotten(resp *http.Response, c *call) {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if m, err := mcphttp.ParseMessage(text); err == nil && m.ID == upstreamID(c.up) && resp.Header.Get("Mcp-Session-Id") != "" {
		l.p.receive(m, c) // it knows the session, and not what was asked for
		return
	}
	if c.f == nil || c.again {
		l.p.fail(c, &failure{codeInternal, errForgotten.Error() + "; the request was not carried out", "upstream_unavailable"})
	}
	again := l.p.forget(c) // before the end of the link answers it
	l.shut(errForgotten)   // before it is sent again, over another one
	if again {
		c.f.push(arrival{call: c, again: true})
	}
}

// refused hands over the error of an answer that is no success.
func (l *httpLink) refused(resp *http.Response, c *call) {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if m, err := mcphttp.ParseMessage(text); err == nil && m.Err != nil {
		m.ID = upstreamID(c.up)
		l.p.receive(m, c)
		return
	}
	l.p.fail(c, &failure{codeInternal, "the upstream answers " + resp.Status, "upstream_unavailable"})
}

// whole reads an answer in JSON.
func (l *httpLink) whole(body io.Reader, c *call) {
	text, err := io.ReadAll(io.LimitReader(body, maxLine+1))
	switch {
	case err != nil:
		l.p.fail(c, errLost(err))
	case len(text) > maxLine || len(bytes.TrimSpace(text)) == 0:
		l.p.fail(c, &failure{codeInternal, "the upstream's answer is empty or too long", "upstream_lost"})
	case !receiveText(bytes.TrimSpace(text), func(m mcphttp.Message) { l.p.receive(m, c) }):
		l.g.garbage()
		l.p.fail(c, &failure{codeInternal, "the upstream's answer is no message", "upstream_lost"})
	default:
		l.p.fail(c, &failure{codeInternal, "the upstream's answer has no response", "upstream_lost"}) // unless it had
	}
}

// receiveText hands over the message of a text, or those of a batch.
func receiveText(text []byte, receive func(mcphttp.Message)) bool {
	if text[0] != '[' {
		m, err := mcphttp.ParseMessage(text)
		if err == nil {
			receive(m)
		}
		return err == nil
	}
	var batch []json.RawMessage
	if json.Unmarshal(text, &batch) != nil {
		return false
	}
	for _, raw := range batch {
		m, err := mcphttp.ParseMessage(raw)
		if err != nil {
			return false
		}
		receive(m)
	}
	return true
}
