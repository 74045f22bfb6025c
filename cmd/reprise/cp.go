package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"reprise"
	"reprise/client"
	"reprise/internal/copytree"
)

// cpCmd copies a file or a directory to the server or from it.
type cpCmd struct {
	connect  `embed:""`
	bridging `embed:""`

	Recursive bool   `short:"r" help:"Copy a directory with its contents. Links are neither followed nor copied."`
	NoClobber bool   `short:"n" help:"Do not replace an existing file."`
	Mode      string `placeholder:"MODE" help:"Permissions of an uploaded file, for example 0755. Default: the permissions of the local file."`
	JSON      bool   `name:"json" help:"Print the file of the server as JSON."`

	Source string `arg:"" help:"File to copy. A path on the server begins with a colon: :ROOT/PATH."`
	Target string `arg:"" help:"Target. If it is a directory or ends with a slash, the name of the source is appended."`
}

// Help is shown below the usage.
func (*cpCmd) Help() string {
	return `One of the two paths is on the server, below a directory that "serve --files" names; "reprise files list" shows those directories.

The copy continues after a lost connection and after a restart of the server. If this program fails or is killed, running the same command again continues with the bytes that have arrived. The file appears under its name once it is complete and its checksum matches. If the source changes during the copy, the copy fails.

  reprise cp model.bin :work/models/
  reprise cp :work/out/report.pdf .

With -r the target is the path of the copy, whether it exists or not; if it ends with a slash, the name of the source is appended. Files that already exist with the same bytes are skipped, so the same command continues after a failure.

  reprise cp -r src :work/src
  reprise cp -r :work/out results`
}

// isRemote reports whether a name means a file of the server, and returns its path.
func remotePath(name string) (string, bool) { return strings.CutPrefix(name, ":") }

// Run copies.
func (c *cpCmd) Run(ctx context.Context, asked *stops) error {
	ctx, release := asked.context(ctx)
	defer release()
	source, fromServer := remotePath(c.Source)
	target, toServer := remotePath(c.Target)
	if fromServer == toServer {
		return usage("cp: one of SOURCE and TARGET is a file of the server and begins with a colon, for example :work/%s",
			path.Base(filepath.ToSlash(source)))
	}
	server, err := c.client()
	if err != nil {
		return err
	}
	bridge, ctx := c.newBridge(ctx, server.URL(), os.Stderr)
	bar := newProgress(os.Stderr, c.Quiet)
	defer bar.end()
	opts := &client.TransferOptions{
		Keep: c.NoClobber, Mode: c.Mode, OnProgress: bar.show, OnDrop: bridge.dropped, OnConnected: bridge.connected,
	}
	if c.Recursive {
		err := c.copyTree(ctx, server, opts)
		bar.end()
		return err
	}
	var file client.File
	if toServer {
		if target, err = remoteTarget(ctx, server, target, filepath.Base(source)); err == nil {
			file, err = server.Upload(ctx, source, target, opts)
		}
	} else {
		file, err = server.Download(ctx, source, localTarget(target, path.Base(source)), opts)
	}
	bar.end()
	if err == nil && c.JSON {
		return printObject(file.Raw)
	}
	return err
}

// remoteTarget is where to upload a file called name: into target, if that is a directory.
func remoteTarget(ctx context.Context, server *client.Client, target, name string) (string, error) {
	if dir, ok := strings.CutSuffix(target, "/"); ok {
		return dir + "/" + name, nil
	}
	there, err := server.ShowFile(ctx, target)
	switch {
	case err == nil && there.Type == "directory":
		return target + "/" + name, nil
	case err != nil && !errors.Is(err, reprise.ErrNotFound):
		return "", err
	}
	return target, nil
}

// localTarget is where to put a file called name: into target, if that is a directory.
func localTarget(target, name string) string {
	info, err := os.Stat(target)
	if err == nil && info.IsDir() || strings.HasSuffix(target, "/") {
		return filepath.Join(target, name)
	}
	return target
}

// copyTree is cp -r. The target is the copy itself, whether or not it exists, so that repeating the command continues.
func (c *cpCmd) copyTree(ctx context.Context, server *client.Client, opts *client.TransferOptions) error {
	source, fromServer := remotePath(c.Source)
	target, _ := remotePath(c.Target)
	if c.Mode != "" {
		return usage("cp: --mode cannot be combined with -r")
	}
	source = strings.TrimSuffix(source, "/")
	copyTo := copytree.Down
	if !fromServer {
		copyTo = copytree.Up
		if strings.HasSuffix(target, "/") {
			target += filepath.Base(source)
		}
	}
	sum, err := copyTo(ctx, server, source, target, opts)
	return errors.Join(err, c.tell(sum))
}

// tell prints the summary.
func (c *cpCmd) tell(sum *copytree.Summary) error {
	if c.JSON {
		return printObject(sum)
	}
	if c.Quiet {
		return nil
	}
	for _, s := range sum.Skipped {
		fmt.Fprintf(os.Stderr, "reprise: %q is not copied: %s\n", s.Path, s.Reason)
	}
	fmt.Fprintln(os.Stderr, "reprise:", sum)
	return nil
}
