package mcphttp_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/mcp/mcphttp"
	"reprise/store/memstore"
)

type greetInput struct {
	Name string `json:"name"`
}

func greet(_ context.Context, _ *mcp.CallToolRequest, in greetInput) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Hello, " + in.Name + "."}}}, nil, nil
}

// A server of the Go SDK whose sessions and answers outlive the connections of its clients. With sqlitestore in place
// of memstore they outlive the program too.
func Example() {
	ctx := context.Background()
	store := memstore.New(nil)
	defer store.Close()
	events, err := reprise.Open(ctx, store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	server := mcp.NewServer(&mcp.Implementation{Name: "greeter", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "greet"}, greet)
	handler, err := mcphttp.New(events, mcphttp.Server(func(*http.Request) *mcp.Server { return server }), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer handler.Close()
	endpoint := httptest.NewServer(handler)
	defer endpoint.Close()

	client := mcp.NewClient(&mcp.Implementation{Name: "example", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: endpoint.URL}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "greet", Arguments: greetInput{Name: "Ada"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output: Hello, Ada.
}
