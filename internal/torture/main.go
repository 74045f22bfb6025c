//go:build linux

// Command torture tests servers from outside. It speaks only HTTP to the binary that it builds, kills and stops its
// processes, cuts its connections, restarts and promotes its stores, and fills their disks. Then it compares the
// acknowledged appends, the events of each reader and the contents of the streams. It shares no code with the engine or
// the client; only the servers of internal/testserver are common.
//
//	go run ./internal/torture -for 10m
//	go run ./internal/torture -for 30s -stores redis -seed 7
//
// The exit code is 1 if a rule was broken. The rules are in check.go and reader.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"reprise/internal/testserver"
)

type options struct {
	total     time.Duration
	atOnce    int
	stores    []string
	seed      uint64
	binary    string
	heartbeat time.Duration
	// noHeartbeat is for servers without the flag, whose heartbeat is 15 seconds.
	noHeartbeat bool
	serve       []string
	verbose     bool
	faults      *regexp.Regexp // nil for all
}

func main() {
	var o options
	var stores, serve string
	flag.DurationVar(&o.total, "for", 10*time.Minute, "how long it takes, over all stores")
	flag.IntVar(&o.atOnce, "at-once", 1, "how many stores are tested at a time")
	flag.StringVar(&stores, "stores", strings.Join(storeNames(), ","), "stores to test, with commas between")
	flag.Uint64Var(&o.seed, "seed", 0, "seed of what goes wrong and when; 0 takes one by chance")
	flag.StringVar(&o.binary, "binary", "", "the binary to test; without it, cmd/reprise is built")
	flag.DurationVar(&o.heartbeat, "heartbeat", 2*time.Second, "what the servers are given as --heartbeat; 0 for versions that have no such flag")
	flag.StringVar(&serve, "serve", "", "more flags for reprise serve")
	flag.Func("faults", "regular expression for what goes wrong; everything without it", func(text string) (err error) {
		o.faults, err = regexp.Compile(text)
		return err
	})
	flag.BoolVar(&o.verbose, "v", false, "tell each fault when it is made")
	flag.Parse()
	o.stores, o.serve = strings.Split(stores, ","), strings.Fields(serve)
	if o.noHeartbeat = o.heartbeat == 0; o.noHeartbeat {
		o.heartbeat = 15 * time.Second
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000) + 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		stop()
		os.Exit(1) // stop has been called
	}
}

func run(ctx context.Context, o *options) error {
	dir, err := os.MkdirTemp("", "torture-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL runs as another user
		return err
	}
	if o.binary == "" {
		o.binary = filepath.Join(dir, "reprise")
		if out, err := exec.CommandContext(
			ctx, "go", "build", "-o", o.binary, "./cmd/reprise",
		).CombinedOutput(); err != nil {
			return fmt.Errorf("build: %w: %s", err, out)
		}
	}
	broken, err := runStages(ctx, o, dir)
	if err == nil && broken > 0 {
		err = fmt.Errorf("%d violations; the same faults again: -seed %d", broken, o.seed)
	}
	return err
}

// runStages tests each store, some at a time, and returns the number of violations.
func runStages(ctx context.Context, o *options, dir string) (int, error) {
	var stages sync.WaitGroup
	var broken atomic.Int64
	turns, errs := make(chan struct{}, max(o.atOnce, 1)), make([]error, len(o.stores))
	for i, name := range o.stores {
		turns <- struct{}{}
		stages.Go(func() {
			defer func() { <-turns }()
			n, err := runStage(ctx, o, name, filepath.Join(dir, name), o.seed+uint64(i))
			broken.Add(int64(n))
			switch {
			case errors.Is(err, testserver.ErrMissing) && os.Getenv("CI") == "":
				fmt.Printf("%-14s skipped: %v\n", name, err)
			case err != nil:
				errs[i] = fmt.Errorf("%s: %w", name, err)
			}
		})
	}
	stages.Wait()
	return int(broken.Load()), errors.Join(errs...)
}

// runStage tests one store and returns the number of violations.
func runStage(ctx context.Context, o *options, name, dir string, seed uint64) (int, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	e, err := openEngine(name, dir)
	if err != nil {
		return 0, err
	}
	s := newStage(o, name, dir, seed, e)
	err = errors.Join(s.run(ctx), s.close())
	if err != nil {
		return 0, err
	}
	fmt.Print(s.report())
	return s.ledger.violations(), nil
}
