package supervisor

import (
	"context"
	"fmt"
	"time"

	"reprise"
	"reprise/internal/execution/command"
)

// Remote is a supervisor as its server knows it.
type Remote struct{ Dir, Secret string }

// callPatience limits the time of a supervisor's answer, in addition to the time that it waits for other events.
const callPatience = 5 * time.Second

// Control asks something of the command. The error is reprise.ErrUnavailable if the supervisor does not answer.
func (m *Remote) Control(ctx context.Context, c *command.Control) (*command.Taken, error) {
	answer, err := m.call(ctx, call{Control: *c})
	return Answered(c, answer.Stdin, err)
}

// Status returns the progress. It returns the same errors as Control.
func (m *Remote) Status(ctx context.Context) (*News, error) {
	answer, err := m.call(ctx, callOf(callStatus))
	if err == nil && answer.News == nil {
		err = fmt.Errorf("%w: the supervisor of the command does not say how far it is", reprise.ErrUnavailable)
	}
	return answer.News, err
}

// call asks once.
func (m *Remote) call(ctx context.Context, c call) (answer replied, err error) {
	ctx, cancel := context.WithTimeout(ctx, command.PiecePatience+callPatience)
	defer cancel()
	conn, err := Dial(ctx, m.Dir, m.Secret)
	if err == nil {
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		err = conn.Send(c)
	}
	if err == nil {
		err = conn.Receive(&answer)
	}
	switch {
	case err != nil && conn != nil && ctx.Err() != nil:
		return replied{}, context.Cause(ctx)
	case err != nil:
		return replied{}, fmt.Errorf("%w: the supervisor of the command: %w", reprise.ErrUnavailable, err)
	case answer.Refused != nil:
		return answer, *answer.Refused
	}
	return answer, nil
}

// Follow connects to the supervisor for its news.
func (m *Remote) Follow(ctx context.Context) (*Link, error) {
	conn, err := Dial(ctx, m.Dir, m.Secret)
	if err != nil {
		return nil, err
	}
	if err := conn.Send(callOf(callFollow)); err != nil {
		_ = conn.Close()
		return nil, err
	}
	l := newLink(func(c call) error { return conn.Send(c) }, func() { _ = conn.Close() })
	go func() {
		for {
			n := &News{}
			if err := conn.Receive(n); err != nil {
				l.fail(err)
				return
			}
			l.put(n)
		}
	}()
	return l, nil
}

// End ends the command of a run that no server wants, and takes its output, until the supervisor has forgotten the run.
func (m *Remote) End(ctx context.Context, v command.Verdict) error {
	l, err := m.Follow(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, l.Close)()
	if _, err := m.Control(ctx, &command.Control{Op: command.OpStop, Verdict: &v}); err != nil {
		return err
	}
	for {
		n, err := l.Take()
		if err == nil {
			err = l.Kept(n.Tail, 0)
		}
		if err != nil {
			return err
		}
		if n.Ended != nil {
			l.Forget()
			return nil
		}
	}
}
