package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The names of the tools.
const (
	toolExecute = "execute_code"
	toolStart   = "execute_code_async"
	toolOutput  = "get_execution_output"
	toolSearch  = "search_execution_output"
	toolStatus  = "get_execution_status"
	toolStdin   = "send_stdin"
	toolCancel  = "cancel_execution"
	toolList    = "list_executions"
)

// addTools adds all tools. Their descriptions are short, because a model reads all of them before each task.
func (s *Server) addTools() {
	yes, no := true, false
	runs := mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &yes}
	reads := mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no}
	add(s, &runs, toolExecute, "Run code",
		"Runs exactly one of code, command and argv, and returns output and exit code. What takes longer than wait_seconds "+
			"goes on: the answer has its execution_id, the output so far, and a cursor for get_execution_output. "+
			"Background processes end with it.",
		s.execute)
	add(s, &runs, toolStart, "Start code",
		"Starts what execute_code runs and returns its execution_id at once.", s.executeAsync)
	add(s, &reads, toolOutput, "Read output",
		"Returns the output of a run after a cursor, and the next cursor. With wait and until it waits for output, "+
			"for the end or for a match.", s.output)
	add(s, &reads, toolSearch, "Search output",
		"Returns the lines of output that match, and lines around them.", s.search)
	add(s, &reads, toolStatus, "Show a run", "Returns whether a run has ended, and how.", s.status)
	add(s, &mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no}, toolStdin, "Write to a run",
		"Writes to the stdin of a run with stdin_open. With wait, until, match or cursor it also "+
			"returns the output.", s.stdin)
	add(s, &mcp.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &no}, toolCancel,
		"End a run", "Ends a run and all its processes. Its output stays.", s.cancel)
	add(s, &reads, toolList, "List runs", "Lists runs, the newest first.", s.list)
}

// add adds a tool whose errors have codes. The tool has no output schema: a model reads text, and hosts show it either
// the text or the structured content. Tools therefore have no structured content unless it is requested.
func add[In any](s *Server, annotations *mcp.ToolAnnotations, name, title, description string,
	f mcp.ToolHandlerFor[In, any],
) {
	mine := *annotations
	mine.Title = title
	schema := inputSchema[In]()
	s.schemas[name] = schema
	tool := &mcp.Tool{Name: name, Title: title, Description: description, Annotations: &mine, InputSchema: schema}
	mcp.AddTool(s.mcp, tool,
		func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
			result, out, err := f(ctx, req, in)
			if err != nil {
				return nil, nil, s.failed(name, err)
			}
			return result, out, nil
		})
}

// given reports whether an argument was given, be it zero.
func given(req *mcp.CallToolRequest, argument string) bool {
	var arguments map[string]json.RawMessage
	if json.Unmarshal(req.Params.Arguments, &arguments) != nil {
		return false
	}
	_, ok := arguments[argument]
	return ok
}
