package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"time"

	"reprise/internal/clienttest"
)

// checkClientCmd runs the suite for clients.
type checkClientCmd struct {
	Only  string `env:"-" placeholder:"REGEXP" help:"Only the cases whose names match."`
	Quick bool   `env:"-" help:"Cut at every 11th byte and 30 times in 2,000 events, instead of every byte and 300 times in 20,000."`
	JSON  bool   `env:"-" name:"json" help:"Print the results as JSON."`

	Patience time.Duration `env:"-" default:"3m" help:"How long a case waits for the end of a stream. A slow machine or client needs more."`

	Command []string `arg:"" passthrough:"" help:"Program that wraps the client, and its arguments."`
}

// Help is shown below the usage.
func (*checkClientCmd) Help() string {
	return `Tests a client, in any language, against the rules of docs/clients.md. It starts a server behind a proxy that injects network faults, and checks that the client gets every event of its streams exactly once and in order. COMMAND is a small program that uses the client: it reads commands from stdin and writes events to stdout, one line of JSON each. docs/clients.md describes both formats.

For example: reprise check-client -- python3 service.py`
}

// Run runs the suite.
func (c *checkClientCmd) Run(ctx context.Context, asked *stops) error {
	if c.Patience <= 0 {
		return usage("--patience: %v is no time to wait", c.Patience)
	}
	opts := &clienttest.Options{Command: c.Command, Quick: c.Quick, Patience: c.Patience}
	var err error
	if opts.Command, err = commandLine(c.Command); err != nil {
		return err
	}
	if len(opts.Command) == 0 {
		return usage("no command starts the client")
	}
	if opts.Only, err = regexp.Compile(c.Only); err != nil {
		return usage("--only: %w", err)
	}
	if opts.Program, err = os.Executable(); err != nil {
		return err
	}
	if !c.JSON {
		opts.Report = printResult
	}
	ctx, release := asked.context(ctx)
	defer release()
	report, err := clienttest.Run(ctx, opts)
	if err != nil {
		return err
	}
	if c.JSON {
		if err := json.NewEncoder(stdout).Encode(report); err != nil {
			return err
		}
	}
	if report.Failed() {
		return &exit{code: exitFailed}
	}
	if !c.JSON {
		fmt.Fprintf(stdout, "%s: all cases passed\n", report.Client)
	}
	return nil
}

// printResult prints a case as it ends.
func printResult(r clienttest.Result) {
	switch {
	case r.Skipped != "":
		fmt.Fprintf(stdout, "skip  %s: %s\n", r.Case, r.Skipped)
	case r.Err != nil:
		fmt.Fprintf(stdout, "FAIL  %s (rules %s): %d cuts, %d lost, %d doubled\n%v\n",
			r.Case, r.Rules, r.Cuts, r.Lost, r.Doubled, r.Err)
	default:
		fmt.Fprintf(stdout, "ok    %s: %d cuts, none lost, none doubled, %v\n",
			r.Case, r.Cuts, r.Took.Round(10*time.Millisecond))
	}
}
