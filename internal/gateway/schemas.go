package gateway

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

const (
	// schemasKept is how long the schemas of an upstream's tools are cached.
	schemasKept = 30 * time.Second
	// maxPages bounds the answers to tools/list that are read.
	maxPages = 100
)

// toolSchemas are the input schemas of an upstream's tools, and whether they may be called again. Its methods are safe
// for concurrent use.
type toolSchemas struct {
	mu     sync.Mutex
	read   time.Time
	byName map[string]listedTool
}

// listedTool is the description of a tool.
type listedTool struct {
	schema json.RawMessage // of its input
	// repeats is true if calling the tool twice has no further effect.
	repeats bool
}

// InputSchema implements mcphttp.Backend. The schema is at most 30 seconds old.
func (g *Gateway) InputSchema(ctx context.Context, x *mcphttp.Exchange, tool string) (json.RawMessage, error) {
	if !x.Stateless() {
		return nil, nil // older versions have no headers for arguments
	}
	c, err := g.poolConnection(ctx, x)
	if err != nil {
		return nil, nil //nolint:nilerr // Serve returns it in the form of the protocol
	}
	return g.slot(c.key).tools.tool(ctx, c, tool).schema, nil
}

// repeatable reports whether a tool declares that it may be called again.
func (t *toolSchemas) repeatable(ctx context.Context, c *connection, tool string) bool {
	return t.tool(ctx, c, tool).repeats
}

// tool returns the description of a tool, or the zero value if the upstream does not list it.
func (t *toolSchemas) tool(ctx context.Context, c *connection, tool string) listedTool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byName != nil && time.Since(t.read) < schemasKept {
		return t.byName[tool]
	}
	asking, cancel := context.WithTimeout(ctx, c.g.up.StartTimeout)
	defer cancel()
	byName := c.listSchemas(asking)
	if asking.Err() == nil {
		t.byName, t.read = byName, time.Now()
	}
	return byName[tool]
}

// has reports whether the upstream has listed a tool.
func (t *toolSchemas) has(tool string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.byName[tool]
	return ok
}

// listSchemas returns the tools by name, as far as the upstream lists them.
func (c *connection) listSchemas(ctx context.Context) map[string]listedTool {
	byName := map[string]listedTool{}
	_, tools, _ := c.listTools(ctx)
	for _, raw := range tools {
		var tool struct {
			Name        string          `json:"name"`
			InputSchema json.RawMessage `json:"inputSchema"`
			Annotations struct {
				ReadOnlyHint   bool `json:"readOnlyHint"`
				IdempotentHint bool `json:"idempotentHint"`
			} `json:"annotations"`
		}
		if json.Unmarshal(raw, &tool) == nil {
			repeats := tool.Annotations.ReadOnlyHint || tool.Annotations.IdempotentHint
			byName[tool.Name] = listedTool{schema: tool.InputSchema, repeats: repeats}
		}
	}
	return byName
}

// listTools returns the tools of all pages, and the first page with its other members. An error is about the first page
// that the upstream has not given, after the tools of those before.
func (c *connection) listTools(ctx context.Context) (first json.RawMessage, tools []json.RawMessage, err error) {
	cursor := ""
	for range maxPages {
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		if c.stateless() {
			params["_meta"] = ownMeta()
		}
		m, err := c.ask(ctx, wire.MethodListTools, wire.Compact(params))
		if err != nil {
			return first, tools, err
		}
		var page struct {
			Tools      []json.RawMessage `json:"tools"`
			NextCursor string            `json:"nextCursor"`
		}
		if m.Result == nil || json.Unmarshal(m.Result, &page) != nil {
			why := "the upstream does not list its tools"
			return first, tools, wire.Internal(wire.ReasonUnavailable, why)
		}
		if first == nil {
			first = m.Result
		}
		tools = append(tools, page.Tools...)
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	return first, tools, nil
}
