// Command forecast is an MCP server with one tool that takes six seconds. A client that loses its connection
// in mid-call gets the rest of the call, and nothing is computed twice:
//
//	go run ./examples/mcp/forecast -listen 127.0.0.1:8090
//	go run ./examples/mcp/forecast/client -url http://127.0.0.1:8090/mcp
//
// With -data it keeps sessions and streams in a SQLite file, so that they are there after a restart too.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/mcp/mcphttp"
	"reprise/store/memstore"
	"reprise/store/sqlitestore"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8090", "the address to listen on")
	data := flag.String("data", "",
		"the SQLite file in which sessions and streams are kept, beside FILE.keys; default: memory")
	versions := flag.String("versions", strings.Join(mcphttp.Versions, ","),
		"the versions of the protocol that are served")
	stdio := flag.Bool("stdio", false, "speak over stdin and stdout, for reprise gateway: nothing is kept here then")
	day := flag.Duration("day", time.Second, "how long the computation of a day takes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *stdio {
		err = newServer(computer{*day, os.Stderr}).Run(ctx, &mcp.StdioTransport{})
	} else {
		err = run(ctx, *listen, *data, strings.Split(*versions, ","), computer{*day, os.Stdout})
	}
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, address, data string, versions []string, c computer) error {
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

	handler, err := serve(events, versions, c)
	if err != nil {
		return err
	}
	defer handler.Close()

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

func newServer(c computer) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "forecast", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "forecast", Description: "The weather of the next six days."}, c.forecast)
	return server
}

// serve is the server on a Log.
func serve(events *reprise.Log, versions []string, c computer) (*mcphttp.Handler, error) {
	server := newServer(c)
	return mcphttp.New(events, mcphttp.Server(func(*http.Request) *mcp.Server { return server }), &mcphttp.Options{
		Versions: versions,
		Hooks: &mcphttp.Hooks{Resumed: func(_ reprise.Tenant, result mcphttp.Resumption, replayed uint64) {
			fmt.Fprintf(c.notes, "a client came back: %s, %d events\n", result, replayed)
		}},
	})
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

type place struct {
	City string `json:"city"`
	// HangUp is for those who have no connection that breaks: half a day after that day the server closes it, as it may
	// from version 2025-11-25 on.
	HangUp int `json:"hang_up,omitempty" jsonschema:"the day, 1 to 5, after which the server closes the connection; the client comes back for the rest"`
}

// computer takes so long to compute a day, and writes down what it does.
type computer struct {
	day   time.Duration
	notes io.Writer
}

// wait waits unless the call is given up.
func (c computer) wait(ctx context.Context, d time.Duration, city string) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		fmt.Fprintf(c.notes, "the forecast for %s is given up: %v\n", city, context.Cause(ctx))
		return context.Cause(ctx)
	}
}

// forecast knows nothing of connections, but that it may close the one that it is asked over.
func (c computer) forecast(ctx context.Context, req *mcp.CallToolRequest, in place) (*mcp.CallToolResult, any, error) {
	fmt.Fprintf(c.notes, "the forecast for %s is begun\n", in.City)
	for day := 1; day <= 6; day++ {
		if err := c.wait(ctx, c.day, in.City); err != nil {
			return nil, nil, err
		}
		if token := req.Params.GetProgressToken(); token != nil {
			err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token, Progress: float64(day), Total: 6,
				Message: fmt.Sprintf("Day %d is computed.", day),
			})
			if err != nil {
				return nil, nil, err
			}
		}
		if day == in.HangUp && day < 6 && req.Extra.CloseSSEStream != nil {
			if err := c.wait(ctx, c.day/2, in.City); err != nil {
				return nil, nil, err
			}
			req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{})
		}
	}
	fmt.Fprintf(c.notes, "the forecast for %s is done\n", in.City)
	text := &mcp.TextContent{Text: "Sunny in " + in.City + ", for six days."}
	return &mcp.CallToolResult{Content: []mcp.Content{text}}, nil, nil
}
