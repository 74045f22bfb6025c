package main

import (
	"context"
	"encoding/json"

	"reprise/client"
)

// endCmd ends a stream.
type endCmd struct {
	connect `embed:""`
	named   `embed:""`

	Outcome string `enum:"completed,failed,cancelled" default:"completed" placeholder:"OUTCOME" help:"Outcome: completed, failed or cancelled. Default: ${default}."`
	Result  string `placeholder:"JSON" help:"JSON value for the data of the end event."`

	JSON bool `name:"json" help:"Print the seq of the end event: {\"first\":3,\"last\":3,...}."`

	Stream string `arg:"" help:"Name of the stream."`
}

// Run ends it.
func (c *endCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		if c.Result != "" && !json.Valid([]byte(c.Result)) {
			return usage("--result %q is no JSON value", c.Result)
		}
		published, err := server.Producer(c.Stream).End(ctx, c.Outcome, json.RawMessage(c.Result))
		if err == nil && c.JSON {
			return printObject(published)
		}
		return err
	})
}
