package main

import (
	"context"
	"io"
	"os"

	"reprise/client"
)

// inputCmd writes to a command's stdin.
type inputCmd struct {
	connect `embed:""`
	newest  `embed:""`

	Offset   int64 `placeholder:"N" help:"Our stdin begins at byte N of the command's stdin; bytes that the command already has are skipped. Default: 0."`
	KeepOpen bool  `help:"Do not close the command's stdin at the end of ours."`

	ID string `arg:"" optional:"" help:"Id of an execution that was started with --stdin."`
}

// Help is shown below the usage.
func (*inputCmd) Help() string {
	return `Bytes are counted from the start of the input. After a failure the same input can therefore be sent again, and the command gets each byte once.`
}

// Run sends what there is.
func (c *inputCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		if c.Offset < 0 {
			return usage("--offset %d: a number from 0", c.Offset)
		}
		w := server.StdinWriter(ctx, c.ID, c.Offset)
		if _, err := io.Copy(w, os.Stdin); err != nil {
			return err
		}
		if c.KeepOpen {
			return nil
		}
		return w.Close()
	})
}
