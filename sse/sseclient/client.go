package sseclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"reprise/internal/backoff"
	"reprise/internal/problem"
	"reprise/internal/ssefollow"
	"reprise/sse"
)

// Client reads one source. Restart and LastEventID are safe for concurrent use. Only one loop over Events may run at a
// time.
type Client struct {
	url  *url.URL
	opts Options
	http http.Client
	loop ssefollow.Loop

	mu     sync.Mutex
	lastID string
}

// New returns a Client for the source at an http or https URL; opts may be nil. It does not connect.
func New(address string, opts *Options) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("sseclient: %w", err)
	}
	if u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("sseclient: %q is not an http or https URL", address)
	}
	c := &Client{url: u, opts: opts.withDefaults()}
	if _, err := http.NewRequest(c.opts.Method, address, nil); err != nil {
		return nil, fmt.Errorf("sseclient: %w", err)
	}
	if c.opts.HTTPClient != nil {
		c.http = *c.opts.HTTPClient
	}
	c.http.Timeout = 0
	c.http.CheckRedirect = c.checkRedirect
	c.loop = ssefollow.Loop{IdleTimeout: c.opts.IdleTimeout, MaxBytes: c.opts.MaxBytes}
	c.lastID = c.opts.LastEventID
	return c, nil
}

// Events yields the events of the source as they arrive. The caller owns their Data. An error is the last thing that a
// loop yields: the cause if ctx is done, or the reason why the client gave up. A loop that ends without an error has
// reached the end of the stream.
//
// An event counts as handled when the body of the loop has ended or continued with it. The next loop continues after
// the last handled event. A break, a return or a panic inside the body leaves the event unhandled.
func (c *Client) Events(ctx context.Context) iter.Seq2[sse.Event, error] {
	return func(yield func(sse.Event, error) bool) {
		r := &reader{Client: c, yield: yield}
		r.wait.Pause = backoff.Backoff{First: c.opts.MinWait, Most: c.opts.MaxWait}
		if err := c.loop.Run(ctx, r); !errors.Is(err, ssefollow.ErrStop) {
			yield(sse.Event{}, err)
		}
	}
}

// LastEventID returns the id of the last handled event, or Options.LastEventID before the first one.
func (c *Client) LastEventID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastID
}

// Restart drops the connection, or ends the wait for one, and connects at once. It does nothing while no loop runs.
func (c *Client) Restart() { c.loop.Restart() }

func (c *Client) handled(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID = id
}

// maxRedirects is what browsers follow.
const maxRedirects = 20

// checkRedirect keeps the headers of the program from other origins.
func (c *Client) checkRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("%w: more than %d", ErrRedirect, maxRedirects)
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return fmt.Errorf("%w: it leads to %q", ErrRedirect, req.URL.Redacted())
	}
	if req.URL.Scheme != c.url.Scheme || req.URL.Host != c.url.Host {
		for name := range c.opts.Header {
			req.Header.Del(name)
		}
		c.setOwn(req.Header)
	}
	if ask := c.opts.HTTPClient; ask != nil && ask.CheckRedirect != nil {
		return ask.CheckRedirect(req, via)
	}
	return nil
}

// setOwn sets the headers that are not the program's.
func (c *Client) setOwn(header http.Header) {
	header.Set("Accept", sse.ContentType)
	header.Set("Cache-Control", "no-cache")
	if header.Get("Accept-Encoding") == "" {
		header.Set("Accept-Encoding", "identity") // compressing proxies hold events back
	}
	header.Del("Last-Event-ID")
	if id := c.LastEventID(); id != "" {
		header.Set("Last-Event-ID", id)
	}
}

// reader is one loop over the events.
type reader struct {
	*Client
	yield func(sse.Event, error) bool
	wait  backoff.Failures
	begun time.Time // when the present answer began
}

