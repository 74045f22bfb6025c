package bench

import (
	"context"
	"os"
	"os/exec"
	"time"
)

// commandRace is Q12: programs from their start to their end. The limit is a shell that does nothing.
func commandRace() Race {
	const limit = "limit=sh-true"
	row := func(name, what string, goal float64) Row {
		return Row{Target: "Q12", What: what, Unit: "ms", Ours: name, Limit: limit, Goal: Bound{Most: goal}}
	}
	return Race{
		Name: "Command",
		Contenders: []Contender{
			{limit, commandShell, false},
			{"verb=version", commandReprise("memory:", "version"), false},
			{"verb=run/store=memory", commandReprise("memory:", "run", "--", "true"), false},
			{"verb=run/store=log", commandReprise("log:", "run", "--", "true"), false},
		},
		Rows: []Row{
			row("verb=version", "reprise version", 5),
			row("verb=run/store=memory", "reprise run -- true, memory", 8),
			row("verb=run/store=log", "reprise run -- true, embedded log", 8),
		},
	}
}

// commandLap runs a program many times and measures one of them.
func commandLap(scale Scale, environ []string, name string, args ...string) lapFunc {
	n := scale.Of(50, 3)
	return func(ctx context.Context) (Sample, error) {
		start := time.Now()
		for range n {
			cmd := exec.CommandContext(ctx, name, args...)
			cmd.Env, cmd.Stderr = environ, os.Stderr
			if err := cmd.Run(); err != nil {
				return nil, err
			}
		}
		return Sample{"ms": time.Since(start).Seconds() * 1000 / float64(n)}, nil
	}
}

func commandShell(_ context.Context, scale Scale) (Runner, error) {
	return commandLap(scale, nil, "/bin/sh", "-c", "true"), nil
}

func commandReprise(store string, args ...string) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		p, err := startProduct(ctx, store)
		if err != nil {
			return nil, err
		}
		return closing{commandLap(scale, p.environ(), p.binary, args...), p.Close}, nil
	}
}
