package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"reprise/mcp/mcphttp/resumetest"
)

// checkMCPCmd runs the resumption suite against an MCP server.
type checkMCPCmd struct {
	URL string `arg:"" help:"The MCP endpoint, for example http://127.0.0.1:8080/mcp."`

	Header    []string      `env:"-" short:"H" sep:"none" placeholder:"NAME:VALUE" help:"Header of each request, such as 'Authorization: Bearer x'. May be repeated."`
	Tool      string        `env:"-" default:"count" placeholder:"NAME" help:"Tool that counts. Default: ${default}."`
	Arguments string        `env:"-" default:"{\"steps\":STEPS,\"delay_ms\":MS}" placeholder:"JSON" help:"Its arguments, in which STEPS, MS and SECONDS stand for the number of steps, the pause after each in milliseconds, and all pauses together in seconds. Default: ${default}"`
	Only      string        `env:"-" placeholder:"REGEXP" help:"Only the cases whose names match."`
	Versions  []string      `env:"-" name:"protocol" placeholder:"VERSION" help:"Protocol version to check. May be repeated. Default: 2025-03-26, 2025-06-18 and 2025-11-25."`
	Patience  time.Duration `env:"-" default:"10s" help:"How long to wait for an expected message. Default: ${default}."`
	JSON      bool          `env:"-" name:"json" help:"Print the results as JSON."`

	Kept       int      `env:"-" placeholder:"N" help:"Maximum number of messages of a call that the server keeps."`
	Other      []string `env:"-" sep:"none" placeholder:"NAME:VALUE" help:"Header of another principal, in place of --header. May be repeated."`
	Replica    string   `env:"-" placeholder:"URL" help:"Another replica of the server."`
	RestartCmd string   `env:"-" placeholder:"COMMAND" help:"Shell command that kills the server and starts it again; the suite waits until the server answers."`
	FaultOn    string   `env:"-" placeholder:"COMMAND" help:"Shell command that makes the store of the server fail."`
	FaultOff   string   `env:"-" placeholder:"COMMAND" help:"Shell command that makes the store work again."`
}

// Help is shown below the usage.
func (*checkMCPCmd) Help() string {
	return `Tests the guarantees of an MCP server over Streamable HTTP for clients that lose their connection. It breaks connections during calls, reconnects with Last-Event-ID, and compares the received messages. The server needs an event store and a tool that reports progress 1, 2, 3, ... with a pause after each, and then returns a result.

Each case is "passed", "failed", "not run" (it needs a flag such as --replica or --restart-cmd) or "not applicable" (it belongs to another version, or tests something optional). The report names its rule and the source of the rule: the specification or, if that does not cover the case, the principle that a client gets an error for every missed message. docs/internals/mcp.md has the results of known servers.

For example: reprise check-mcp --tool trigger-long-running-operation --arguments '{"steps":STEPS,"duration":SECONDS}' http://127.0.0.1:3001/mcp`
}

// mcpReport is the result of check-mcp as JSON.
type mcpReport struct {
	URL     string                     `json:"url"`
	Server  resumetest.Server          `json:"server"`
	Counts  map[resumetest.Outcome]int `json:"counts"`
	Results []resumetest.Result        `json:"results"`
}

