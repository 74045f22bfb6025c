package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"reprise"
	"reprise/client"
	"reprise/internal/backoff"
	"reprise/internal/problem"
)

const (
	// cancelPatience is for how long a cancel is sent again until the server has answered it.
	cancelPatience = 60 * time.Second
	// cancelTry bounds one round of tries, so that the wait between two does not grow.
	cancelTry = 10 * time.Second
	// endPatience is how long we wait for the end of a command whose cancel was answered, in addition to the time of
	// grace, which is taken for at least minGrace.
	endPatience, minGrace = 30 * time.Second, 5 * time.Second
)

// canceller takes the Ctrl-C of a run to the server.
type canceller struct {
	server *client.Client
	id     string
	bridge *bridge
	out    io.Writer
	grace  time.Duration // of the request; 0 for the server's

	started   atomic.Bool // an event has come: the server knows the execution
	delivered atomic.Bool
}

// errNotStarted ends the following of a run that the server does not know.
var errNotStarted = errors.New("the command was not started")

// delivery is what a Ctrl-C asks of the server.
type delivery struct {
	what string // in a sentence
	next string // what another Ctrl-C does
	send func(ctx context.Context) error
	// cancels: the command ends once it was delivered.
	cancels bool
}

// interrupt is the first Ctrl-C: INT to the command, as if it ran in this terminal.
func (c *canceller) interrupt() delivery {
	return delivery{
		what: "the interrupt", next: "cancels the command with all its processes",
		send: func(ctx context.Context) error {
			err := c.server.Signal(ctx, c.id, "INT")
			switch {
			case errors.Is(err, reprise.ErrConflict): // it waits in the queue, where there is nothing to interrupt
				return c.server.Cancel(ctx, c.id)
			case errors.Is(err, reprise.ErrEnded):
				return nil
			}
			return err
		},
	}
}

// cancel is the second Ctrl-C, and TERM.
func (c *canceller) cancel() delivery {
	return delivery{
		what: "the cancel", next: "leaves at once, and the command may go on", cancels: true,
		send: func(ctx context.Context) error { return c.server.Cancel(ctx, c.id) },
	}
}

// attend takes each stage of asking us to stop to the server, and leaves at the last, or when TERM is repeated.
func (c *canceller) attend(stages []context.Context) (stop func()) {
	first, second, now := stages[0], stages[1], stages[2]
	stopFirst := context.AfterFunc(first, func() {
		_, asked := errors.AsType[*askedToStop](context.Cause(first))
		switch {
		case !asked:
		case isTERM(first):
			c.deliver(now, c.cancel())
		default:
			c.deliver(second, c.interrupt())
		}
	})
	stopSecond := context.AfterFunc(second, func() {
		if isTERM(first) && isTERM(second) {
			c.bridge.giveUp(context.Cause(second))
			return
		}
		c.deliver(now, c.cancel())
	})
	return func() {
		stopFirst()
		stopSecond()
	}
}

// isTERM reports whether TERM has ended the context of a stage.
func isTERM(stage context.Context) bool {
	asked, ok := errors.AsType[*askedToStop](context.Cause(stage))
	return ok && asked.signal == syscall.SIGTERM
}

// deliver asks the server until it has answered, cancelPatience is over or over ends.
func (c *canceller) deliver(over context.Context, d delivery) {
	ctx, done := context.WithTimeout(over, cancelPatience)
	defer done()
	patience := bridgePatience
	if c.bridge.down() {
		patience = 0
	}
	notice := time.AfterFunc(patience, func() {
		fmt.Fprintf(c.out, "reprise: %s has not reached %s yet; trying for %v. Ctrl-C again %s\n",
			d.what, c.server.URL(), cancelPatience, d.next)
	})
	err := c.ask(ctx, d.send)
	told := !notice.Stop()
	switch {
	case err == nil:
		if d.cancels && !c.delivered.Swap(true) {
			go c.leaveUnended(over)
		}
		if told {
			fmt.Fprintf(c.out, "reprise: %s was delivered; waiting for the end of the command\n", d.what)
		}
	case over.Err() != nil: // the next Ctrl-C has come
	case errors.Is(err, reprise.ErrNotFound) && !c.started.Load():
		c.bridge.giveUp(errNotStarted)
	case ctx.Err() != nil || undelivered(err):
		err := fmt.Errorf("%s has not reached %s within %v: %s", d.what, c.server.URL(), cancelPatience, c.advice())
		c.bridge.giveUp(&exit{code: exitOurs, err: err})
	default:
		fmt.Fprintln(c.out, "reprise:", err)
	}
}

// leaveUnended stops following a cancelled command that does not end.
func (c *canceller) leaveUnended(over context.Context) {
	within := max(c.grace, minGrace) + endPatience
	if backoff.Sleep(over, within) == nil {
		c.bridge.giveUp(&exit{code: exitOurs, err: fmt.Errorf("no end within %v: %s", within, c.advice())})
	}
}

// ask sends until the server answers.
func (c *canceller) ask(ctx context.Context, send func(context.Context) error) error {
	for {
		try, done := context.WithTimeout(ctx, cancelTry)
		err := send(try)
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
	return fmt.Errorf("%w; whether the command was started is not known: \"reprise follow %s\" shows it if so",
		err, c.id)
}

// unprinted is the error of a run whose output could not be written. The exit code for a closed pipe is the code of
// a program that SIGPIPE has ended.
func (c *canceller) unprinted(err error) error {
	code := exitOurs
	if errors.Is(err, syscall.EPIPE) {
		code = exitSignaled + int(syscall.SIGPIPE)
	}
	return &exit{code: code, err: fmt.Errorf("%w; %s", err, c.advice())}
}

// advice says what may still run and how to end it.
func (c *canceller) advice() string {
	if c.delivered.Load() {
		return fmt.Sprintf("the command was cancelled and is ending; see \"reprise show %s\"", c.id)
	}
	return fmt.Sprintf("the command may go on; \"reprise cancel %s\" ends it", c.id)
}
