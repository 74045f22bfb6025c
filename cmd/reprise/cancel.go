package main

import (
	"context"

	"reprise/client"
)

// cancelCmd ends executions or tasks.
type cancelCmd struct {
	connect `embed:""`
	newest  `embed:""`

	Task bool `env:"-" help:"The ids name tasks of MCP clients. The tool of a task decides whether it stops."`

	IDs []string `arg:"" optional:"" name:"id" help:"Ids of executions. Ended ones are not changed."`
}

// Run asks for the end and does not wait for it.
func (c *cancelCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		cancel := server.Cancel
		if c.Task {
			cancel = server.CancelTask
		}
		return each(c.IDs, func(id string) error { return cancel(ctx, id) })
	})
}
