package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"reprise/internal/gateway/wire"
	"reprise/mcp/mcphttp"
)

// The tools of a gateway whose list is bounded by Upstream.MaxToolsBytes.
const (
	searchTool = "search_tools"
	// CallTool calls the tool that its argument "name" names: many clients call listed tools alone.
	CallTool = "call_tool"
)

// maxWords bounds the words of a search.
const maxWords = 32

// CalledTool returns the name of the tool that the params of a tools/call for CallTool name.
func CalledTool(params json.RawMessage) string {
	return wire.Text(wire.Members(params)["arguments"], "name")
}

// resolveCalls makes a call of CallTool the call of the tool that it names. All that follows sees that one.
func (u *Upstream) resolveCalls(messages []mcphttp.Message) {
	if u.MaxToolsBytes <= 0 {
		return
	}
	for i := range messages {
		m := &messages[i]
		if m.Method != wire.MethodCall || wire.Text(m.Params, "name") != CallTool {
			continue
		}
		name, inner := CalledTool(m.Params), wire.Members(wire.Members(m.Params)["arguments"])
		m.Params = wire.Edit(m.Params, func(params map[string]json.RawMessage) {
			params["name"] = wire.Compact(name)
			if delete(params, "arguments"); inner["arguments"] != nil {
				params["arguments"] = inner["arguments"]
			}
		})
		m.Raw = wire.Request(m.ID, m.Method, m.Params)
	}
}

// answerByBudget answers a request for the list of tools, or a search in it, if MaxToolsBytes bounds the list.
func (c *connection) answerByBudget(ctx context.Context, r *clientRequest) bool {
	u := &c.g.up
	searches := r.method == wire.MethodCall && wire.Text(r.params, "name") == searchTool
	if u.MaxToolsBytes <= 0 || !searches && r.method != wire.MethodListTools {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, u.StartTimeout)
	defer cancel()
	page, tools, err := c.listTools(ctx)
	if err != nil {
		r.fail(Refused, failureOf(err))
		return true
	}
	if len(u.Tools) > 0 {
		tools = u.onlyOffered(tools)
	}
	if searches {
		r.succeed(u.foundTools(tools, wire.Text(wire.Members(r.params)["arguments"], "query"), c.stateless()))
		return true
	}
	r.succeed(wire.Edit(page, func(m map[string]json.RawMessage) {
		delete(m, "nextCursor")
		m["tools"] = wire.Compact(u.withinBudget(tools))
	}))
	return true
}

// withinBudget returns the tools if they fit. Otherwise it returns the lists of the members that do, the shortest
// first, with the tools that find and call the others.
func (u *Upstream) withinBudget(tools []json.RawMessage) []json.RawMessage {
	sizes, counts := map[string]int64{}, map[string]int{}
	all := int64(0)
	for _, tool := range tools {
		from := u.memberOf(tool)
		sizes[from] += int64(len(tool)) + 1
		counts[from]++
		all += int64(len(tool)) + 1
	}
	if all <= u.MaxToolsBytes {
		return tools
	}
	names := slices.SortedFunc(maps.Keys(sizes), func(a, b string) int {
		return cmp.Or(cmp.Compare(sizes[a], sizes[b]), strings.Compare(a, b))
	})
	fits := 0
	for ; fits < len(names); fits++ {
		size := sizes[names[fits]]
		for _, own := range budgetTools(names[fits+1:], counts) {
			size += int64(len(own)) + 1
		}
		for _, name := range names[:fits] {
			size += sizes[name]
		}
		if size > u.MaxToolsBytes {
			break
		}
	}
	left := names[fits:]
	isLeft := func(tool json.RawMessage) bool { return slices.Contains(left, u.memberOf(tool)) }
	return append(slices.DeleteFunc(tools, isLeft), budgetTools(left, counts)...)
}

// memberOf returns the name of the merged upstream that a tool is of, or of the only one.
func (u *Upstream) memberOf(tool json.RawMessage) string {
	if len(u.Merge) == 0 {
		return u.Name
	}
	name, _, _ := strings.Cut(wire.Text(tool, "name"), "_")
	return name
}

// budgetTools describes the tools that find and call what the upstreams left, which have so many tools, offer.
func budgetTools(left []string, counts map[string]int) []json.RawMessage {
	var hidden []string
	for _, name := range left {
		hidden = append(hidden, fmt.Sprintf("%s (%d)", name, counts[name]))
	}
	text := map[string]any{"type": "string"}
	return []json.RawMessage{
		wire.Compact(map[string]any{
			"name": searchTool,
			"description": "Finds tools that are not listed, by words of their names and descriptions, and returns " +
				"their input schemas. They are of: " + strings.Join(hidden, ", ") +
				". Call what is found with " + CallTool + ".",
			"inputSchema": map[string]any{
				"type": "object", "properties": map[string]any{"query": text}, "required": []string{"query"},
			},
			"annotations": map[string]any{"readOnlyHint": true},
		}),
		wire.Compact(map[string]any{
			"name":        CallTool,
			"description": "Calls a tool that " + searchTool + " has found, with arguments by its input schema.",
			"inputSchema": map[string]any{
				"type": "object", "required": []string{"name"},
				"properties": map[string]any{"name": text, "arguments": map[string]any{"type": "object"}},
			},
		}),
	}
}

// foundTools returns the result of a search: the tools with most of its words, which count twice in a name, up to the
// bound.
func (u *Upstream) foundTools(tools []json.RawMessage, query string, stateless bool) json.RawMessage {
	words := strings.Fields(strings.ToLower(query))
	words = words[:min(len(words), maxWords)]
	type match struct {
		tool  map[string]json.RawMessage
		score int
	}
	var matches []match
	for _, raw := range tools {
		m := match{tool: wire.Members(raw)}
		name, about := strings.ToLower(wire.Text(raw, "name")), strings.ToLower(wire.Text(raw, "description"))
		for _, word := range words {
			if strings.Contains(name, word) {
				m.score += 2
			} else if strings.Contains(about, word) {
				m.score++
			}
		}
		if m.score > 0 || len(words) == 0 {
			matches = append(matches, m)
		}
	}
	slices.SortStableFunc(matches, func(a, b match) int { return b.score - a.score })
	found, size := []json.RawMessage{}, int64(0)
	for _, m := range matches {
		maps.DeleteFunc(m.tool, func(key string, _ json.RawMessage) bool {
			return key != "name" && key != "description" && key != "inputSchema"
		})
		tool := wire.Compact(m.tool)
		if size += int64(len(tool)) + 1; len(found) > 0 && size > u.MaxToolsBytes {
			break
		}
		found = append(found, tool)
	}
	answer := wire.Compact(map[string]any{"tools": found, "left_out": len(matches) - len(found)})
	result := map[string]any{"content": []map[string]string{{"type": "text", "text": string(answer)}}}
	if stateless {
		result["resultType"] = "complete"
	}
	return wire.Compact(result)
}
