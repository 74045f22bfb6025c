package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/problem"
	"reprise/internal/wire"
)

// drainCmd lets a server finish its work and stop.
type drainCmd struct {
	Server connect `embed:""`

	For   time.Duration `default:"10m" env:"-" placeholder:"DURATION" help:"How long the server waits for its commands at most. Default: ${default}."`
	Quiet bool          `short:"q" help:"Show no progress."`
}

// Help is shown below the usage.
func (*drainCmd) Help() string {
	return `The server takes no new commands (503, shutting_down; /readyz says so too), answers readers on, and stops when no command runs any more, and its readers have all of its output (they have a minute for it), or when the time is over, as at TERM. Interpreters do not keep it. The verb returns when the server has stopped. It needs the scope admin.

A service manager that restarts the server whenever it ends starts it again: use its own stop, with --drain of "reprise serve".`
}

// drainLook is the time between two looks at a server that drains.
const drainLook = 500 * time.Millisecond

// Run drains and waits.
func (c *drainCmd) Run(ctx context.Context, asked *stops) error {
	server, err := c.Server.clientWith(client.Options{GiveUp: time.Second})
	if err != nil {
		return err
	}
	ctx, release := asked.context(ctx)
	defer release()
	var state wire.Drain
	request := struct {
		Timeout client.Duration `json:"timeout"`
	}{client.Duration(c.For)}
	if err := askJSON(ctx, server, http.MethodPost, "/v1/drain", request, &state); err != nil {
		return err
	}
	told := wire.Drain{Running: -1}
	for {
		if !c.Quiet && (state.Running != told.Running || state.Queued != told.Queued) {
			fmt.Fprintf(os.Stderr, "reprise: draining: %d running, %d waiting\n", state.Running, state.Queued)
			told = state
		}
		select {
		case <-time.After(drainLook):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		err := askJSON(ctx, server, http.MethodGet, "/v1/drain", nil, &state)
		_, answered := problem.As(err)
		switch {
		case err == nil, errors.Is(err, reprise.ErrClosed):
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case answered:
			return err
		default:
			return nil // nothing listens any more: it has stopped
		}
	}
}
