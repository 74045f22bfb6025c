package main

import (
	"context"
	"errors"
)

// removeCmd forgets things.
type removeCmd struct {
	connect `embed:""`

	Stream  bool `short:"s" xor:"kind" env:"-" help:"The names are streams. This is assumed for names with a slash."`
	Session bool `xor:"kind" env:"-" help:"The names are sessions, which are removed with all their executions."`
	MCP     bool `name:"mcp" xor:"kind" env:"-" help:"The names are sessions of MCP clients, whose calls are cancelled."`

	Names []string `arg:"" name:"name" help:"Ids of executions, or names of streams or sessions. Missing ones are not an error."`
}

// Run removes them all, as far as it can.
func (c *removeCmd) Run(ctx context.Context, asked *stops) error {
	ctx, release := asked.context(ctx)
	defer release()
	server, err := c.client()
	if err != nil {
		return err
	}
	remove := server.Remove
	switch {
	case c.Stream:
		remove = server.RemoveStream
	case c.Session:
		remove = server.RemoveSession
	case c.MCP:
		remove = server.EndMCPSession
	}
	var errs []error
	for _, name := range c.Names {
		if !c.Session && isStreamName(name) {
			errs = append(errs, server.RemoveStream(ctx, name))
			continue
		}
		errs = append(errs, remove(ctx, name))
	}
	return errors.Join(errs...)
}
