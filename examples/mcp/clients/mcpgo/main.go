// Command mcpgo is mcp-go's client. It comes back where the server has ended a stream, and takes a stream that breaks
// off for the end of the call, so it needs a little help: a transport that shows it broken streams as ended ones.
//
//	go run ./examples/mcp/clients/mcpgo http://127.0.0.1:8090/mcp Oslo
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: mcpgo URL CITY [unaided]")
	}
	network := http.DefaultTransport
	if len(os.Args) == 3 {
		network = resumable{network}
	}
	if err := run(context.Background(), os.Args[1], os.Args[2], network); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url, city string, network http.RoundTripper) error {
	c, err := client.NewStreamableHttpClient(url, transport.WithHTTPBasicClient(&http.Client{Transport: network}))
	if err != nil {
		return err
	}
	defer c.Close()
	c.OnNotification(func(n mcp.JSONRPCNotification) {
		if n.Method == "notifications/progress" {
			fmt.Println("progress", n.Params.AdditionalFields["progress"])
		}
	})
	if err := c.Start(ctx); err != nil {
		return err
	}
	hello := mcp.InitializeRequest{}
	hello.Params.ProtocolVersion = "2025-11-25"
	hello.Params.ClientInfo = mcp.Implementation{Name: "forecast-client", Version: "1"}
	agreed, err := c.Initialize(ctx, hello)
	if err != nil {
		return err
	}
	fmt.Println("version", agreed.ProtocolVersion)

	call := mcp.CallToolRequest{}
	call.Params.Name = "forecast"
	call.Params.Arguments = map[string]any{"city": city}
	call.Params.Meta = &mcp.Meta{ProgressToken: "days"}
	result, err := c.CallTool(ctx, call)
	if err != nil {
		return err
	}
	text, ok := result.Content[0].(mcp.TextContent)
	if !ok || result.IsError {
		return errors.New("the result is no forecast")
	}
	fmt.Println("result", text.Text)
	return nil
}

// resumable shows streams of events that break off as if the server had ended them.
type resumable struct{ http.RoundTripper }

func (t resumable) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if err == nil && strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		response.Body = &ending{response.Body, r.Context()}
	}
	return response, err
}

type ending struct {
	io.ReadCloser
	ctx context.Context
}

func (e *ending) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if err != nil && e.ctx.Err() == nil {
		err = io.EOF
	}
	return n, err
}
