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
	newest   `embed:""`

	Stream bool `short:"s" env:"-" help:"NAME is a stream, not the id of an execution. This is assumed if there is no such execution."`
	Follow bool `short:"f" help:"Wait for more output, and exit as the command does: the same as \"reprise follow\"."`
	JSON   bool `name:"json" help:"Print each event as a line of JSON, with its cursor."`

	Name string `arg:"" optional:"" help:"Id of an execution, or name of a stream."`
}

// Help is shown below the usage.
func (*logsCmd) Help() string {
	return `Prints what the command has written so far to stdout and stderr, or the events of the stream. The exit code is 0 if the output could be read, whatever the exit code of the command is.`
}

// Run prints.
func (c *logsCmd) Run(ctx context.Context, asked *stops) error {
	if c.Follow {
		follow := followCmd{
			connect: c.connect, bridging: c.bridging, Stream: c.Stream, JSON: c.JSON, Name: c.Name,
		}
		return follow.Run(ctx, asked)
	}
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		if !c.Stream && !isStreamName(c.Name) {
			shown, end := c.track(ctx, server, c.Name, c.printer(&channels{stdout: stdout, stderr: os.Stderr}))
			defer end()
			if err := c.print(ctx, server.Page, shown); !isStreamAlone(ctx, server, c.Name, err) {
				return err
			}
		}
		return c.print(ctx, server.PageStream, c.printer(newLines(stdout, os.Stderr)))
	})
}

// printer returns what prints events: text, or JSON if that is asked for.
func (c *logsCmd) printer(text printer) printer {
	if c.JSON {
		return newObjects(stdout)
	}
	return text
}

// print prints page after page.
func (c *logsCmd) print(ctx context.Context,
	page func(ctx context.Context, name string, opts *client.PageOptions) (client.Page, error), out printer,
) error {
	for opts := (client.PageOptions{After: "earliest", Limit: 1000}); ; {
		page, err := page(ctx, c.Name, &opts)
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