// Run runs the suite.
func (c *checkMCPCmd) Run(ctx context.Context, asked *stops) error {
	target, err := c.target()
	if err != nil {
		return err
	}
	ctx, release := asked.context(ctx)
	defer release()
	report := &mcpReport{URL: c.URL, Counts: map[resumetest.Outcome]int{}}
	if report.Server, err = resumetest.Probe(ctx, target); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("check-mcp: %w", err)
	}
	report.Results = resumetest.Check(ctx, target, func(r resumetest.Result) {
		report.Counts[r.Outcome]++
		if !c.JSON && ctx.Err() == nil {
			printCase(r)
		}
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(report.Results) == 0 {
		return usage("--only %s: no case has such a name", c.Only)
	}
	if c.JSON {
		err = json.NewEncoder(stdout).Encode(report)
	} else {
		n := report.Counts
		_, err = fmt.Fprintf(stdout, "%s %s: %d passed, %d failed, %d not run, %d not applicable\n",
			report.Server.Name, report.Server.Version, n[resumetest.Passed], n[resumetest.Failed],
			n[resumetest.NotRun], n[resumetest.NotApplicable])
	}
	if err == nil && report.Counts[resumetest.Failed] > 0 {
		return &exit{code: exitFailed}
	}
	return err
}

// printCase prints a case as it ends.
func printCase(r resumetest.Result) {
	switch r.Outcome {
	case resumetest.Passed:
		fmt.Fprintf(stdout, "passed          %s  %s\n", r.Version, r.Case)
	case resumetest.Failed:
		fmt.Fprintf(stdout, "FAILED          %s  %s: %s\n  rule: %s\n  source: %s\n",
			r.Version, r.Case, r.Detail, r.Rule, r.Source)
	default:
		fmt.Fprintf(stdout, "%-14s  %s  %s: %s\n", r.Outcome, r.Version, r.Case, r.Detail)
	}
}

// target checks the flags and makes a target of them.
func (c *checkMCPCmd) target() (t resumetest.Target, err error) {
	t = resumetest.Target{URL: c.URL, Versions: c.Versions, Kept: c.Kept, Replica: c.Replica, Patience: c.Patience}
	for _, text := range []string{c.URL, cmp.Or(c.Replica, c.URL)} {
		if err := checkHTTP(text, "http://127.0.0.1:8080/mcp"); err != nil {
			return t, err
		}
	}
	if t.Only, err = regexp.Compile(c.Only); err != nil {
		return t, usage("--only: %w", err)
	}
	for _, v := range c.Versions {
		if !slices.Contains(resumetest.Versions, v) {
			return t, usage("--protocol %s: not one of %s", v, strings.Join(resumetest.Versions, ", "))
		}
	}
	if t.Header, err = headers("--header", c.Header); err != nil {
		return t, err
	}
	if len(c.Other) > 0 {
		if t.Other, err = headers("--other", c.Other); err != nil {
			return t, err
		}
	}
	if t.Tool, err = c.tool(); err != nil {
		return t, err
	}
	t.Restart = restarting(c.RestartCmd, c.URL, c.Patience)
	if (c.FaultOn == "") != (c.FaultOff == "") {
		return t, usage("--fault-on and --fault-off go together")
	}
	if c.FaultOn != "" {
		t.Fault = func(ctx context.Context, fails bool) error {
			if fails {
				return shell(ctx, c.FaultOn)
			}
			return shell(ctx, c.FaultOff)
		}
	}
	return t, nil
}

func (c *checkMCPCmd) tool() (resumetest.Tool, error) {
	fill := func(steps int, pause time.Duration) (m map[string]any, err error) {
		all := time.Duration(steps) * pause
		text := strings.NewReplacer("STEPS", fmt.Sprint(steps), "MS", fmt.Sprint(pause.Milliseconds()),
			"SECONDS", fmt.Sprint(all.Seconds())).Replace(c.Arguments)
		return m, json.Unmarshal([]byte(text), &m)
	}
	if _, err := fill(1, 0); err != nil {
		return resumetest.Tool{}, usage("--arguments %s: %w", c.Arguments, err)
	}
	return resumetest.Tool{Name: c.Tool, Arguments: func(steps int, pause time.Duration) map[string]any {
		m, _ := fill(steps, pause) // tried above
		return m
	}}, nil
}

// headers makes a header of lines of the form NAME: VALUE.
func headers(flag string, lines []string) (http.Header, error) {
	h := http.Header{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name == "" { // the line may be a secret
			return nil, usage("%s: the line has no colon behind a name", flag)
		}
		h.Add(name, strings.TrimSpace(value))
	}
	return h, nil
}

// checkHTTP checks the URL of what is to be tested.
func checkHTTP(text, example string) error {
	if u, err := url.Parse(text); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return usage("%q is not the URL of a server, such as %s", text, example)
	}
	return nil
}

// restarting returns a function that restarts a server and waits until it answers anything, nil for no command.
func restarting(command, url string, patience time.Duration) func(context.Context) error {
	if command == "" {
		return nil
	}
	return func(ctx context.Context) error {
		if err := shell(ctx, command); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		for {
			req, err := http.NewRequestWithContext(ctx, http.MethodOptions, url, nil)
			if err != nil {
				return err
			}
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				return resp.Body.Close()
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("the server does not come back: %w", err)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

func shell(ctx context.Context, command string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}
