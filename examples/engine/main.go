// Command engine starts a Redis, PostgreSQL or NATS server of its own, with its data in a temporary folder, for the
// examples. It prints the URL that reprise takes for --store, and ends the server when it is told to end.
//
//	go run ./examples/engine postgres
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"reprise/internal/testserver"
)

// server is what the servers have in common.
type server interface {
	URL() string
	Stop() error
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: engine redis|postgres|nats")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	engine, err := start(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", engine.URL())
	<-ctx.Done()
	if err := engine.Stop(); err != nil {
		log.Fatal(err)
	}
}

func start(name string) (server, error) {
	switch name {
	case "redis":
		return testserver.StartRedis(nil)
	case "postgres":
		return testserver.StartPostgres(nil)
	case "nats":
		return testserver.StartNATS(nil)
	}
	return nil, fmt.Errorf("no engine %q: take redis, postgres or nats", name)
}
