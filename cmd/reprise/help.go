package main

import (
	"fmt"

	"github.com/alecthomas/kong"
)

// helpCmd shows how a verb is used.
type helpCmd struct {
	Verb []string `arg:"" optional:"" help:"The verb. Default: all of them."`
}

// Run shows it.
func (c *helpCmd) Run() error {
	if code := Main(append(c.Verb, "--help")); code != 0 {
		return &exit{code: code}
	}
	return nil
}

// versionFlag prints the version in place of running a verb.
type versionFlag bool

// BeforeReset is called by the parser when the flag is there.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	if _, err := fmt.Fprintln(app.Stdout, thisBuild().text()); err != nil {
		return err
	}
	app.Exit(0)
	return nil
}
