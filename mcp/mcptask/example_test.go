package mcptask_test

import (
	"context"
	"log"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/mcp/mcphttp"
	"reprise/mcp/mcptask"
	"reprise/store/memstore"
)

// A tool whose calls become tasks when they take longer than a second. examples/mcp/tasks is the whole program.
func Example() {
	ctx := context.Background()
	store := memstore.New(nil)
	defer store.Close()
	events, err := reprise.Open(ctx, store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	tasks, err := mcptask.New(events, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tasks.Close()

	server := mcp.NewServer(&mcp.Implementation{Name: "builder", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "build"},
		func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			if task := mcptask.FromContext(ctx); task != nil {
				if err := task.Say(ctx, "Compiling."); err != nil {
					return nil, nil, err
				}
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Built."}}}, nil, nil
		})
	tasks.Support("build", mcptask.Tool{After: time.Second})
	if err := tasks.Install(server); err != nil {
		log.Fatal(err)
	}
	backend := mcptask.Backend(mcphttp.Server(func(*http.Request) *mcp.Server { return server }))
	handler, err := mcphttp.New(events, backend, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer handler.Close()
	http.Handle("/mcp", handler)
	// Output:
}
