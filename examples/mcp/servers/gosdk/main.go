// Command gosdk is a server on the Go SDK, as its documentation makes one that can be resumed, for "reprise check-mcp".
// Its tool counts.
//
//	go run ./examples/mcp/servers/gosdk 127.0.0.1:8090
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type input struct {
	Steps   int `json:"steps"`
	DelayMS int `json:"delay_ms"`
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: gosdk HOST:PORT")
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "gosdk", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "count"}, count)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)})
	http.Handle("/mcp", handler)
	l, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s/mcp\n", l.Addr())
	log.Fatal(http.Serve(l, nil))
}

func count(ctx context.Context, req *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
	token := req.Params.GetProgressToken()
	for i := range in.Steps {
		progress := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(i + 1)}
		if err := req.Session.NotifyProgress(ctx, progress); err != nil {
			return nil, nil, err
		}
		time.Sleep(time.Duration(in.DelayMS) * time.Millisecond)
	}
	text := fmt.Sprintf("counted to %d", in.Steps)
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
}
