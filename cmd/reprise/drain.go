package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/problem"
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
	server, err := c.Server.clientWith(client.Options{GiveUp: -1})
	if err != nil {
		return err
	}
	ctx, release := asked.context(ctx)
	defer release()
	state, err := server.Drain(ctx, c.For)
	if err != nil {
		return err
	}
	told := client.Drain{Running: -1}
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
		now, err := server.ShowDrain(ctx)
		_, answered := problem.As(err)
		switch {
		case err == nil:
			state = now
		case errors.Is(err, reprise.ErrClosed):
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case answered:
			return err
		default:
			return nil // nothing listens any more: it has stopped
		}
	}
}
