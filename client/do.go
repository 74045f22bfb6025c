package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"reprise"
)

// Do sends a request that the Client has no method for, once, and returns a successful answer, whose body is the
// caller's to close. The path begins with "/v1/", and its parts are escaped. The error is a *Error, or
// the cause if ctx is cancelled.
func (c *Client) Do(ctx context.Context, method, path string, query url.Values) (*http.Response, error) {
	return c.do(ctx, &request{op: method + " " + path, method: method, path: path, query: query})
}

// DoJSON is Do with body as JSON; nil is none. The error wraps reprise.ErrInvalid for a body that has no JSON.
func (c *Client) DoJSON(ctx context.Context, method, path string, body any) (*http.Response, error) {
	r, err := jsonRequest(method+" "+path, method, path, body)
	if err != nil {
		return nil, err
	}
	return c.do(ctx, r)
}

func (c *Client) do(ctx context.Context, r *request) (*http.Response, error) {
	if path := r.path; len(path) == 0 || path[0] != '/' {
		return nil, fmt.Errorf("%s: %w: a path begins with a slash", r.op, reprise.ErrInvalid)
	}
	res, err := c.send(ctx, r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &Error{Op: r.op, Err: err, Tries: 1}
	}
	if err := c.refusal(res); err != nil {
		_ = res.Body.Close()
		return nil, &Error{Op: r.op, Err: err, Tries: 1}
	}
	c.met.Store(true)
	return res, nil
}
