package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"reprise"
	"reprise/client"
	"reprise/cmd/reprise/internal/detach"
	"reprise/internal/bytesize"
	"reprise/internal/tracecontext"
)

// runCmd runs a command on the server.
type runCmd struct {
	bridging  `embed:""`
	Detach    bool `short:"d" help:"Print the id and exit; \"reprise follow ID\" follows it."`
	Stdin     bool `short:"i" help:"Send our stdin to the command. Without it the command's stdin is empty."`
	TTY       bool `short:"t" name:"tty" xor:"shown" env:"-" help:"Run the command in a terminal, connected to ours if we have one: keys, size, Ctrl-C, job control. \"reprise attach ID\" shows it elsewhere."`
	detaching `embed:""`
	JSON      bool `name:"json" xor:"shown" help:"Print each event as a line of JSON, with its cursor, as \"follow --json\" does; with --detach, print the execution."`

	startFlags   `embed:"" group:"Command:"`
	nameFlags    `embed:"" group:"Names:"`
	confineFlags `embed:"" group:"Isolation and limits:"`
	retain       `embed:"" group:"Kept output:"`
	Hold         time.Duration `group:"Kept output:" default:"30s" placeholder:"DURATION" help:"Make the command wait while we are far behind, so that the server does not discard output before we have read it. The wait ends if we read nothing for this long; 0 disables it. Default: 30s."`

	connect `embed:""`

	Argv []string `arg:"" optional:"" passthrough:"" name:"command" help:"The command and its arguments, after \"--\"."`
}

// Help is shown below the usage.
func (*runCmd) Help() string {
	return `stdout, stderr and the exit code are the command's. A lost connection is restored silently; a line on stderr reports it if that takes longer than 2 seconds.

The first Ctrl-C sends INT to the command, as in a terminal; the command decides how to react. The second one, or TERM, cancels the command with all its processes. If the connection is lost, both are retried for a minute. The third one, or a second TERM, exits immediately; a command that is still running continues. After a cancel was answered, we exit at the latest 30 seconds after its time of grace.

With --tty at a terminal all keys go to the command, including Ctrl-C; the detach keys leave it running. A notice is shown while the connection is lost. Input that is typed then is sent once when the connection is back.

If output is lost because the server no longer keeps it, the exit code is 125, whatever the command's is. A command that has run before under the same --id or --key, and whose output has expired, does not run again: a line on stderr says so, and the exit code is the recorded one.`
}

// retain bounds the history of a stream that is created.
type retain struct {
	RetainEvents int64         `placeholder:"N" help:"Maximum number of kept events. Default: the server's."`
	RetainBytes  bytesize.Size `placeholder:"SIZE" help:"Maximum number of kept bytes, for example 64MiB. Default: the server's."`
	RetainAge    time.Duration `placeholder:"DURATION" help:"How long the output is kept after the end. Default: the server's."`
}

func (r *retain) retention() client.Retention {
	return client.Retention{
		MaxEvents: r.RetainEvents, MaxBytes: int64(r.RetainBytes),
		MaxAge: client.Duration(r.RetainAge),
	}
}

// Run runs the command and exits with its exit code.
func (c *runCmd) Run(ctx context.Context, asked *stops) error {
	request, err := c.request()
	if err != nil {
		return err
	}
	return c.start(ctx, asked, request)
}

// start starts a request, and follows it unless it is detached.
func (c *runCmd) start(ctx context.Context, asked *stops, request client.StartRequest) error {
	if c.Detach {
		ctx, release := asked.context(ctx)
		defer release()
		return c.detach(ctx, request)
	}
	if c.TTY {
		if t := openTerminal(); t != nil {
			return ours(c.atTerminal(ctx, asked, request, t))
		}
	}
	return ours(c.attach(ctx, asked, request))
}

