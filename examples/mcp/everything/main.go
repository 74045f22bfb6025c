// Command everything is an MCP server with the tools, prompts and resources that the public conformance suite asks for,
// npm @modelcontextprotocol/conformance, on mcphttp and mcptask. scripts/mcp-conformance runs the suite against it.
//
//	go run ./examples/mcp/everything -listen 127.0.0.1:8090 -data everything.db
//	go run ./examples/mcp/everything -stdio
//
// It prints the URL of its endpoint.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/mcp/mcphttp"
	"reprise/mcp/mcptask"
	"reprise/store/memstore"
	"reprise/store/sqlitestore"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "the address to listen on")
	data := flag.String("data", "",
		"the SQLite file in which sessions, streams and tasks are kept, beside FILE.keys; default: memory")
	stdio := flag.Bool("stdio", false, "speak over stdin and stdout")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, *data, *stdio); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, listen, data string, stdio bool) error {
	store, opts, err := open(ctx, data)
	if err != nil {
		return err
	}
	defer store.Close()
	events, err := reprise.Open(ctx, store, opts)
	if err != nil {
		return err
	}
	defer events.Close()
	tasks, err := mcptask.New(events, &mcptask.Options{Poll: 100 * time.Millisecond})
	if err != nil {
		return err
	}
	defer tasks.Close()
	server := newServer()
	addTasks(server, tasks)
	if err := tasks.Install(server); err != nil {
		return err
	}
	go touch(ctx, server)
	if stdio {
		return server.Run(ctx, tasks.Transport(&mcp.StdioTransport{}))
	}
	handler, err := mcphttp.New(events,
		mcptask.Backend(mcphttp.Server(func(*http.Request) *mcp.Server { return server })),
		&mcphttp.Options{Logger: slog.Default(), Quick: -1}) // the suite looks at streams
	if err != nil {
		return err
	}
	defer handler.Close()
	return serve(ctx, listen, handler)
}

// open opens the store, and the keys that sign event ids: a client that comes back after a restart has an id of before.
func open(ctx context.Context, data string) (reprise.Store, *reprise.Options, error) {
	if data == "" {
		return memstore.New(nil), nil, nil
	}
	keys, err := reprise.LoadKeyset(data + ".keys")
	if err != nil {
		return nil, nil, err
	}
	store, err := sqlitestore.Open(ctx, data, nil)
	return store, &reprise.Options{Keys: keys}, err
}

func serve(ctx context.Context, address string, handler *mcphttp.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	fmt.Printf("listening on http://%s/mcp\n", listener.Addr())
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// The handler is closed first: it ends the responses that are under way, which the server then waits for. A server
	// that is closed first cuts them.
	err = handler.Close()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, web.Shutdown(bounded))
}

// newServer is a server with everything but tasks.
func newServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "everything", Version: "1"}, &mcp.ServerOptions{
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{}}}, nil
		},
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	addContent(server)
	addReporting(server)
	addAsking(server)
	addRounds(server)
	addChanging(server)
	addResources(server)
	addPrompts(server)
	return server
}

// touch says every three seconds that a resource has changed.
func touch(ctx context.Context, server *mcp.Server) {
	for ticker := time.NewTicker(3 * time.Second); ; {
		select {
		case <-ctx.Done():
			ticker.Stop()
			return
		case <-ticker.C:
			if err := server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: watched}); err != nil {
				log.Printf("saying that %s has changed: %v", watched, err)
			}
		}
	}
}
