package main

import (
	"context"
	"errors"
)

// cancelCmd ends executions.
type cancelCmd struct {
	connect `embed:""`

	IDs []string `arg:"" name:"id" help:"Ids of executions. Ended executions are not changed."`
}

// Run asks for the end and does not wait for it.
func (c *cancelCmd) Run(ctx context.Context, asked *stops) error {
	ctx, release := asked.context(ctx)
	defer release()
	server, err := c.client()
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range c.IDs {
		errs = append(errs, server.Cancel(ctx, id))
	}
	return errors.Join(errs...)
}
