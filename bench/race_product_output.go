package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// productOutputRace is Q11: what a command prints, from the start of the command until a follower has all of it. The
// peer does what nobody can leave out who keeps the output apart from the server, in a store, and sends it as JSON.
func productOutputRace() Race {
	const limit, copied = "limit=cat-to-file-synced", "peer=copies"
	row := func(store, name string, goal Bound) Row {
		return Row{
			Target: "Q11", What: "reprise run -- cat of 200 MB, " + name, Unit: "s/run", Ours: "store=" + store,
			Limit: limit, Peers: []string{copied}, Goal: goal,
		}
	}
	return Race{
		Name: "ProductOutput",
		Contenders: []Contender{
			{limit, outputCat(" && sync %s.copy"), false},
			{copied, outputCopies, false},
			{"store=memory", productOutput("memory:"), false},
			{"store=log", productOutput("log:"), false},
			{"store=sqlite", productOutput("sqlite:"), false},
		},
		Rows: []Row{
			row("log", "embedded log", Bound{Than: limit, Most: 1.5}), row("sqlite", "SQLite", Bound{}),
			row("memory", "memory", Bound{}),
		},
	}
}

func productOutput(store string) func(context.Context, Scale) (Runner, error) {
	return func(ctx context.Context, scale Scale) (Runner, error) {
		path, text, remove, err := outputSource(scale)
		if err != nil {
			return nil, err
		}
		p, err := startProduct(ctx, store)
		if err != nil {
			return nil, errors.Join(err, remove())
		}
		return closing{func(ctx context.Context) (Sample, error) {
			counted := &comparing{left: text}
			cmd := exec.CommandContext(ctx, p.binary, "run", "--", "cat", path)
			cmd.Env, cmd.Stdout, cmd.Stderr = p.environ(), counted, os.Stderr
			start := time.Now()
			err := cmd.Run()
			took := time.Since(start)
			if err == nil && len(counted.left) > 0 {
				err = fmt.Errorf("%w: the last %d bytes that were printed", errLost, len(counted.left))
			}
			return Sample{"s/run": took.Seconds()}, err
		}, func() error { return errors.Join(p.Close(), remove()) }}, nil
	}
}

// comparing is a Writer that takes a text and nothing else.
type comparing struct{ left []byte }

func (c *comparing) Write(b []byte) (int, error) {
	if !bytes.HasPrefix(c.left, b) {
		return 0, fmt.Errorf("%w: what comes is not what was printed", errLost)
	}
	c.left = c.left[len(b):]
	return len(b), nil
}
