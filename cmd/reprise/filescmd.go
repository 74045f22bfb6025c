package main

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"

	"reprise/client"
	"reprise/cmd/reprise/internal/pages"
	"reprise/cmd/reprise/internal/printable"
	"reprise/internal/bytesize"
)

// filesCmd works on files of the server.
type filesCmd struct {
	List   filesListCmd   `cmd:"" aliases:"ls" help:"List a directory of the server, or the directories that can be used."`
	Show   filesShowCmd   `cmd:"" help:"Show a file of the server."`
	Search filesSearchCmd `cmd:"" help:"Search below a directory of the server, by name and by text."`
	Watch  filesWatchCmd  `cmd:"" help:"Print changes below a directory of the server, live."`
	Mkdir  filesMkdirCmd  `cmd:"" help:"Make a directory on the server, and its parents."`
	Move   filesMoveCmd   `cmd:"" aliases:"mv" help:"Move a file on the server."`
	Mode   filesModeCmd   `cmd:"" aliases:"chmod" help:"Set the permissions of a file of the server."`
	Remove filesRemoveCmd `cmd:"" aliases:"rm" help:"Remove files of the server."`
}

// serverPath takes the colon off that paths of the server have in "cp".
func serverPath(path string) string {
	path, _ = remotePath(path)
	return strings.TrimSuffix(path, "/")
}

// filesListCmd lists a directory.
type filesListCmd struct {
	connect `embed:""`

	Limit int  `default:"100" placeholder:"N" help:"Maximum number; 0 for all. Default: ${default}."`
	JSON  bool `name:"json" help:"Print each as a line of JSON."`

	Path string `arg:"" optional:"" help:"The directory, as ROOT/PATH. Default: all roots."`
}

// Run lists.
func (c *filesListCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		return showFiles(c.Limit, c.JSON, func(limit int, cursor string) (client.FileList, error) {
			return server.ListFiles(ctx, serverPath(c.Path), limit, cursor)
		})
	})
}

// showFiles prints pages of files.
func showFiles(limit int, asJSON bool, get func(limit int, cursor string) (client.FileList, error)) error {
	if limit < 0 {
		return usage("--limit %d: a number from 1, or 0 for all", limit)
	}
	all := pages.All(func(limit int, cursor string) ([]client.File, string, error) {
		page, err := get(limit, cursor)
		return page.Files, page.NextCursor, err
	}, limit)
	return show(&listCmd{Limit: limit, JSON: asJSON}, all, fileRow, "MODE", "SIZE", "MODIFIED", "PATH")
}

func fileRow(f client.File) (json.RawMessage, []string) {
	name := f.Path
	switch {
	case f.Type == "directory":
		name += "/"
	case f.Target != "":
		name += " -> " + f.Target
	case f.Line > 0:
		name += ":" + strconv.Itoa(f.Line) + ": " + clip(strings.TrimSpace(f.Text), 80)
	}
	return f.Raw, []string{f.Mode, bytesize.Size(f.Size).String(), moment(f.Modified), name}
}

// filesShowCmd shows a file.
type filesShowCmd struct {
	connect `embed:""`

	Checksum bool `help:"Print its SHA-256 too."`
	JSON     bool `name:"json" help:"Print it as JSON."`

	Path string `arg:"" help:"The file, as ROOT/PATH."`
}

// Run shows it.
func (c *filesShowCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		get := server.ShowFile
		if c.Checksum {
			get = server.SumFile
		}
		file, err := get(ctx, serverPath(c.Path))
		if err != nil {
			return err
		}
		return printFile(file, c.JSON)
	})
}

// printFile prints a file in rows or as JSON.
func printFile(f client.File, asJSON bool) error {
	return printRows(asJSON, f.Raw, [][2]string{
		{"path", f.Path},
		{"type", f.Type},
		{"size", bytesize.Size(f.Size).String()},
		{"mode", f.Mode},
		{"modified", moment(f.Modified)},
		{"target", f.Target},
		{"sha256", f.SHA256},
	})
}

// filesSearchCmd searches.
type filesSearchCmd struct {
	connect `embed:""`

	Name  string `placeholder:"PATTERN" env:"-" help:"Pattern for the last part of the path, for example '*.go'."`
	Text  string `placeholder:"TEXT" env:"-" help:"Text that a line of the file must contain."`
	Limit int    `default:"100" placeholder:"N" help:"Maximum number; 0 for all. Default: ${default}."`
	JSON  bool   `name:"json" help:"Print each as a line of JSON."`

	Path string `arg:"" help:"The directory, as ROOT/PATH."`
}

// Run searches.
func (c *filesSearchCmd) Run(ctx context.Context, asked *stops) error {
	if c.Name == "" && c.Text == "" {
		return usage("files search: --name PATTERN or --text TEXT is needed")
	}
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		return showFiles(c.Limit, c.JSON, func(limit int, cursor string) (client.FileList, error) {
			return server.SearchFiles(ctx, client.FileQuery{
				Path: serverPath(c.Path), Name: c.Name, Text: c.Text, Limit: limit, Cursor: cursor,
			})
		})
	})
}

// filesWatchCmd prints what happens.
type filesWatchCmd struct {
	connect  `embed:""`
	bridging `embed:""`

	Recursive bool `short:"r" help:"Watch subdirectories too."`
	JSON      bool `name:"json" help:"Print each as a line of JSON, with its cursor."`

	Path string `arg:"" help:"The directory, as ROOT/PATH."`
}

// Run prints until it is stopped.
func (c *filesWatchCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		watch, err := server.StartWatch(ctx, serverPath(c.Path), c.Recursive)
		if err != nil {
			return err
		}
		bridge, ctx := c.newBridge(ctx, server.URL(), os.Stderr)
		out := printer(&changes{})
		if c.JSON {
			out = newObjects(stdout)
		}
		opts := bridge.options(client.FollowOptions{After: watch.Cursor})
		for event, err := range server.FollowWatch(ctx, watch.ID, opts) {
			if err == nil {
				err = out.print(event)
			}
			if err != nil {
				return err
			}
			if event.End != nil {
				return outcome(event.End)
			}
		}
		return nil
	})
}

// changes writes each change of a file as a line.
type changes struct{}

func (*changes) print(e client.Event) error {
	switch {
	case e.Gap != nil:
		return printGap(os.Stderr, e.Gap)
	case e.End != nil:
		return nil
	}
	change, err := e.FileChange()
	if err != nil {
		return err
	}
	text := e.Type + " " + printable.Line(change.Path)
	if change.From != "" {
		text += " from " + printable.Line(change.From)
	}
	_, err = stdout.Write([]byte(text + "\n"))
	return err
}
