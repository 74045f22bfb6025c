package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"reprise/client"
	"reprise/internal/bytesize"
)

// interpreterCmd starts, shows and ends interpreters that remember.
type interpreterCmd struct {
	Open      interpreterOpenCmd      `cmd:"" help:"Start an interpreter and print its id; \"reprise run --interpreter ID CODE\" runs code in it."`
	List      interpreterListCmd      `cmd:"" help:"List interpreters, the newest first."`
	Show      interpreterShowCmd      `cmd:"" help:"Show the state of an interpreter."`
	Interrupt interpreterInterruptCmd `cmd:"" help:"Interrupt the code that an interpreter runs, and keep the interpreter."`
	Clear     interpreterClearCmd     `cmd:"" help:"Delete all variables and definitions in an interpreter."`
	Remove    interpreterRemoveCmd    `cmd:"" aliases:"rm" help:"End and remove interpreters; the output of their code is kept."`
}

// Help is shown below the usage.
func (*interpreterCmd) Help() string {
	return `An interpreter keeps its directory, variables and definitions between runs and across restarts of the server. Each run is an execution, which "reprise follow", "logs" and "show" accept.

  id=$(reprise interpreter open python)
  reprise run --interpreter $id 'x = 41'
  reprise run --interpreter $id 'x + 1'`
}

type interpreterOpenCmd struct {
	connect `embed:""`

	ID          string            `placeholder:"ID" env:"-" help:"Id of the interpreter. Opening it again with the same id finds it."`
	Session     string            `placeholder:"ID" help:"Session that its runs belong to."`
	Label       map[string]string `mapsep:"none" placeholder:"KEY=VALUE" help:"Label to find it by. May be repeated."`
	Cwd         string            `placeholder:"DIR" help:"Working directory. Default: this one on your own server on this machine, else the server's own."`
	Env         []string          `short:"e" sep:"none" placeholder:"NAME[=VALUE]" help:"Variable for its code; without a value, the local one. May be repeated."`
	IdleTimeout time.Duration     `placeholder:"DURATION" help:"End it after this time without code. Default: the server's."`
	Timeout     time.Duration     `placeholder:"DURATION" help:"End it after this total time."`
	Isolation   string            `placeholder:"LEVEL" help:"Isolation: none, limits, landlock or bubblewrap. Default: the server's."`
	Limits      limits            `placeholder:"NAME=VALUE,..." help:"Resource limits, as with run."`

	Language string `arg:"" help:"bash, javascript or python."`
}

// Run starts it.
func (c *interpreterOpenCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		i, err := server.OpenInterpreter(ctx, client.InterpreterRequest{
			ID: c.ID, Session: c.Session, Language: c.Language, Labels: c.Label,
			Cwd: c.directory(c.Cwd), Env: environ(c.Env),
			IdleTimeout: client.Duration(c.IdleTimeout), Timeout: client.Duration(c.Timeout), Isolation: c.Isolation,
			Limits: client.Limits(c.Limits),
		})
		if err == nil {
			fmt.Fprintln(stdout, i.ID)
		}
		return err
	})
}

type interpreterListCmd struct {
	connect `embed:""`

	JSON bool `name:"json" help:"Print lines of JSON."`
}

// Run lists them.
func (c *interpreterListCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		list, err := server.Interpreters(ctx)
		return showAll(c.JSON, list, err, func(i client.Interpreter) (json.RawMessage, []string) {
			return i.Raw, []string{
				i.ID, i.Language, interpreterStatus(&i), interpreterRuns(&i), i.Running, moment(i.Created),
			}
		}, "ID", "LANGUAGE", "STATUS", "RUNS", "RUNNING", "CREATED")
	})
}

// oneInterpreter is the argument of verbs that are about one.
type oneInterpreter struct {
	connect `embed:""`

	ID string `arg:"" help:"Id of the interpreter."`
}

// interpreterStatus is how an interpreter is, or how it has ended.
func interpreterStatus(i *client.Interpreter) string { return cmp.Or(string(i.Outcome), i.Status) }

