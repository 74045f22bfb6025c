package main

import "context"

// signalCmd sends a signal.
type signalCmd struct {
	connect `embed:""`

	ID   string `arg:"" help:"Id of the execution."`
	Name string `arg:"" name:"signal" help:"Name of the signal, for example INT or HUP."`
}

// Run sends it.
func (c *signalCmd) Run(ctx context.Context, asked *stops) error {
	ctx, release := asked.context(ctx)
	defer release()
	server, err := c.client()
	if err != nil {
		return err
	}
	return server.Signal(ctx, c.ID, c.Name)
}
