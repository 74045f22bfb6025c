package main

import (
	"context"
	"errors"
	"fmt"

	"reprise"
	"reprise/client"
	"reprise/cmd/reprise/internal/detach"
)

// attachCmd brings the terminal of a command to ours.
type attachCmd struct {
	connect   `embed:""`
	bridging  `embed:""`
	detaching `embed:""`
	newest    `embed:""`

	ReadOnly bool `short:"r" env:"-" help:"Only watch: ignore typed keys, and keep the size."`

	ID string `arg:"" optional:"" help:"Id of an execution that was started with run --tty."`
}

// detaching is how to leave a command alone.
type detaching struct {
	DetachKeys string `default:"ctrl-p,ctrl-q" placeholder:"KEYS" help:"Keys that detach from the command, such as ctrl-],d; none for no keys. Default: ${default}."`
}

// Help is shown below the usage.
func (*attachCmd) Help() string {
	return `Shows the last screen of the command and sends all keys to it, including Ctrl-C, until the detach keys are typed or the command ends. When the command ends, its exit code is the exit code of attach. Any number of terminals may be attached, to type or to watch. The command sees the size of the terminal that attached or was resized last.

A lost connection is restored automatically. Input that is typed meanwhile is sent once when the connection is back.`
}

// Run attaches until the end, or until the detach keys.
func (c *attachCmd) Run(ctx context.Context, asked *stops) error {
	ctx, release := asked.context(ctx)
	defer release()
	return ours(c.attach(ctx))
}

func (c *attachCmd) attach(ctx context.Context) error {
	keys, err := detach.ParseKeys(c.DetachKeys)
	if err != nil {
		return usage("--detach-keys %w", err)
	}
	t := openTerminal()
	if t == nil {
		return usage("attach needs a terminal; \"reprise follow %s\" does not", c.ID)
	}
	server, err := c.clientWith(interactive)
	if err != nil {
		return err
	}
	x, err := server.Show(ctx, c.ID)
	switch {
	case err != nil:
		return err
	case x.TTY == nil:
		return usage("%s has no terminal; \"reprise follow %s\" shows its output, \"reprise input %s\" writes to its stdin",
			c.ID, c.ID, c.ID)
	}
	s, following := newSession(ctx, server, c.ID, t, keys, c.bridging)
	s.readOnly = c.ReadOnly
	err = s.hold(following, func(ctx context.Context) error { return s.attach(ctx, &x) })
	return s.outcome(ctx, err)
}

// attach shows the screen of an execution, and goes on from there.
func (s *session) attach(ctx context.Context, x *client.Execution) error {
	switch x.Status {
	case client.StatusQueued:
		return s.follow(ctx, s.after("earliest"))
	case client.StatusRunning:
		if err := s.begin(ctx); err != nil {
			return err
		}
		if s.readOnly {
			break
		}
		// A program that draws again for the new size may do so before the screen is asked for.
		err := s.server.Resize(ctx, s.id, s.terminal.size())
		switch {
		case err == nil, errors.Is(err, reprise.ErrEnded), errors.Is(err, reprise.ErrConflict), undelivered(err):
		default:
			return fmt.Errorf("%w; --read-only watches", err)
		}
	}
	cursor, err := s.showScreen(ctx)
	if err != nil {
		return err
	}
	return s.follow(ctx, s.after(cursor))
}