// interpreterRuns is how often an interpreter has run code, 0 once it has ended.
func interpreterRuns(i *client.Interpreter) string { return strconv.Itoa(*cmp.Or(i.Runs, new(int))) }

type interpreterShowCmd struct {
	oneInterpreter `embed:""`

	JSON bool `name:"json" help:"Print it as JSON."`
}

// Run shows it.
func (c *interpreterShowCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		i, err := server.Interpreter(ctx, c.ID)
		if err != nil {
			return err
		}
		return printRows(c.JSON, i.Raw, [][2]string{
			{"id", i.ID},
			{"language", i.Language},
			{"status", interpreterStatus(&i)},
			{"error", i.Error},
			{"directory", i.Cwd},
			{"session", i.Session},
			{"labels", labelText(i.Labels)},
			{"created", moment(i.Created)},
			{"ended", moment(i.Ended)},
			{"running", i.Running},
			{"runs", interpreterRuns(&i)},
			{"used", moment(i.Used)},
		})
	})
}

type interpreterInterruptCmd struct {
	oneInterpreter `embed:""`
}

// Run interrupts what it runs.
func (c *interpreterInterruptCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		return server.InterruptInterpreter(ctx, c.ID)
	})
}

type interpreterClearCmd struct {
	oneInterpreter `embed:""`
}

// Run clears it, and waits until that is done.
func (c *interpreterClearCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		for event, err := range server.Run(ctx, client.StartRequest{Interpreter: c.ID, Clear: true}, nil) {
			if err != nil {
				return err
			}
			if event.End != nil {
				return outcome(event.End)
			}
		}
		return errors.New("the end was not received")
	})
}

type interpreterRemoveCmd struct {
	connect `embed:""`

	IDs []string `arg:"" name:"id" help:"Ids of interpreters."`
}

// Run ends them.
func (c *interpreterRemoveCmd) Run(ctx context.Context, asked *stops) error {
	return c.with(ctx, asked, func(ctx context.Context, server *client.Client) error {
		return each(c.IDs, func(id string) error { return server.RemoveInterpreter(ctx, id) })
	})
}

// code is what run is given for --interpreter and --language: its one argument, or stdin.
func code(argv []string) (string, error) {
	switch {
	case len(argv) > 1:
		return "", usage("the code is one argument; put it in quotes")
	case len(argv) == 1 && argv[0] != "-":
		return argv[0], nil
	}
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return "", fmt.Errorf("stdin: %w", err)
	}
	return string(text), nil
}

// limits are client.Limits as a flag: "memory_bytes=512MiB,processes=64".
type limits client.Limits

// UnmarshalText reads a list of NAME=VALUE.
func (l *limits) UnmarshalText(text []byte) error {
	for item := range strings.SplitSeq(string(text), ",") {
		name, value, _ := strings.Cut(item, "=")
		var bytes bytesize.Size
		var err error
		switch name {
		case "output_bytes":
			err = bytes.UnmarshalText([]byte(value))
			l.OutputBytes = int64(bytes)
		case "memory_bytes":
			err = bytes.UnmarshalText([]byte(value))
			l.MemoryBytes = int64(bytes)
		case "processes":
			l.Processes, err = strconv.ParseInt(value, 10, 64)
		case "cpu_time":
			err = l.CPUTime.UnmarshalText([]byte(value))
		default:
			return fmt.Errorf("%q is not one of output_bytes, memory_bytes, processes and cpu_time", name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// printSaid prints what code in an interpreter says besides its output: values as text to stdout, why it failed to
// stderr.
func (c *channels) printSaid(e client.Event) (err error) {
	switch e.Type {
	case "result", "display":
		var r client.Result
		if json.Unmarshal(e.Data, &r) == nil && r.MIME["text/plain"] != nil {
			_, err = fmt.Fprintln(c.stdout, r.MIME["text/plain"])
		}
	case "exception":
		var x client.Exception
		if json.Unmarshal(e.Data, &x) == nil {
			_, err = fmt.Fprintln(c.stderr, strings.Join(x.Traceback, "\n"))
		}
	}
	return err
}
