package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"

	"reprise"
	"reprise/internal/backoff"
	"reprise/internal/problem"
	"reprise/internal/ssefollow"
)

// maxAnswer bounds the body of an answer that is read as a whole.
const maxAnswer = 64 << 20

const (
	jsonType  = "application/json"
	bytesType = "application/octet-stream"
)

// request is one request, which can be sent more than once.
type request struct {
	op     string // for errors
	method string
	path   string // escaped
	query  url.Values
	header http.Header
	body   []byte
	stream io.Reader // the body in place of body, of a request that is sent once
	// once forbids a retry of a request that may have reached the server.
	once bool
	// patient marks requests that wait for an event. Their attempts have no timeout.
	patient bool
}

// jsonRequest returns a request with body encoded as JSON; nil means no body.
func jsonRequest(op, method, path string, body any) (*request, error) {
	r := &request{op: op, method: method, path: path, header: http.Header{}}
	if body == nil {
		return r, nil
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", op, reprise.ErrInvalid, err)
	}
	r.body = text
	r.header.Set("Content-Type", jsonType)
	return r, nil
}

// executionPath returns the path of an execution followed by rest. streamPath and sessionPath do the same for streams
// and sessions.
func executionPath(id, rest string) string { return "/v1/executions/" + url.PathEscape(id) + rest }
func streamPath(name, rest string) string  { return "/v1/streams/" + url.PathEscape(name) + rest }
func sessionPath(id, rest string) string   { return "/v1/sessions/" + url.PathEscape(id) + rest }

// checkName rejects names that would not arrive as one segment of a path, whether or not the server would accept them.
func checkName(op, name string) error {
	if name == "" || name == "." || name == ".." {
		return fmt.Errorf("%s: %w: %q names nothing", op, reprise.ErrInvalid, name)
	}
	return nil
}

// send sends r and returns the answer, whatever its status. The body is the caller's to close.
func (c *Client) send(ctx context.Context, r *request) (*http.Response, error) {
	address := c.base + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	} else if r.stream != nil {
		body = r.stream
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", reprise.ErrInvalid, err)
	}
	req.Header.Set("Accept", jsonType)
	req.Header.Set("Accept-Encoding", "identity") // of proxies that compress some hold events back
	maps.Copy(req.Header, r.header)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	begun := time.Now()
	res, err := c.http.Do(req)
	if err != nil {
		c.log.Debug("no answer", "method", r.method, "url", c.base+r.path, "took", time.Since(begun), "err", err)
		return nil, ssefollow.Broken(ctx, err)
	}
	c.log.Debug("answer", "method", r.method, "url", c.base+r.path, "took", time.Since(begun), "status", res.StatusCode)
	if err := ssefollow.Decode(res); err != nil && res.StatusCode < http.StatusBadRequest {
		_ = res.Body.Close()
		return nil, &foreignError{fmt.Errorf("%w: %s answers in an %w", ErrProtocol, c.base, err)}
	}
	return res, nil
}

// failures returns a counter of failures that starts at 0.
func (c *Client) failures() backoff.Failures {
	return backoff.Failures{Pause: backoff.Backoff{First: c.opts.MinWait, Most: c.opts.MaxWait}}
}

// giveUp returns how long a call is retried.
func (c *Client) giveUp() time.Duration {
	if c.met.Load() {
		return c.opts.GiveUp
	}
	return c.opts.GiveUpFirst
}

// call sends r until it is answered, and reads the JSON of the answer into out unless that
// is nil. The error is the cause if ctx is cancelled, or else a *Error.
func (c *Client) call(ctx context.Context, r *request, out any) error {
	return c.tryAgain(ctx, r, func(ctx context.Context) error { return c.try(ctx, r, out) })
}

// tryAgain calls try until it succeeds or a retry is pointless.
func (c *Client) tryAgain(ctx context.Context, r *request, try func(context.Context) error) error {
	wait := c.failures()
	var spell foreignSpell
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		pause := wait.Next(askedWait(err))
		again := spell.allows(err, c.met.Load(), c.foreignGiveUp, pause) ||
			Retryable(err) && !wait.Outlasts(c.giveUp(), pause)
		if !again || r.once && !unsent(err) {
			return &Error{Op: r.op, Err: err, Tries: wait.Tries()}
		}
		c.log.Debug(stateWaiting, "op", r.op, "wait", pause, "tries", wait.Tries(), "err", err)
		if err := backoff.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// askedWait returns the wait that the server has asked for.
func askedWait(err error) time.Duration {
	p, _ := problem.As(err)
	return p.RetryAfter
}

// try sends r once.
func (c *Client) try(ctx context.Context, r *request, out any) error {
	if !r.patient {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.opts.Timeout, errTimeout)
		defer cancel()
	}
	res, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := c.refusal(res); err != nil {
		return err
	}
	if out == nil {
		if res.StatusCode != http.StatusNoContent {
			return notOurs(res)
		}
		return nil
	}
	if err := readJSON(ctx, res, out); err != nil {
		return err
	}
	c.met.Store(true)
	return nil
}

// refusal returns the problem in an answer, or nil for a success. A problem with a code can only come from the server,
// so it also marks the server as met.
func (c *Client) refusal(res *http.Response) error {
	switch {
	case res.StatusCode >= 400:
		p := problem.Parse(res, time.Now())
		if p.Code == "" {
			return fmt.Errorf("%s answers with %w", c.base, p)
		}
		c.met.Store(true)
		return p
	case res.StatusCode >= 300 || res.StatusCode < 200:
		return &foreignError{fmt.Errorf("%w: %s answers with status %d, which leads to %q",
			ErrProtocol, c.base, res.StatusCode, res.Header.Get("Location"))}
	}
	return nil
}

// notOurs is the error for a successful answer in a form that the server does not give.
func notOurs(res *http.Response) error {
	at := res.Request.URL.Scheme + "://" + res.Request.URL.Host
	return &foreignError{fmt.Errorf("%w: %s answers with status %d and content type %q",
		ErrProtocol, at, res.StatusCode, res.Header.Get("Content-Type"))}
}

// readJSON reads a successful answer.
func readJSON(ctx context.Context, res *http.Response, out any) error {
	if !hasType(res, jsonType) {
		return notOurs(res)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return ssefollow.Broken(ctx, err)
	}
	if len(body) > maxAnswer {
		return fmt.Errorf("%w: an answer of more than %d bytes", ErrProtocol, maxAnswer)
	}
	if !json.Valid(body) { // where the length is not stated, a lost connection looks like this
		return &ssefollow.TransportError{Err: errCutShort}
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return nil
}

func hasType(res *http.Response, want string) bool {
	return problem.MediaType(res.Header) == want
}
