package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/backoff"
)

// watchCmd runs a command for each event.
type watchCmd struct {
	connect  `embed:""`
	bridging `embed:""`

	Exec       string   `required:"" placeholder:"COMMAND" help:"Command to run for each event, by sh -c."`
	Prefix     string   `placeholder:"TEXT" help:"Watch all streams whose names begin with this prefix, including new ones, instead of NAME."`
	Stream     bool     `short:"s" env:"-" help:"NAME is a stream, not the id of an execution. This is assumed if there is no such execution."`
	After      string   `placeholder:"CURSOR" help:"Begin after this position: a cursor, earliest, or tail (new events only). Default: the start."`
	Types      []string `placeholder:"TYPE,..." help:"Only events of these types, and the end."`
	CursorFile string   `placeholder:"FILE" help:"Save the position in this file, and begin at the saved one. Without it each start begins at the beginning."`
	Tries      int      `default:"3" placeholder:"N" help:"How often the command is tried for an event. Default: ${default}."`
	SkipFailed bool     `help:"Continue after an event for which every try has failed. Default: stop there."`
	Data       bool     `env:"-" help:"Pass only the data of the event to the command's stdin, as follow shows it. Default: the event as a line of JSON."`

	Name string `arg:"" optional:"" help:"Name of the stream or id of the execution."`
}

// Help is shown below the usage.
func (*watchCmd) Help() string {
	return `Commands run one at a time, in the order of the events of a stream. The position is saved when the command exits with 0, so each event is handled at least once: after a kill, the last event may be passed again, with the same EVENT_ID. The command gets EVENT_ID, EVENT_STREAM, EVENT_SEQ, EVENT_TYPE, EVENT_TIME and EVENT_CURSOR in its environment. Events that the server no longer keeps are passed as one event of the type gap.

At INT or TERM, watch waits until the running command has handled its event, and exits. A second signal kills the command, and the next watch passes its event again. The exit code is 0 at the end of the stream, the command's if its last try failed, and 125 if reprise failed.`
}

// Run watches.
func (c *watchCmd) Run(ctx context.Context, asked *stops) error {
	please, now, release := asked.watch(ctx)
	defer release()
	switch {
	case (c.Name == "") == (c.Prefix == ""):
		return usage("watch: either NAME or --prefix is needed")
	case c.Tries < 1:
		return usage("--tries %d: at least 1", c.Tries)
	}
	server, err := c.client()
	if err != nil {
		return err
	}
	bridge, please := c.newBridge(please, server.URL(), os.Stderr)
	w := &watching{watchCmd: c, server: server, bridge: bridge, please: please, now: now}
	if c.Prefix != "" {
		err = w.prefix()
	} else {
		err = w.one()
	}
	if err == nil && please.Err() != nil {
		err = context.Cause(please)
	}
	return ours(err)
}

// watching is a watch that is under way.
type watching struct {
	*watchCmd
	server      *client.Client
	bridge      *bridge
	please, now context.Context // done when we are to stop, and to kill what runs
}

// one watches one stream or execution.
func (w *watching) one() error {
	file := client.FileCursor(w.CursorFile)
	opts := w.bridge.options(client.FollowOptions{After: w.After, Types: w.Types})
	if w.CursorFile != "" {
		cursor, err := file.Load(w.please)
		if err != nil {
			return err
		}
		if cursor != "" {
			opts.After = cursor
		}
	}
	w.Stream = w.Stream || isStreamName(w.Name)
	follow := w.server.Follow
	if w.Stream {
		follow = w.server.FollowStream
	}
	for event, err := range follow(w.please, w.Name, opts) {
		if !w.Stream && isStreamAlone(w.please, w.server, w.Name, err) {
			w.Stream = true
			return w.one()
		}
		if err == nil {
			err = w.handle(w.Name, &event)
		}
		if err == nil && w.CursorFile != "" {
			err = file.Save(context.WithoutCancel(w.please), event.Cursor)
		}
		if err == nil {
			err = context.Cause(w.please)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// handle runs the command for an event until it succeeds.
func (w *watching) handle(name string, event *client.Event) error {
	wait := backoff.Backoff{First: time.Second, Most: 30 * time.Second}
	for try := 1; ; try++ {
		err := w.exec(name, event)
		switch failed, exited := errors.AsType[*exec.ExitError](err); {
		case err == nil:
			return nil
		case w.now.Err() != nil:
			return context.Cause(w.now)
		case !exited:
			return fmt.Errorf("--exec: %w", err)
		case try < w.Tries:
			fmt.Fprintf(os.Stderr, "reprise: event %d of %s: %v, try %d of %d\n", event.Seq, name, failed, try, w.Tries)
		case w.SkipFailed:
			fmt.Fprintf(os.Stderr, "reprise: event %d of %s is skipped: %v\n", event.Seq, name, failed)
			return nil
		default:
			err = fmt.Errorf("event %d of %s: %w", event.Seq, name, failed)
			return &exit{code: max(failed.ExitCode(), exitFailed), err: err}
		}
		if err := wait.Wait(w.please); err != nil {
			return err
		}
	}
}

// exec runs the command once.
func (w *watching) exec(name string, event *client.Event) error {
	var input bytes.Buffer
	out := printer(&objects{stdout: &input})
	if w.Data {
		out = &lines{stdout: &input, stderr: io.Discard}
	}
	if err := out.print(*event); err != nil {
		return err
	}
	shell, flag := "sh", "-c"
	if runtime.GOOS == "windows" {
		shell, flag = "cmd", "/C"
	}
	command := exec.CommandContext(w.now, shell, flag, w.Exec)
	command.Stdin, command.Stdout, command.Stderr = &input, os.Stdout, os.Stderr
	command.Env = append(os.Environ(),
		"EVENT_ID="+eventID(name, event), "EVENT_STREAM="+name, "EVENT_SEQ="+strconv.FormatUint(event.Seq, 10),
		"EVENT_TYPE="+event.Type, "EVENT_CURSOR="+event.Cursor, "EVENT_TIME="+event.Time.UTC().Format(time.RFC3339Nano))
	leadGroup(command) // so that Ctrl-C at the terminal is for us alone
	command.WaitDelay = time.Second
	return command.Run()
}

// eventID is the same for an event whenever it comes: its stream, epoch and seq, without the tag of the cursor,
// which changes with the keys of the server.
func eventID(name string, event *client.Event) string {
	cursor, err := reprise.ParseCursor(event.Cursor)
	if err != nil {
		return name + "/" + event.Cursor
	}
	return strings.Join([]string{name, string(cursor.Epoch), strconv.FormatUint(cursor.Seq, 10)}, "/")
}
