// Command mcpgo is a server on mcp-go with its own event store, for "reprise check-mcp". Its tool counts.
//
//	go run ./examples/mcp/servers/mcpgo 127.0.0.1:8090
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: mcpgo HOST:PORT")
	}
	s := server.NewMCPServer("mcpgo", "1")
	tool := mcp.NewTool("count", mcp.WithNumber("steps"), mcp.WithNumber("delay_ms"))
	s.AddTool(tool, func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return count(ctx, s, req)
	})
	http.Handle("/mcp", server.NewStreamableHTTPServer(s,
		server.WithEventStore(server.NewInMemoryEventStore()), server.WithStateful(true)))
	l, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s/mcp\n", l.Addr())
	log.Fatal(http.Serve(l, nil))
}

func count(ctx context.Context, s *server.MCPServer, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	steps := req.GetInt("steps", 0)
	for i := range steps {
		params := map[string]any{"progressToken": req.Params.Meta.ProgressToken, "progress": i + 1}
		// Its channel of notifications is short and refuses what does not fit.
		for try := 0; s.SendNotificationToClient(ctx, "notifications/progress", params) != nil && try < 1000; try++ {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(req.GetInt("delay_ms", 0)) * time.Millisecond)
	}
	return mcp.NewToolResultText(fmt.Sprintf("counted to %d", steps)), nil
}
