package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/problem"
)

const (
	// cancelPatience is for how long a cancel is sent again until the server has answered it.
	cancelPatience = 60 * time.Second
	// cancelTry bounds one round of tries, so that the wait between two does not grow.
	cancelTry = 10 * time.Second
)

// canceller takes the first Ctrl-C of a run to the server.
type canceller struct {
	server *client.Client
	id     string
	bridge *bridge
	out    io.Writer

	started   atomic.Bool // an event has come: the server knows the execution
	delivered atomic.Bool
}

// errNotStarted ends the following of a run that the server does not know.
var errNotStarted = errors.New("the command was not started")

// deliver asks the server to cancel until it has answered, cancelPatience is over or now ends.
func (c *canceller) deliver(now context.Context) {
	ctx, done := context.WithTimeout(now, cancelPatience)
	defer done()
	patience := bridgePatience
	if c.bridge.down() {
		patience = 0
	}
	notice := time.AfterFunc(patience, func() {
		fmt.Fprintf(c.out, "reprise: the cancel has not reached %s yet; trying for %v. "+
			"Ctrl-C again leaves at once, and the command may go on\n", c.server.URL(), cancelPatience)
	})
	err := c.ask(ctx)
	told := !notice.Stop()
	switch {
	case err == nil:
		c.delivered.Store(true)
		if told {
			fmt.Fprintln(c.out, "reprise: the cancel was delivered; waiting for the end of the command")
		}
	case now.Err() != nil: // left: attach says so
	case errors.Is(err, reprise.ErrNotFound) && !c.started.Load():
		c.bridge.giveUp(errNotStarted)
	case ctx.Err() != nil || undelivered(err):
		err := fmt.Errorf("no cancel has reached %s within %v: %s", c.server.URL(), cancelPatience, c.advice())
		c.bridge.giveUp(&exit{code: exitOurs, err: err})
	default:
		fmt.Fprintln(c.out, "reprise:", err)
	}
}

// ask sends the cancel until the server answers.
func (c *canceller) ask(ctx context.Context) error {
	for {
		try, done := context.WithTimeout(ctx, cancelTry)
		err := c.server.Cancel(try, c.id)
		again := try.Err() != nil || err != nil && undelivered(err)
		done()
		if err == nil || ctx.Err() != nil || !again {
			return err
		}
	}
}

// undelivered reports whether err leaves open that another try reaches the server.
func undelivered(err error) bool {
	p, ok := problem.As(err)
	return client.Retryable(err) || ok && p.Code == ""
}

// left is the error of a run that ended with err. Where the command may still run it says so, and how to go on.
func (c *canceller) left(err error) error {
	if asked, ok := errors.AsType[*askedToStop](err); ok {
		return &exit{code: asked.code(), err: errors.New("left before the end: " + c.advice())}
	}
	if !errors.Is(err, errNotStarted) {
		return c.lost(err)
	}
	// The start may have been under way when the server did not know it.
	ctx, done := context.WithTimeout(context.Background(), bridgePatience)
	defer done()
	switch err := c.server.Cancel(ctx, c.id); {
	case err == nil:
		return &exit{code: exitCancelled, err: errors.New("the command was cancelled")}
	case errors.Is(err, reprise.ErrNotFound):
		return &exit{code: exitCancelled, err: errNotStarted}
	}
	return &exit{code: exitOurs, err: errors.New("left before the start: " + c.advice())}
}

// lost is the error of a run whose following has failed with err. The server has refused a run that it does not know.
func (c *canceller) lost(err error) error {
	p, _ := problem.As(err)
	dial, _ := errors.AsType[*net.OpError](err)
	_, decided := errors.AsType[*exit](err)
	switch {
	case decided, !c.started.Load() && (p.Code != "" || dial != nil && dial.Op == "dial"):
		return err
	case c.started.Load():
		return fmt.Errorf("%w; the command may go on: \"reprise follow %s\" shows the rest, \"reprise cancel %s\" ends it",
			err, c.id, c.id)
	}
	return fmt.Errorf("%w; whether the command was started is not known: \"reprise follow %s\" shows it if so", err, c.id)
}

// advice says what may still run and how to end it.
func (c *canceller) advice() string {
	if c.delivered.Load() {
		return fmt.Sprintf("the command was cancelled and is ending; \"reprise show %s\" tells", c.id)
	}
	return fmt.Sprintf("the command may go on; \"reprise cancel %s\" ends it", c.id)
}
