package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// PeersEnv names the folder of the programs of other projects, which scripts/bench-peers fills.
const PeersEnv = "REPRISE_BENCH_PEERS"

// errNoPeer is what a contender fails to start with whose program is not on the machine. The others run without it.
var errNoPeer = errors.New("the peer is not on this machine")

// optional makes a contender one that the others run without if its server is not on the machine. With CI set the race
// fails then, as others with a server do.
func optional(c Contender) Contender {
	start := c.Start
	c.Start = func(ctx context.Context, scale Scale) (Runner, error) {
		runner, err := start(ctx, scale)
		if IsMissing(err) && os.Getenv("CI") == "" {
			return nil, fmt.Errorf("%w: %w", errNoPeer, err)
		}
		return runner, err
	}
	return c
}

// findPeer finds a program in the folder of PeersEnv, or by PATH.
func findPeer(program string) (string, error) {
	if dir := os.Getenv(PeersEnv); dir != "" {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return filepath.Abs(path)
		}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("%w: %s", errNoPeer, program)
	}
	return path, nil
}

// Appender is a library of another project that appends events durably.
type Appender interface {
	// Append returns when the event is on the disk. Each writer, from 0, waits for its event before the next.
	Append(writer int, data []byte) error
	Close() error
}

// ServeAppender makes a program a contender of the Durable races; args are those of the program. open opens what it
// appends to in an empty directory.
func ServeAppender(args []string, open func(dir string, writers int) (Appender, error)) error {
	if len(args) != 3 {
		return fmt.Errorf("%w: %q, want a directory, the number of writers, and a scale", errOrder, args)
	}
	writers, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	var scale Scale
	if err := json.Unmarshal([]byte(args[2]), &scale); err != nil {
		return err
	}
	a, err := open(args[0], writers)
	if err != nil {
		return err
	}
	payload := newPayload()
	s := &server{addr: "-", runner: durableLap(writers, scale, func(w int) error { return a.Append(w, payload) })}
	return errors.Join(s.serve(context.Background()), a.Close())
}

// durablePeer runs a program that calls ServeAppender.
func durablePeer(program string, writers int) func(context.Context, Scale) (Runner, error) {
	return func(_ context.Context, scale Scale) (Runner, error) {
		path, err := findPeer(program)
		if err != nil {
			return nil, err
		}
		encoded, err := json.Marshal(scale)
		if err != nil {
			return nil, err
		}
		dir, remove, err := tempDir()
		if err != nil {
			return nil, err
		}
		p, err := startCommand(exec.Command(path, dir, strconv.Itoa(writers), string(encoded)))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", program, err), remove())
		}
		return closing{p.askLap, func() error { return errors.Join(p.Close(), remove()) }}, nil
	}
}
