package main

import (
	"context"
	"iter"
	"os"

	"reprise/client"
)

// followCmd shows what comes.
type followCmd struct {
	connect  `embed:""`
	bridging `embed:""`
	newest   `embed:""`

	Stream     bool     `short:"s" env:"-" help:"NAME is a stream, not the id of an execution. This is assumed if there is no such execution."`
	After      string   `placeholder:"CURSOR" help:"Begin after this position: a cursor as --json shows it, earliest, or tail (new events only). Default: the start."`
	Types      []string `placeholder:"TYPE,..." help:"Only events of these types, and the end."`
	JSON       bool     `name:"json" help:"Print each event as a line of JSON, with its cursor."`
	CursorFile string   `placeholder:"FILE" help:"Save the position in this file, and begin at the saved one. It is saved every 100 ms and at the end: after a kill, no event is missing, and events of the last 100 ms may be shown twice."`

	Name string `arg:"" optional:"" help:"Id of the execution or name of the stream."`
}

// Help is shown below the usage.
func (*followCmd) Help() string {
	return `Following changes nothing: any number of clients may follow, and Ctrl-C does not affect the execution. The exit code is the command's. For a stream it is 0 if the stream ends as completed, and 1 otherwise. In both cases it is 125 if events are lost that the server no longer keeps; with --after earliest, missing events at the start do not count.

Without --json the output of an execution goes to stdout and stderr as it was written, and each event of a stream is a line, in which a terminal gets U+FFFD for control characters.`
}

// Run follows to the end.
func (c *followCmd) Run(ctx context.Context, asked *stops) error {
	ctx, release := asked.context(ctx)
	defer release()
	return ours(c.follow(ctx))
}

func (c *followCmd) follow(ctx context.Context) error {
	server, err := c.client()
	if err != nil {
		return err
	}
	c.Stream = c.Stream || isStreamName(c.Name)
	whole := ctx
	bridge, ctx := c.newBridge(ctx, server.URL(), os.Stderr)
	opts := bridge.options(client.FollowOptions{After: c.After, Types: c.Types})
	if c.CursorFile != "" {
		opts.Cursors = client.FileCursor(c.CursorFile)
	}
	out := c.printer()
	if !c.Stream && c.After == "" && c.CursorFile == "" {
		shown, done := c.track(ctx, server, c.Name, out)
		defer done()
		out = shown
	}
	var end *client.End
	var lost loss
	for event, err := range c.events(ctx, server, opts) {
		if !c.Stream && isStreamAlone(ctx, server, c.Name, err) {
			c.Stream = true
			return c.follow(whole)
		}
		if err != nil && !c.Stream {
			return ranBefore(ctx, server, c.Name, err)
		}
		if err != nil {
			return err
		}
		lost.note(event)
		if event.End != nil {
			end = event.End
		}
		if err := out.print(event); err != nil {
			return err
		}
	}
	if end == nil { // the cursor was the one of the end
		return lost.outcome(c.knownEnd(ctx, server), "")
	}
	return lost.outcome(outcome(end), "")
}

func (c *followCmd) events(ctx context.Context, server *client.Client,
	opts *client.FollowOptions,
) iter.Seq2[client.Event, error] {
	if c.Stream {
		return server.FollowStream(ctx, c.Name, opts)
	}
	return server.Follow(ctx, c.Name, opts)
}

func (c *followCmd) printer() printer {
	switch {
	case c.JSON:
		return newObjects(stdout)
	case c.Stream:
		return newLines(stdout, os.Stderr)
	}
	return &channels{stdout: stdout, stderr: os.Stderr}
}

// knownEnd exits for an end that had been given before.
func (c *followCmd) knownEnd(ctx context.Context, server *client.Client) error {
	if c.Stream {
		s, err := server.ShowStream(ctx, c.Name)
		if err != nil {
			return err
		}
		return outcome(&client.End{Outcome: s.Outcome})
	}
	x, err := server.Show(ctx, c.Name)
	if err != nil {
		return err
	}
	return outcome(endOf(&x))
}

// endOf is the end of an execution that has ended.
func endOf(x *client.Execution) *client.End {
	end := &client.End{Outcome: x.Outcome, ExitCode: x.ExitCode, Signal: x.Signal, Error: x.Error, Limit: x.Limit}
	if x.DurationMS != nil {
		end.DurationMS = *x.DurationMS
	}
	return end
}
