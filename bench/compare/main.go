// Command compare measures two commits side by side, so that "no slower than before" is shown and not remembered:
//
//	go run ./compare                           HEAD against the commit before it, all races
//	go run ./compare -only 'Append|Replay' v0.1.0 HEAD
//	go run ./compare -rounds 9 v0.1.0 .        "." is the working tree as it is
//
// It checks both commits out into a temporary folder, builds the programs of each, and runs the races of both in
// turns, beginning with the other one in each round. A round is slow for both or for none, so that only the two values
// of one round are divided. With seven rounds the true ratio lies between the smallest and the largest with a
// probability of 98 in 100: a row is slower if all of that is worse than before, and its median by more than 5 in 100.
// Run it while the machine does nothing else.
//
// Its status is 0 whatever it finds, unless a race cannot run.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"reprise/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	only := flag.String("only", ".", "regular expression of the races to run") // "" would keep the samples
	rounds := flag.Int("rounds", 7, "how often each commit runs them")
	laps := flag.Int("laps", 2, "laps of each race in a round, whose median counts")
	flag.Parse()
	commits := []string{"HEAD~", "HEAD"}
	copy(commits, flag.Args())
	if flag.NArg() > 2 || *rounds < 1 || *laps < 1 {
		return fmt.Errorf("want two commits, and at least one round and lap")
	}
	work, err := os.MkdirTemp("", "compare-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	var sides [2]side
	for i, commit := range commits {
		if sides[i], err = build(ctx, commit, filepath.Join(work, strconv.Itoa(i))); err != nil {
			return err
		}
	}
	var seen [2][]bench.Samples
	for round := range *rounds {
		for k := range sides {
			i := (round + k) % len(sides)
			samples, err := sides[i].race(ctx, *only, *laps)
			if err != nil {
				return err
			}
			seen[i] = append(seen[i], samples)
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, *rounds)
	}
	if err := bench.RecordMachine(os.Stdout); err != nil {
		return err
	}
	fmt.Printf("before: %s\nafter: %s\nrounds: %d\n\n", sides[0].name, sides[1].name, *rounds)
	return bench.WriteComparison(os.Stdout, bench.Compare(bench.Races(), seen[0], seen[1]))
}

// side is one of the two that are compared.
type side struct {
	name           string // the commit
	folder         string // of the sources of package bench
	report, binary string // what was built of it
}

// build checks a commit out into a folder and builds its programs there. "." is the tree that this is run in.
func build(ctx context.Context, commit, folder string) (side, error) {
	top, err := output(ctx, "", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return side{}, err
	}
	s := side{name: commit, folder: filepath.Join(top, "bench")}
	s.report, s.binary = folder+"-report", folder+"-reprise"
	if commit != "." {
		if s.name, err = output(ctx, top, "git", "rev-parse", "--short", commit+"^{commit}"); err != nil {
			return side{}, err
		}
		if err := checkout(ctx, top, s.name, folder); err != nil {
			return side{}, err
		}
		s.folder = filepath.Join(folder, "bench")
	}
	fmt.Fprintf(os.Stderr, "building %s\n", s.name)
	if err := compile(ctx, s.folder, s.report, "./report"); err != nil {
		return side{}, err
	}
	return s, compile(ctx, filepath.Dir(s.folder), s.binary, "./cmd/reprise")
}

// compile builds a program of the module in dir. The races of NATS find the source of its server by the path of their
// own, so -trimpath would leave them without one.
func compile(ctx context.Context, dir, program, path string) error {
	_, err := output(ctx, dir, "go", "build", "-buildvcs=false", "-o", program, path)
	return err
}

// checkout puts the files of a commit into a new folder, and leaves the repository as it is.
func checkout(ctx context.Context, repository, commit, folder string) error {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	archive := filepath.Join(folder, "archive.tar")
	if _, err := output(ctx, repository, "git", "archive", "-o", archive, commit); err != nil {
		return err
	}
	_, err := output(ctx, folder, "tar", "-xf", archive)
	return err
}

// race runs the races of one side once.
func (s side) race(ctx context.Context, only string, laps int) (bench.Samples, error) {
	cmd := exec.CommandContext(ctx, s.report, "-only", only, "-laps", strconv.Itoa(laps), "-raw", "-results", "")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it ends its servers
	cmd.WaitDelay = time.Minute
	cmd.Dir = s.folder
	cmd.Env = append(os.Environ(), bench.BinaryEnv+"="+s.binary)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", s.name, err, &stderr)
	}
	return bench.ReadSamples(&stdout)
}

// output is what a command prints, without the last line's end.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, &stderr)
	}
	return string(bytes.TrimSpace(out)), nil
}
