// Command path says what one event costs the server on its way from the request that publishes it to the sockets of its
// readers, part by part, in nanoseconds of CPU time:
//
//	go run ./path
//	go run ./path -store sqlite -readers 100
//
// The parts are packages, not functions. Other work on the machine makes all of them somewhat more expensive, because
// they lose their caches, but does not change their order.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"reprise/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "path:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if args := os.Args[1:]; bench.IsServer(args) {
		return bench.Serve(ctx, args)
	}
	store := flag.String("store", "log", "memory, log or sqlite")
	requests := flag.Int("requests", 20_000, "events that are published without readers")
	rounds := flag.Int("rounds", 500, "events that are published to readers")
	readers := flag.Int("readers", 1000, "readers")
	flag.Parse()
	return bench.Path(ctx, os.Stdout, *store, *requests, *rounds, *readers)
}
