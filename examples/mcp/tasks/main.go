// Command tasks is an MCP server of its own with a tool that takes six seconds, whose calls become tasks that outlive
// the connection and the server. It is what package mcptask needs in any program; README.md has the requests.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/mcp/mcphttp"
	"reprise/mcp/mcptask"
	"reprise/store/sqlitestore"
)

type forecastInput struct {
	City string `json:"city"`
}

// forecast knows nothing of tasks, but that it may say how far it is, and ask, where it has become one.
func forecast(ctx context.Context, _ *mcp.CallToolRequest, in forecastInput) (*mcp.CallToolResult, any, error) {
	for day := 1; day <= 6; day++ {
		if task := mcptask.FromContext(ctx); task != nil {
			if err := task.Say(ctx, fmt.Sprintf("Computing day %d of 6.", day)); err != nil {
				return nil, nil, err
			}
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done(): // the client has cancelled the task, or gone away before it was one
			return nil, nil, context.Cause(ctx)
		}
	}
	text := &mcp.TextContent{Text: "Sunny in " + in.City + ", for six days."}
	return &mcp.CallToolResult{Content: []mcp.Content{text}}, nil, nil
}

func run(ctx context.Context, file, address string) error {
	store, err := sqlitestore.Open(ctx, file, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	events, err := reprise.Open(ctx, store, nil)
	if err != nil {
		return err
	}
	defer events.Close()
	tasks, err := mcptask.New(events, nil)
	if err != nil {
		return err
	}
	defer tasks.Close()

	server := mcp.NewServer(&mcp.Implementation{Name: "forecast", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "forecast", Description: "The weather of the next six days."}, forecast)
	tasks.Support("forecast", mcptask.Tool{After: time.Second}) // what takes longer becomes a task
	if err := tasks.Install(server); err != nil {
		return err
	}
	handler, err := mcphttp.New(events,
		mcptask.Backend(mcphttp.Server(func(*http.Request) *mcp.Server { return server })), nil)
	if err != nil {
		return err
	}
	defer handler.Close()
	log.Printf("listening on http://%s/mcp", address)
	return http.ListenAndServe(address, handler)
}

func main() {
	log.Fatal(run(context.Background(), "tasks.db", "127.0.0.1:8090"))
}