// The ways in which a loop ends without an error.
var (
	errEnded   = fmt.Errorf("the stream has ended: %w", ssefollow.ErrStop)
	errStopped = fmt.Errorf("the caller has left the loop: %w", ssefollow.ErrStop)
)

// Connect sends the request.
func (r *reader) Connect(ctx context.Context) (*http.Response, error) {
	if id := r.LastEventID(); strings.ContainsFunc(id, isControl) {
		return nil, fmt.Errorf("%w: %.60q", ErrLastEventID, id)
	}
	var body io.Reader
	if r.opts.Body != nil {
		body = bytes.NewReader(r.opts.Body)
	}
	req, err := http.NewRequestWithContext(ctx, r.opts.Method, r.url.String(), body)
	if err != nil {
		return nil, err
	}
	for name, values := range r.opts.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	r.setOwn(req.Header)
	res, err := r.http.Do(req)
	if err != nil {
		return nil, ssefollow.Broken(ctx, err)
	}
	if err := accept(res); err != nil {
		res.Body.Close()
		return nil, err
	}
	r.begun = time.Now()
	if r.opts.OnOpen != nil {
		r.opts.OnOpen(res)
	}
	return res, nil
}

// isControl reports whether c cannot stand in a header.
func isControl(c rune) bool { return c < ' ' && c != '\t' || c == 0x7F }

// accept is nil for an event stream, whose body it decodes.
func accept(res *http.Response) error {
	unknown := ssefollow.Decode(res)
	switch {
	case res.StatusCode == http.StatusNoContent:
		return errEnded
	case res.StatusCode != http.StatusOK:
		begin, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10)) // what there is of it
		err := &StatusError{Status: res.StatusCode, Header: res.Header, Body: begin}
		if res.StatusCode/100 == 3 {
			return fmt.Errorf("%w: %w to %q", ErrRedirect, err, res.Header.Get("Location"))
		}
		return err
	}
	if problem.MediaType(res.Header) != sse.ContentType {
		return fmt.Errorf("%w: its content type is %q", ErrContentType, res.Header.Get("Content-Type"))
	}
	if unknown != nil {
		return fmt.Errorf("%w: it comes in an %w", ErrContentType, unknown)
	}
	return nil
}

// Block yields an event.
func (r *reader) Block(_ context.Context, block sse.Event) error {
	r.wait.Reset()
	if block.Data != nil {
		block.Data = bytes.Clone(block.Data)
		if !r.yield(block, nil) {
			return errStopped
		}
	}
	r.handled(block.LastEventID)
	return nil
}

// Comment makes an old connection one that was of use: a proxy that cuts quiet connections is no reason to wait longer
// and longer.
func (r *reader) Comment(text []byte) {
	if time.Since(r.begun) >= ssefollow.MinProductive {
		r.wait.Reset()
	}
	if r.opts.OnComment != nil {
		r.opts.OnComment(text)
	}
}

// Wait does nothing.
func (r *reader) Wait(context.Context, context.CancelCauseFunc) {}

// Woken does nothing.
func (r *reader) Woken() {}

// Failed waits after what passes, and gives up otherwise.
func (r *reader) Failed(_ context.Context, err error, asked time.Duration) (time.Duration, error) {
	if status, ok := errors.AsType[*StatusError](err); ok {
		after, _ := problem.RetryAfter(status.Header, time.Now())
		asked = max(asked, after)
	}
	if isPassing(err) && !r.opts.repeats(err) {
		return 0, fmt.Errorf("%w: %s: %w", ErrNotRepeated, r.opts.Method, err)
	}
	pause := r.wait.Next(asked)
	if !isPassing(err) || r.wait.Outlasts(r.opts.GiveUp, pause) {
		return 0, err
	}
	if r.opts.OnDrop != nil {
		r.opts.OnDrop(Drop{Err: err, Since: r.wait.Since(), Tries: r.wait.Tries(), Wait: pause})
	}
	return pause, nil
}
