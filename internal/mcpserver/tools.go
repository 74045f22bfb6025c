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
	toolStatus  = "get_execution_status"
	toolStdin   = "send_stdin"
	toolCancel  = "cancel_execution"
	toolList    = "list_executions"
)

// addTools adds all tools.
func (s *Server) addTools() {
	yes, no := true, false
	runs := mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &yes}
	reads := mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no}
	add(s, &runs, toolExecute, "Run code",
		"Runs a shell command, a program with arguments, or code in a language, waits for its end, and returns its output and exit code. "+
			"Give exactly one of code, command and argv. Long output is cut in the middle. Where the call is cut off, send it again with the same idempotency_key.", s.execute)
	add(s, &runs, toolStart, "Start code",
		"Starts a run like execute_code and returns its execution_id at once. Read its output with get_execution_output.", s.executeAsync)
	add(s, &reads, toolOutput, "Read output",
		"Returns the output events of a run after a cursor, and a cursor to go on from; waits for output if asked to. "+
			"Nothing is lost or doubled if each call is given the cursor of the answer before.", s.output)
	add(s, &reads, toolStatus, "Show a run",
		"Returns how a run is: whether it has ended, how, and how much output it has.", s.status)
	add(s, &mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no}, toolStdin, "Write to a run",
		"Writes to the stdin of a run that was started with stdin_open.", s.stdin)
	add(s, &mcp.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &no}, toolCancel,
		"End a run",
		"Ends a run with all its processes: TERM, a time of grace, KILL. Its output stays.", s.cancel)
	add(s, &reads, toolList, "List runs", "Lists runs, the newest first.", s.list)
}

// add adds a tool whose errors have codes.
func add[In, Out any](s *Server, annotations *mcp.ToolAnnotations, name, title, description string,
	f mcp.ToolHandlerFor[In, Out],
) {
	mine := *annotations
	mine.Title = title
	tool := &mcp.Tool{Name: name, Title: title, Description: description, Annotations: &mine}
	mcp.AddTool(s.mcp, tool,
		func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
			result, out, err := f(ctx, req, in)
			if err != nil {
				err = s.failed(name, err)
			}
			return result, out, err
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