// atTerminal runs the command in a terminal that is connected to this one.
func (c *runCmd) atTerminal(ctx context.Context, asked *stops, request client.StartRequest, t *terminal) error {
	keys, err := detach.ParseKeys(c.DetachKeys)
	if err != nil {
		return usage("--detach-keys %w", err)
	}
	stages, release := asked.stages(ctx, 3)
	defer release()
	server, err := c.clientWith(interactive)
	if err != nil {
		return err
	}
	now := stages[2]
	s, following := newSession(now, server, request.ID, t, keys, c.bridging)
	cancel := &canceller{
		server: server, id: request.ID, bridge: s.bridge, out: notices{t}, grace: time.Duration(request.Grace),
	}
	defer cancel.attend(stages)()
	err = s.hold(following, func(ctx context.Context) error {
		err := s.follow(ctx, func(ctx context.Context, opts *client.FollowOptions) iter.Seq2[client.Event, error] {
			return noting(&cancel.started, server.Run(ctx, request, opts))
		})
		return ranBefore(ctx, server, request.ID, err)
	})
	if err != nil && !errors.Is(err, errDetached) {
		err = cancel.left(err)
	}
	return s.outcome(ctx, err)
}

func (c *runCmd) detach(ctx context.Context, request client.StartRequest) error {
	server, err := c.client()
	if err != nil {
		return err
	}
	if c.Key != "" {
		execution, err := startKeyed(ctx, server, request)
		if err != nil {
			return ours(err)
		}
		return c.printStarted(execution)
	}
	execution, err := server.Start(ctx, request)
	if err != nil {
		return ours((&canceller{server: server, id: request.ID}).left(err))
	}
	return c.printStarted(execution)
}

func (c *runCmd) printStarted(x client.Execution) error {
	if x.Expired {
		tellRanBefore(&x)
	}
	var err error
	if c.JSON {
		err = printObject(x.Raw)
	} else {
		_, err = fmt.Fprintln(stdout, x.ID)
	}
	if err != nil {
		err = fmt.Errorf("%w; the command was started: \"reprise follow %s\" shows it, \"reprise cancel %s\" ends it",
			err, x.ID, x.ID)
	}
	return ours(err)
}

func (c *runCmd) attach(ctx context.Context, asked *stops, request client.StartRequest) error {
	stages, release := asked.stages(ctx, 3)
	defer release()
	server, err := c.client()
	if err != nil {
		return err
	}
	now := stages[2]
	bridge, following := c.newBridge(now, server.URL(), os.Stderr)
	events := server.Run(following, request, bridge.options(client.FollowOptions{}))
	if c.Key != "" {
		execution, err := startKeyed(stages[0], server, request)
		if err != nil {
			return err
		}
		if execution.Expired {
			tellRanBefore(&execution)
			return outcome(endOf(&execution))
		}
		request.ID = execution.ID
		events = server.Follow(following, request.ID, bridge.options(client.FollowOptions{}))
	}
	cancel := &canceller{
		server: server, id: request.ID, bridge: bridge, out: os.Stderr, grace: time.Duration(request.Grace),
	}
	defer cancel.attend(stages)()

	closed := make(chan os.Signal, 1) // a closed pipe then fails the write, and does not end the process
	signal.Notify(closed, syscall.SIGPIPE)
	defer signal.Stop(closed)
	var lost loss
	out := c.printer()
	for event, err := range events {
		if errors.Is(err, reprise.ErrExpired) && !cancel.started.Load() {
			return ranBefore(now, server, request.ID, err)
		}
		if err != nil {
			return cancel.left(err)
		}
		cancel.started.Store(true)
		lost.note(event)
		if err := out.print(event); err != nil {
			return cancel.unprinted(err)
		}
		if event.Started != nil && !server.OnThisMachine() && !c.JSON && isTerminal(os.Stderr) {
			fmt.Fprintf(os.Stderr, "reprise: %s\n", placeOf(event.Started, server.URL()))
		}
		switch {
		case event.End != nil:
			return lost.outcome(outcome(event.End), "; keep more with --retain-events and --retain-bytes")
		case event.Started != nil && c.Stdin:
			go sendStdin(now, server, request.ID)
		}
	}
	return &exit{code: exitOurs, err: errors.New("the command has ended, and its end was not received")}
}

func (c *runCmd) printer() printer {
	if c.JSON {
		return newObjects(stdout)
	}
	return &channels{stdout: stdout, stderr: os.Stderr}
}

// startKeyed starts a request with a key, and returns the execution that stands for the key.
func startKeyed(ctx context.Context, server *client.Client, request client.StartRequest) (client.Execution, error) {
	x, err := server.Start(ctx, request)
	if asked, ok := errors.AsType[*askedToStop](err); ok {
		return client.Execution{}, &exit{
			code: asked.code(),
			err: errors.New(
				"left before the start was answered: the command may run, and the same call attaches to it",
			),
		}
	}
	return x, err
}

