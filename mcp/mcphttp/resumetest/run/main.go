// Command run checks what a client of an MCP server can rely on when it loses its connection, and prints a table.
//
//	go run reprise/mcp/mcphttp/resumetest/run http://127.0.0.1:8080/mcp
//
// The server needs a tool that counts; see resumetest.Tool. It exits with 1 if a case has failed, and with 2 if it
// could not begin.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"reprise/mcp/mcphttp/resumetest"
)

type flags struct {
	URL        string        `arg:"" help:"The MCP endpoint."`
	Tool       string        `default:"count" help:"The tool that counts: it sends progress 1, 2, 3, ... with a pause after each, then a result."`
	Arguments  string        `default:"{\"steps\":STEPS,\"delay_ms\":MS}" help:"Its arguments as JSON, in which STEPS and MS stand for the number of steps and the pause in milliseconds."`
	Header     []string      `short:"H" sep:"none" help:"A header of each request, such as 'Authorization: Bearer x'."`
	Other      []string      `sep:"none" help:"Headers of another principal in place of those of --header."`
	Version    []string      `help:"Protocol versions to check. Default: 2025-03-26, 2025-06-18 and 2025-11-25."`
	Kept       int           `help:"How many messages of a call the server keeps at most."`
	Replica    string        `help:"The URL of another replica."`
	RestartCmd string        `help:"A shell command that kills the server and starts it again; the server is asked until it answers."`
	FaultOn    string        `help:"A shell command that makes the store fail."`
	FaultOff   string        `help:"A shell command that makes it work again."`
	Patience   time.Duration `default:"10s" help:"How long something may take that must come."`
}

func main() {
	var f flags
	kong.Parse(&f, kong.Description("Checks what a client of an MCP server can rely on when it loses its connection."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	target, err := f.target()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	failed := false
	results := resumetest.Check(ctx, target, func(r resumetest.Result) {
		failed = failed || r.Outcome == resumetest.Failed
		fmt.Fprintf(os.Stderr, "%-8s %s  %s", r.Outcome, r.Version, r.Case)
		if r.Detail != "" {
			fmt.Fprintf(os.Stderr, ": %s", r.Detail)
		}
		fmt.Fprintln(os.Stderr)
	})
	if err := resumetest.WriteTable(os.Stdout, []resumetest.Column{{Name: f.URL, Results: results}}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

func (f *flags) target() (t resumetest.Target, err error) {
	t = resumetest.Target{URL: f.URL, Versions: f.Version, Kept: f.Kept, Replica: f.Replica, Patience: f.Patience}
	if t.Header, err = headers(f.Header); err != nil {
		return t, err
	}
	if len(f.Other) > 0 {
		if t.Other, err = headers(f.Other); err != nil {
			return t, err
		}
	}
	t.Tool.Name = f.Tool
	if _, err := arguments(f.Arguments, 1, 0); err != nil {
		return t, err
	}
	t.Tool.Arguments = func(steps int, pause time.Duration) map[string]any {
		m, _ := arguments(f.Arguments, steps, pause) // it was tried before
		return m
	}
	if f.RestartCmd != "" {
		t.Restart = func(ctx context.Context) error { return f.restart(ctx) }
	}
	if f.FaultOn != "" && f.FaultOff != "" {
		t.Fault = func(ctx context.Context, fails bool) error {
			if fails {
				return shell(ctx, f.FaultOn)
			}
			return shell(ctx, f.FaultOff)
		}
	}
	return t, nil
}

func arguments(text string, steps int, pause time.Duration) (m map[string]any, err error) {
	text = strings.NewReplacer("STEPS", fmt.Sprint(steps), "MS", fmt.Sprint(pause.Milliseconds())).Replace(text)
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return nil, fmt.Errorf("arguments %s: %w", text, err)
	}
	return m, nil
}

func headers(lines []string) (http.Header, error) {
	h := http.Header{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("header %q has no colon", line)
		}
		h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return h, nil
}

// restart restarts the server and waits until it answers anything.
func (f *flags) restart(ctx context.Context) error {
	if err := shell(ctx, f.RestartCmd); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.Patience)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodOptions, f.URL, nil)
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

func shell(ctx context.Context, command string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}
