package main

import (
	"context"

	"reprise/client"
)

// changeFile calls change and prints the file that it returns as JSON, if that is wanted.
func changeFile(ctx context.Context, asked *stops, c *connect, asJSON bool,
	change func(context.Context, *client.Client) (client.File, error),
) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		file, err := change(ctx, server)
		if err == nil && asJSON {
			return printObject(file.Raw)
		}
		return err
	})
}

// filesMkdirCmd makes a directory.
type filesMkdirCmd struct {
	connect `embed:""`

	Mode string `placeholder:"MODE" env:"-" help:"Permissions. Default: 0755."`
	JSON bool   `name:"json" help:"Print the directory as JSON."`

	Path string `arg:"" help:"The directory, as ROOT/PATH."`
}

// Run makes it.
func (c *filesMkdirCmd) Run(ctx context.Context, asked *stops) error {
	return changeFile(ctx, asked, &c.connect, c.JSON, func(ctx context.Context, s *client.Client) (client.File, error) {
		return s.MakeDirectory(ctx, serverPath(c.Path), c.Mode)
	})
}

// filesMoveCmd moves.
type filesMoveCmd struct {
	connect `embed:""`

	NoClobber bool `short:"n" help:"Do not replace an existing file."`
	JSON      bool `name:"json" help:"Print the file as JSON."`

	From string `arg:"" help:"The file or directory, as ROOT/PATH."`
	To   string `arg:"" help:"Its new path, in the same root."`
}

// Run moves.
func (c *filesMoveCmd) Run(ctx context.Context, asked *stops) error {
	return changeFile(ctx, asked, &c.connect, c.JSON, func(ctx context.Context, s *client.Client) (client.File, error) {
		return s.MoveFile(ctx, serverPath(c.From), serverPath(c.To), !c.NoClobber)
	})
}

// filesModeCmd sets permissions.
type filesModeCmd struct {
	connect `embed:""`

	JSON bool `name:"json" help:"Print the file as JSON."`

	Mode string `arg:"" help:"Octal permissions, for example 0640."`
	Path string `arg:"" help:"The file or directory, as ROOT/PATH."`
}

// Run sets them.
func (c *filesModeCmd) Run(ctx context.Context, asked *stops) error {
	return changeFile(ctx, asked, &c.connect, c.JSON, func(ctx context.Context, s *client.Client) (client.File, error) {
		return s.SetFileMode(ctx, serverPath(c.Path), c.Mode)
	})
}

// filesRemoveCmd removes.
type filesRemoveCmd struct {
	connect `embed:""`

	Recursive bool `short:"r" help:"Remove directories with their contents."`

	Paths []string `arg:"" name:"path" help:"Files or directories, as ROOT/PATH. Missing ones are not an error."`
}

// Run removes them all, as far as it can.
func (c *filesRemoveCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		return each(c.Paths, func(path string) error { return server.RemoveFile(ctx, serverPath(path), c.Recursive) })
	})
}
