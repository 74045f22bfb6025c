package main

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"reprise/internal/facecheck"
)

// checkFaceCmd tests a server that speaks the protocol of another system.
type checkFaceCmd struct {
	Face string `arg:"" enum:"durable,e2b,execd" help:"The protocol: durable, e2b or execd."`
	URL  string `arg:"" help:"What the paths of the protocol are put behind, for example http://127.0.0.1:7070/execd."`

	Header     []string      `env:"-" short:"H" sep:"none" placeholder:"NAME:VALUE" help:"Header of each request, such as 'X-EXECD-ACCESS-TOKEN: x'. May be repeated."`
	Only       string        `env:"-" placeholder:"REGEXP" help:"Only the cases whose names match."`
	Patience   time.Duration `env:"-" default:"30s" help:"How long a case may take. Default: ${default}."`
	JSON       bool          `env:"-" name:"json" help:"Print the results as JSON."`
	RestartCmd string        `env:"-" placeholder:"COMMAND" help:"Shell command that kills the server and starts it again; the test waits until the server answers."`
}

// Help is shown below the usage.
func (*checkFaceCmd) Help() string {
	return `Tests a server that speaks the protocol of E2B (e2b), OpenSandbox (execd) or Durable Streams (durable), by HTTP alone: whether a client that is cut gets everything once, and whether anything that was lost is answered with success. The server may be one of ours (serve --face) or any other. Commands that it runs print and sleep; streams that it makes are removed.

Each case is "passed", "failed", or "not run" because it needs --restart-cmd. docs/faces has the page of each protocol.

For example: reprise check-face execd -H "X-EXECD-ACCESS-TOKEN: $(cat ~/.local/state/reprise/token)" http://127.0.0.1:7070/execd`
}

// Run runs the cases.
func (c *checkFaceCmd) Run(ctx context.Context, asked *stops) error {
	target, err := c.target()
	if err != nil {
		return err
	}
	ctx, release := asked.context(ctx)
	defer release()
	report := facecheck.Check(ctx, target)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case len(report.Results) == 0:
		return usage("--only %s: no case has such a name", c.Only)
	case c.JSON:
		err = json.NewEncoder(stdout).Encode(report)
	}
	if err == nil && report.Counts[facecheck.Failed] > 0 {
		return &exit{code: exitFailed}
	}
	return err
}

// target checks the flags and makes a target of them.
func (c *checkFaceCmd) target() (*facecheck.Target, error) {
	t := &facecheck.Target{Face: c.Face, URL: strings.TrimRight(c.URL, "/"), Patience: c.Patience}
	if err := checkHTTP(c.URL, "http://127.0.0.1:7070/execd"); err != nil {
		return nil, err
	}
	if c.Patience <= 0 {
		return nil, usage("--patience: %v is no time to wait", c.Patience)
	}
	var err error
	if t.Only, err = regexp.Compile(c.Only); err != nil {
		return nil, usage("--only: %w", err)
	}
	if t.Header, err = headers("--header", c.Header); err != nil {
		return nil, err
	}
	if !c.JSON {
		t.Out = stdout
	}
	t.Restart = restarting(c.RestartCmd, c.URL, c.Patience)
	return t, nil
}
