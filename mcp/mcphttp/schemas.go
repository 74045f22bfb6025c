package mcphttp

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// schemaKept is the time for which a server's description of its tools is cached.
const schemaKept = time.Second

// schemas are the input schemas of the tools of servers.
type schemas struct {
	mu sync.Mutex
	of map[*mcp.Server]*toolSchemas
}

type toolSchemas struct {
	mu    sync.Mutex
	read  time.Time
	input map[string]json.RawMessage
}

// InputSchema implements Backend.
func (b *sdkBackend) InputSchema(ctx context.Context, x *Exchange, tool string) (json.RawMessage, error) {
	server := b.choose(x.Request)
	if server == nil {
		return nil, nil
	}
	b.schemas.mu.Lock()
	if len(b.schemas.of) > maxServers { // choose makes new ones
		clear(b.schemas.of)
	}
	t := b.schemas.of[server]
	if t == nil {
		t = &toolSchemas{}
		b.schemas.of[server] = t
	}
	b.schemas.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if schema, ok := t.input[tool]; ok && time.Since(t.read) < schemaKept {
		return schema, nil
	}
	input, err := inputSchemas(ctx, server)
	if err != nil {
		return nil, err
	}
	t.input, t.read = input, time.Now()
	return input[tool], nil
}

// maxServers is the maximum number of cached servers.
const maxServers = 100

// inputSchemas asks a server for its tools.
func inputSchemas(ctx context.Context, server *mcp.Server) (map[string]json.RawMessage, error) {
	c := newAskConn("", nothingElse)
	state := &mcp.ServerSessionState{
		InitializeParams:  &mcp.InitializeParams{ProtocolVersion: version20251125},
		InitializedParams: &mcp.InitializedParams{},
	}
	if err := c.open(server, state); err != nil {
		return nil, err
	}
	defer c.end()
	input := map[string]json.RawMessage{}
	for cursor := ""; ; {
		response, err := c.call(ctx, "tools/list", compact(map[string]string{"cursor": cursor}))
		if err != nil {
			return nil, err
		}
		if response.Error != nil {
			return input, nil // it has no tools
		}
		var page struct {
			Tools []struct {
				Name        string          `json:"name"`
				InputSchema json.RawMessage `json:"inputSchema"`
			} `json:"tools"`
			NextCursor string `json:"nextCursor"`
		}
		if err := json.Unmarshal(response.Result, &page); err != nil {
			return nil, err
		}
		for _, tool := range page.Tools {
			input[tool.Name] = tool.InputSchema
		}
		if cursor = page.NextCursor; cursor == "" {
			return input, nil
		}
	}
}
