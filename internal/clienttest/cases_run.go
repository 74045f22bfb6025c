package clienttest

import (
	"context"
	"fmt"

	"reprise"
	"reprise/client"
)

// leftEarly stops the follower of a command to which the program has given no id: the command is cancelled. One that
// was detached, or has an id, goes on.
func leftEarly(ctx context.Context, r *run) error {
	c, err := r.server.client()
	if err != nil {
		return err
	}
	for _, tt := range []struct {
		name, id string
		detach   bool
		goesOn   bool
	}{{"without an id", "", false, false}, {"detached", "", true, true}, {"with an id", "left-early", false, true}} {
		argv := []string{"sh", "-c", "echo begun; exec sleep 600", "left early", tt.name}
		t := r.service.do(Command{
			Do: "run", URL: "http://" + r.server.addr, Token: r.server.token, Execution: tt.id, Argv: argv,
			Detach: tt.detach, MinWaitMS: 1, MaxWaitMS: 5, IdleMS: 60_000,
		})
		if err := t.count(2); err != nil { // started, and its output
			return fmt.Errorf("%s: %w", tt.name, err)
		}
		t.stop()
		if err := t.wait(); err != nil {
			return fmt.Errorf("%s: %w", tt.name, err)
		}
		if err := r.leftAs(ctx, c, tt.name, tt.goesOn); err != nil {
			return fmt.Errorf("%s: %w", tt.name, err)
		}
	}
	return nil
}

// leftAs checks what has become of the command with that last argument, and ends it.
func (r *run) leftAs(ctx context.Context, c *client.Client, name string, goesOn bool) error {
	list, err := c.List(ctx, client.ExecutionQuery{Limit: 1000})
	if err != nil {
		return err
	}
	for _, x := range list.Executions {
		if len(x.Argv) != 5 || x.Argv[3] != "left early" || x.Argv[4] != name {
			continue
		}
		if goesOn {
			if x.Status == "ended" {
				return fmt.Errorf("the command has ended: %v", x.Outcome)
			}
			return c.Cancel(ctx, x.ID)
		}
		waited, cancel := context.WithTimeout(ctx, r.service.patience)
		defer cancel()
		for e, err := range c.Follow(waited, x.ID, &client.FollowOptions{Types: []string{reprise.TypeEnd}}) {
			switch {
			case err != nil:
				return fmt.Errorf("the command was not cancelled within %v: %w", r.service.patience, err)
			case e.End != nil && e.End.Outcome != client.Cancelled:
				return fmt.Errorf("the command has ended as %s", e.End.Outcome)
			}
		}
		return nil
	}
	return fmt.Errorf("the command was not started")
}
