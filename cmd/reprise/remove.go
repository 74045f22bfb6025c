package main

import (
	"context"
	"fmt"

	"reprise/client"
	"reprise/cmd/reprise/internal/ids"
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
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		remove := server.Remove
		switch {
		case c.Stream:
			remove = server.RemoveStream
		case c.Session:
			remove = server.RemoveSession
		case c.MCP:
			remove = server.EndMCPSession
		}
		return each(c.Names, func(name string) error {
			switch {
			case !c.Session && isStreamName(name):
				return server.RemoveStream(ctx, name)
			case !c.Stream && !c.Session && !c.MCP && c.isStream(ctx, server, name):
				return fmt.Errorf("%s is a stream, not an execution; --stream removes it", name)
			case !c.Stream && !c.Session && !c.MCP && ids.IsBeginning(name):
				whole, err := ids.Whole(ctx, server, name)
				if err == nil && whole != name {
					err = usage("the id of what is removed is written out: %s", whole)
				}
				if err != nil {
					return err
				}
			}
			return remove(ctx, name)
		})
	})
}

// isStream reports whether a stream but no execution has a name. The name is never guessed.
func (c *removeCmd) isStream(ctx context.Context, server *client.Client, name string) bool {
	_, err := server.Show(ctx, name)
	return isStreamAlone(ctx, server, name, err)
}
