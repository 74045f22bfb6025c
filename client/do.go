package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"reprise"
)

// Do sends a request for which the Client has no method, once, and returns a successful answer. The caller
// closes its body. The path begins with "/v1/", and its parts are escaped. The error is a *Error, or
// the cause if ctx is cancelled.
func (c *Client) Do(ctx context.Context, method, path string, query url.Values) (*http.Response, error) {
	r := &request{op: method + " " + path, method: method, path: path, query: query}
	if len(path) == 0 || path[0] != '/' {
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
