package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"

	"reprise/cmd/reprise/internal/manual"
)

// manCmd writes manual pages.
type manCmd struct {
	Dir string `placeholder:"DIR" env:"-" help:"Write all pages to this directory, for example ~/.local/share/man/man1."`

	Verb []string `arg:"" optional:"" help:"Verb whose page is printed. Default: the page of the program."`
}

// Help is shown below the usage.
func (*manCmd) Help() string {
	return `For example, to read the page of the verb run: reprise man run | man -l -`
}

// Run writes the manual pages.
func (c *manCmd) Run() error {
	app := model()
	if c.Dir == "" {
		node := app.Node
		for _, verb := range c.Verb {
			at := line{node: node}
			if at.step(verb); at.node == node {
				return usage("man: there is no verb %q", strings.Join(c.Verb, " "))
			}
			node = at.node
		}
		_, err := stdout.Write(manual.Page(node))
		return err
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	for _, node := range append([]*kong.Node{app.Node}, app.Leaves(true)...) {
		name := filepath.Join(c.Dir, manual.Name(node)+".1")
		if err := os.WriteFile(name, manual.Page(node), 0o644); err != nil {
			return err
		}
	}
	return nil
}
