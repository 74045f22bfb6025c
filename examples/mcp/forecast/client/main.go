// Command client calls the tool of examples/mcp/forecast over a connection that breaks two seconds after it was opened.
// It gets the answer all the same: the Go SDK comes back with the id of the last event that it has seen.
//
// Like the clients in examples/mcp/clients it prints the version of the protocol, each report of progress, and the
// result.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	url := flag.String("url", "http://127.0.0.1:8090/mcp", "the server")
	city := flag.String("city", "Oslo", "where")
	drop := flag.Duration("drop", 2*time.Second, "how long the first connections last; 0: they are not dropped")
	flag.Parse()
	if err := run(context.Background(), *url, *city, *drop); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url, city string, drop time.Duration) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "forecast-client", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			fmt.Println("progress", req.Params.Progress)
		},
	})
	// On version 2026-07-28 a connection that breaks cancels the call.
	session, err := client.Connect(ctx,
		&mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: breaking(drop)}},
		&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		return err
	}
	defer session.Close()
	fmt.Println("version", session.InitializeResult().ProtocolVersion)

	params := &mcp.CallToolParams{Name: "forecast", Arguments: map[string]any{"city": city}}
	params.SetProgressToken("days")
	result, err := session.CallTool(ctx, params)
	if err != nil {
		return err
	}
	text, ok := result.Content[0].(*mcp.TextContent)
	if !ok || result.IsError {
		return errors.New("the result is no forecast")
	}
	fmt.Println("result", text.Text)
	return nil
}

// breaking makes connections, of which the first two end when they are as old as drop: one is that of the call, one
// that on which the client waits for what concerns the session as a whole.
func breaking(drop time.Duration) http.RoundTripper {
	var made atomic.Int32
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil && drop > 0 && made.Add(1) <= 2 {
			time.AfterFunc(drop, func() {
				fmt.Println("a connection breaks")
				conn.Close()
			})
		}
		return conn, err
	}
	return transport
}
