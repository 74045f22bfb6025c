package gateway

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"reprise/mcphttp"
)

// schemaKept is how long what an upstream says of its tools is taken as true.
const schemaKept = 30 * time.Second

// toolSchemas are what the tools of an upstream take.
type toolSchemas struct {
	mu    sync.Mutex
	read  time.Time
	input map[string]json.RawMessage
}

// InputSchema implements mcphttp.Backend. It is what the upstream has said within the last 30 seconds.
func (g *Gateway) InputSchema(ctx context.Context, x *mcphttp.Exchange, tool string) (json.RawMessage, error) {
	if !x.Stateless() {
		return nil, nil // older versions have no headers for arguments
	}
	p, err := g.pooled(ctx, x)
	if err != nil {
		return nil, nil //nolint:nilerr // Serve says so in the form of the protocol
	}
	key := g.poolKey(x)
	g.mu.Lock()
	t := g.schemas[key]
	if t == nil {
		t = &toolSchemas{}
		g.schemas[key] = t
	}
	g.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.input != nil && time.Since(t.read) < schemaKept {
		return t.input[tool], nil
	}
	asking, cancel := context.WithTimeout(ctx, g.up.StartTimeout)
	defer cancel()
	input := p.inputSchemas(asking)
	if asking.Err() == nil {
		t.input, t.read = input, time.Now()
	}
	return input[tool], nil
}

// maxPages bounds the answers to tools/list that are read.
const maxPages = 100

// inputSchemas asks an upstream for its tools. Without an answer it has none.
func (p *peer) inputSchemas(ctx context.Context) map[string]json.RawMessage {
	input := map[string]json.RawMessage{}
	cursor := ""
	for range maxPages {
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		if p.version == version20260728 {
			params["_meta"] = ourMeta()
		}
		m, err := p.ask(ctx, methodListTools, compact(params))
		var page struct {
			Tools []struct {
				Name        string          `json:"name"`
				InputSchema json.RawMessage `json:"inputSchema"`
			} `json:"tools"`
			NextCursor string `json:"nextCursor"`
		}
		if err != nil || m.Result == nil || json.Unmarshal(m.Result, &page) != nil {
			return input
		}
		for _, tool := range page.Tools {
			input[tool.Name] = tool.InputSchema
		}
		if cursor = page.NextCursor; cursor == "" {
			return input
		}
	}
	return input
}