// sendStdin sends stdin to the command until either ends.
func sendStdin(ctx context.Context, server *client.Client, id string) {
	w := server.StdinWriter(ctx, id, 0)
	_, err := io.Copy(w, os.Stdin)
	err = errors.Join(err, w.Close())
	if err != nil && !errors.Is(err, reprise.ErrEnded) && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "reprise: stdin:", err)
	}
}

// noting sets started at the first event.
func noting(started *atomic.Bool, events iter.Seq2[client.Event, error]) iter.Seq2[client.Event, error] {
	return func(yield func(client.Event, error) bool) {
		for event, err := range events {
			if err == nil {
				started.Store(true)
			}
			if !yield(event, err) {
				return
			}
		}
	}
}

// commandLine returns the command that the rest of a command line names, which the parser leaves as it is: also flags
// that the verb does not know.
func commandLine(rest []string) ([]string, error) {
	switch {
	case len(rest) > 0 && rest[0] == "--":
		return rest[1:], nil
	case len(rest) > 0 && strings.HasPrefix(rest[0], "-"):
		return nil, usage("unknown flag %s; a command that begins with a dash goes behind --", rest[0])
	}
	return rest, nil
}

// request returns the request to the server.
func (c *runCmd) request() (client.StartRequest, error) {
	argv, err := commandLine(c.Argv)
	if err != nil {
		return client.StartRequest{}, err
	}
	if len(argv) == 0 && c.Language == "" && c.Interpreter == "" {
		return client.StartRequest{}, usage("which command? For example: reprise run -- make test")
	}
	id := c.ID
	if id == "" && c.Key == "" {
		id = strings.ToLower(rand.Text())
	}
	trace := tracecontext.New(os.Getenv(tracecontext.ParentVariable), os.Getenv(tracecontext.StateVariable))
	request := client.StartRequest{
		ID: id, Key: c.Key, Session: c.Session, Labels: c.Label,
		Argv: argv, Cwd: c.Cwd, Env: environ(c.Env), StdinOpen: c.Stdin,
		Secrets: c.secretNames(), MaskSecrets: c.MaskSecrets,
		Timeout: client.Duration(c.Timeout), Grace: client.Duration(c.Grace), KillOnDisconnect: c.KillOnDisconnect,
		Language: c.Language, Interpreter: c.Interpreter, Limits: client.Limits(c.Limits), Artifacts: c.Artifact,
		Retention: c.retention(), Hold: client.Duration(c.Hold), Isolation: c.Isolation, User: c.User,
		Access:      client.Access{Network: c.Network, Writable: c.Writable, Readable: c.Readable, Hidden: c.Hide},
		TraceParent: trace.Parent, TraceState: trace.State,
	}
	if c.Language != "" || c.Interpreter != "" {
		var err error
		if request.Code, err = code(argv); err != nil {
			return client.StartRequest{}, err
		}
		request.Argv = nil
	}
	if c.TTY {
		c.askForTerminal(&request)
	}
	if c.Interpreter == "" {
		request.Cwd = c.directory(c.Cwd)
	}
	return request, nil
}

// askForTerminal requests a terminal like this one.
func (c *runCmd) askForTerminal(request *client.StartRequest) {
	request.TTY = &client.TTY{}
	t := openTerminal()
	if t == nil {
		return
	}
	*request.TTY = t.size()
	request.StdinOpen = true
	for _, name := range []string{"TERM", "COLORTERM"} {
		if value, ours := os.LookupEnv(name); ours && request.Env[name] == "" {
			request.Env[name] = value
		}
	}
}

// secretNames parses --secret: the names of secrets by variable.
func (c *runCmd) secretNames() map[string]string {
	names := map[string]string{}
	for _, text := range c.Secret {
		variable, name, given := strings.Cut(text, "=")
		if !given {
			name = variable
		}
		names[variable] = name
	}
	return names
}

// environ parses --env. A name without a value that is not set here is left out, as in env(1).
func environ(variables []string) map[string]string {
	env := map[string]string{}
	for _, variable := range variables {
		name, value, given := strings.Cut(variable, "=")
		if !given {
			if value, given = os.LookupEnv(name); !given {
				continue
			}
		}
		env[name] = value
	}
	return env
}
