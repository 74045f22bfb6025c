package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"reprise"
	"reprise/client"
)

// waitCmd waits for ends.
type waitCmd struct {
	connect  `embed:""`
	bridging `embed:""`
	newest   `embed:""`

	JSON bool `name:"json" help:"Print each execution as a line of JSON when it has ended."`

	IDs []string `arg:"" optional:"" name:"id" help:"Ids of executions."`
}

// Help is shown below the usage.
func (*waitCmd) Help() string {
	return `Prints a line with the outcome of each execution, in the order of the arguments. The exit code is 0 if all commands succeeded, and otherwise the code of the first one that did not, as with "follow". Ctrl-C does not affect the executions.`
}

// Run waits for all.
func (c *waitCmd) Run(ctx context.Context, asked *stops) error {
	return ours(c.with(ctx, asked, func(ctx context.Context, server *client.Client) (first error) {
		for _, id := range c.IDs {
			x, err := c.wait(ctx, server, id)
			if err != nil {
				return fmt.Errorf("%s: %w", id, err)
			}
			if err := c.print(&x); err != nil {
				return err
			}
			first = cmp.Or(first, outcome(endOf(&x)))
		}
		return first
	}))
}

// print says how an execution has ended.
func (c *waitCmd) print(x *client.Execution) error {
	if c.JSON {
		return printObject(x.Raw)
	}
	_, err := fmt.Fprintf(stdout, "%s %s\n", x.ID, statusText(x))
	return err
}

// wait returns an execution that has ended.
func (c *waitCmd) wait(ctx context.Context, server *client.Client, id string) (client.Execution, error) {
	bridge, ctx := c.newBridge(ctx, server.URL(), os.Stderr)
	opts := bridge.options(client.FollowOptions{After: "tail", Types: []string{"end"}})
	for _, err := range server.Follow(ctx, id, opts) {
		if errors.Is(err, reprise.ErrExpired) {
			break // it may be remembered
		}
		if err != nil {
			return client.Execution{}, err
		}
	}
	return server.Show(ctx, id)
}
