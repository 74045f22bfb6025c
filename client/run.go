package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"

	"reprise/internal/problem"
)

// Run starts an execution and follows it; the answer to the start contains the first events.
// The start is idempotent, as with Client.Start: however often the connection
// breaks, the command runs once. A second range attaches to the same
// execution. FollowOptions.After is ignored.
//
// If the execution has ended and its output has expired, the error wraps reprise.ErrExpired; Client.Show says how it
// ended.
//
// A command without an ID belongs to the loop: if that is left before its end by a break, a cancelled ctx or a
// failure, the command is cancelled, unless FollowOptions.Detach is set. A request with an ID, a Key or an
// IdempotencyKey goes on, since the program can find it again.
//
// With a Key, or an IdempotencyKey and no ID, Run is Client.Start followed by
// Client.Follow, and each range starts anew.
func (c *Client) Run(ctx context.Context, run StartRequest, opts *FollowOptions) iter.Seq2[Event, error] {
	if run.Key != "" || run.IdempotencyKey != "" && run.ID == "" {
		return c.runKeyed(ctx, run, opts)
	}
	start, id, err := startRequest(run)
	if err != nil {
		return func(yield func(Event, error) bool) { yield(Event{}, err) }
	}
	start.header.Set("Accept", eventStreamType)
	if run.Hold > 0 {
		start.query = url.Values{"hold": {time.Duration(run.Hold).String()}}
		if opts == nil || len(opts.Types) == 0 { // there is no sign of events that have passed without being asked for
			start.header.Set(receiptsHeader, "yes")
		}
	}
	return func(yield func(Event, error) bool) {
		op := "run execution " + id
		if err := checkName(op, id); err != nil {
			yield(Event{}, err)
			return
		}
		f := c.follower(op, executionPath(id, ""), start, opts, yield)
		if run.ID == "" && !f.opts.Detach {
			defer f.abandon(ctx, id)
		}
		if err := f.run(ctx); err != nil {
			f.refused = isRefusal(err)
			yield(Event{}, err)
		}
	}
}

// lastWord bounds what an abandoned loop does last.
const lastWord = 5 * time.Second

// abandon cancels the command of a loop that was left before its end. It makes one attempt.
func (f *follower) abandon(ctx context.Context, id string) {
	if !f.started || f.ended || f.refused {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWord)
	defer cancel()
	res, err := f.c.send(ctx, &request{method: http.MethodPost, path: executionPath(id, "/cancel")})
	if err == nil {
		_ = res.Body.Close()
	}
}

// isRefusal reports whether err is a refusal of the server.
func isRefusal(err error) bool {
	p, ok := problem.As(err)
	return ok && p.Code != ""
}

// runKeyed is Run for a request with a key of either kind: its id is known when the server has answered.
func (c *Client) runKeyed(ctx context.Context, run StartRequest, opts *FollowOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		x, err := c.Start(ctx, run)
		if err != nil {
			yield(Event{}, err)
			return
		}
		var o FollowOptions
		if opts != nil {
			o = *opts
		}
		o.After = ""
		c.Follow(ctx, x.ID, &o)(yield)
	}
}
