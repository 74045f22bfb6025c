package main

import (
	"context"
	"os"

	"reprise/client"
)

// logsCmd prints what there is.
type logsCmd struct {
	connect  `embed:""`
	bridging `embed:""`

	Follow bool `short:"f" help:"Wait for more output, and exit as the command does: the same as \"reprise follow\"."`
	JSON   bool `name:"json" help:"Print each event as a line of JSON, with its cursor."`

	ID string `arg:"" help:"Id of the execution."`
}

// Help is shown below the usage.
func (*logsCmd) Help() string {
	return `Prints what the command has written so far to stdout and stderr. The exit code is 0 if the output could be read, whatever the exit code of the command is.`
}

// Run prints.
func (c *logsCmd) Run(ctx context.Context, asked *stops) error {
	if c.Follow {
		follow := followCmd{connect: c.connect, bridging: c.bridging, JSON: c.JSON, Name: c.ID}
		return follow.Run(ctx, asked)
	}
	ctx, release := asked.context(ctx)
	defer release()
	server, err := c.client()
	if err != nil {
		return err
	}
	var out printer = &channels{stdout: stdout, stderr: os.Stderr}
	if c.JSON {
		out = &objects{stdout: stdout}
	}
	out, end := c.track(ctx, server, c.ID, out)
	defer end()
	return c.print(ctx, server, out)
}

// print prints page after page.
func (c *logsCmd) print(ctx context.Context, server *client.Client, out printer) error {
	for opts := (client.PageOptions{After: "earliest", Limit: 1000}); ; {
		page, err := server.Page(ctx, c.ID, &opts)
		if err != nil {
			return err
		}
		if opts.After == "earliest" && len(page.Events) > 0 && page.Events[0].Seq > 1 && !c.JSON {
			gap := &client.Gap{Code: "cursor_expired", Missed: page.Events[0].Seq - 1}
			if err := printGap(os.Stderr, gap); err != nil {
				return err
			}
		}
		for _, event := range page.Events {
			if err := out.print(event); err != nil {
				return err
			}
		}
		if opts.After = page.NextCursor; !page.HasMore {
			return nil
		}
	}
}
