package mcpserver_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/internal/mcpserver"
)

// TestClientThatHidesItsRoots: a client that offers roots and does not say which delays one call, whose run and the
// following ones work in the directory of the server.
func TestClientThatHidesItsRoots(t *testing.T) {
	dir := t.TempDir()
	w := newFixture(t, mcpserver.Options{Directory: dir}.WithRootsWithin(20*time.Millisecond))
	near, far := mcp.NewInMemoryTransports()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- w.server.Run(ctx, far) }()
	defer func() {
		cancel()
		<-served
	}()
	var asked atomic.Int32
	client := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "1"}, nil)
	client.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "roots/list" {
				asked.Add(1)
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return next(ctx, method, req)
		}
	})
	session, err := client.Connect(t.Context(), near, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for range 2 {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{
			Name: "execute_code", Arguments: map[string]any{"command": "pwd"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if text := result.Content[0].(*mcp.TextContent).Text; !strings.HasPrefix(text, dir+"\n") {
			t.Errorf("it runs in %q, not in %s", text, dir)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the client was asked %d times", n)
	}
}
