package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"reprise/client"
	"reprise/cmd/reprise/internal/printable"
)

// artifactsCmd lists or fetches the artifacts of an execution.
type artifactsCmd struct {
	connect `embed:""`

	To   string `placeholder:"DIR" help:"Fetch the files into this directory. Default: list them."`
	JSON bool   `name:"json" help:"Print lines of JSON."`

	ID    string   `arg:"" help:"Id of the execution."`
	Paths []string `arg:"" optional:"" name:"path" help:"Only these. Default: all."`
}

// Help is shown below the usage.
func (*artifactsCmd) Help() string {
	return `Artifacts are the files named by "run --artifact", as they were when the execution ended.

  reprise run --id build --artifact 'dist/*.tar.gz' -- make dist
  reprise artifacts build --to .`
}

// Run lists or fetches.
func (c *artifactsCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		x, err := server.Show(ctx, c.ID)
		if err != nil {
			return err
		}
		if x.Status != client.StatusEnded {
			return fmt.Errorf("execution %s has not ended: its artifacts are collected then", c.ID)
		}
		chosen := x.Artifacts
		for i, path := range c.Paths {
			at := slices.IndexFunc(x.Artifacts, func(a client.Artifact) bool { return a.Path == path })
			if at < 0 {
				return fmt.Errorf("not_found: execution %s has no artifact %s", c.ID, path)
			}
			chosen = append(chosen[:i:i], x.Artifacts[at])
		}
		for _, note := range x.ArtifactNotes {
			fmt.Fprintln(os.Stderr, "reprise: not kept:", printable.Line(note))
		}
		if c.To != "" {
			return c.fetch(ctx, server, chosen)
		}
		t := newTable(stdout, "SIZE", "PATH")
		for _, a := range chosen {
			if c.JSON {
				if err := printObject(a); err != nil {
					return err
				}
				continue
			}
			t.row(strconv.FormatInt(a.Size, 10), a.Path)
		}
		return t.flush()
	})
}

// fetch writes the artifacts below the directory, which no path can leave.
func (c *artifactsCmd) fetch(ctx context.Context, server *client.Client, list []client.Artifact) error {
	if err := os.MkdirAll(c.To, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(c.To)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, a := range list {
		if err := c.fetchOne(ctx, server, root, a); err != nil {
			return err
		}
	}
	return nil
}

// fetchOne writes a file under a temporary name until it is complete and its checksum is verified.
func (c *artifactsCmd) fetchOne(ctx context.Context, server *client.Client, root *os.Root, a client.Artifact) error {
	name := filepath.FromSlash(a.Path)
	if err := root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	part := name + ".part"
	f, err := root.Create(part)
	if err != nil {
		return err
	}
	body, sum := server.OpenArtifact(ctx, c.ID, a.Path), sha256.New()
	defer body.Close()
	_, err = io.Copy(io.MultiWriter(f, sum), body)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil && hex.EncodeToString(sum.Sum(nil)) != a.SHA256 {
		err = fmt.Errorf("artifact %s has another checksum than it should", a.Path)
	}
	if err == nil {
		return root.Rename(part, name)
	}
	_ = root.Remove(part)
	return err
}
