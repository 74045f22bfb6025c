package main

import (
	"context"

	"reprise/client"
)

// signalCmd sends a signal.
type signalCmd struct {
	connect `embed:""`

	ID   string `arg:"" help:"Id of the execution."`
	Name string `arg:"" name:"signal" help:"Name of the signal, for example INT or HUP."`
}

// Run sends it.
func (c *signalCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		return server.Signal(ctx, c.ID, c.Name)
	})
}
