package client

import (
	"context"
	"net/http"
	"time"
)

// Drain is how far a server is that finishes its work before it stops.
type Drain struct {
	Draining bool `json:"draining"`
	// Since is when it began, and Until when the server stops at the latest. Both are zero if it does not drain.
	Since Time `json:"since"`
	Until Time `json:"until"`
	// Running and Queued count the commands that the server waits for.
	Running int `json:"running"`
	Queued  int `json:"queued"`
}

// DrainRequest is the body of POST /v1/drain.
type DrainRequest struct {
	// Timeout is how long the server waits for its commands at most.
	Timeout Duration `json:"timeout"`
}

const drainPath = "/v1/drain"

// Drain lets the server take no new commands, and stop when those that run have ended and their readers have all of
// their output, or after the timeout. It needs the scope "admin", as the methods below.
func (c *Client) Drain(ctx context.Context, timeout time.Duration) (Drain, error) {
	r, err := jsonRequest("drain the server", http.MethodPost, drainPath, DrainRequest{Duration(timeout)})
	if err != nil {
		return Drain{}, err
	}
	return answer[Drain](ctx, c, r)
}

// ShowDrain returns how far the server is.
func (c *Client) ShowDrain(ctx context.Context) (Drain, error) {
	return answer[Drain](ctx, c, &request{op: "show the drain", method: http.MethodGet, path: drainPath})
}

// Swept says what a sweep has removed.
type Swept struct {
	Streams int64 `json:"streams"`
	Events  int64 `json:"events"`
	Bytes   int64 `json:"bytes"`
	// Idle is the number of streams that were ended because they were idle.
	Idle int64 `json:"idle"`
}

// SweepStore removes expired streams from the store of the server now. A server does so by itself from time to time.
func (c *Client) SweepStore(ctx context.Context) (Swept, error) {
	return answer[Swept](ctx, c, &request{
		op: "sweep the store", method: http.MethodPost, path: "/v1/store/sweep", patient: true,
	})
}
