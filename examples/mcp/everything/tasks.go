package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/mcp/mcptask"
)

// addTasks adds tools whose calls become tasks, for clients that know them.
func addTasks(server *mcp.Server, tasks *mcptask.Tasks) {
	addWith(server, "greet", "Greets; never a task.", string(object(`{"name":{"type":"string"}}`)),
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var in struct{ Name string }
			if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
				return nil, err
			}
			return text("Hello, %s!", in.Name), nil
		})
	addWith(server, "slow_compute", "Takes as long as it is told.",
		string(object(`{"seconds":{"type":"number"},"label":{"type":"string"}}`)), compute)
	tasks.Support("slow_compute", mcptask.Tool{})
	add(server, "failing_job", "Fails; always a task.",
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			failed := text("It does not work.")
			failed.IsError = true
			return failed, nil
		})
	tasks.Support("failing_job", mcptask.Tool{Required: true})
	add(server, "protocol_error_job", "Ends with an error of the protocol.",
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "this tool never has a result"}
		})
	tasks.Support("protocol_error_job", mcptask.Tool{})
	// It knows nothing of tasks: it asks as the protocol has it.
	add(server, "confirm_delete", "Asks whether it may.",
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if answer, ok := req.Params.InputResponses["confirm"].(*mcp.ElicitResult); ok {
				return text("The user has said %s.", answer.Action), nil
			}
			return want(mcp.InputRequestMap{"confirm": form("Delete?", "confirm", "boolean")}, ""), nil
		})
	tasks.Support("confirm_delete", mcptask.Tool{})
	add(server, "multi_input", "Asks two things at a time.", askAsTask)
	tasks.Support("multi_input", mcptask.Tool{})
	add(server, "test_tool_with_task", "Asks first, and becomes a task then.",
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			answer, ok := req.Params.InputResponses["user_name"].(*mcp.ElicitResult)
			if !ok {
				return want(mcp.InputRequestMap{"user_name": form("What is your name?", "name", "string")}, ""), nil
			}
			if _, err := mcptask.Begin(ctx); err != nil {
				return nil, err
			}
			return text("Hello, %v!", answer.Content["name"]), nil
		})
	tasks.Support("test_tool_with_task", mcptask.Tool{After: -1, Required: true})
}

func compute(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct {
		Seconds float64
		Label   string
	}
	if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
		return nil, err
	}
	select {
	case <-time.After(time.Duration(in.Seconds * float64(time.Second))):
		return text("computed %s", in.Label), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func askAsTask(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	task := mcptask.FromContext(ctx)
	if task == nil {
		return nil, errors.New("this tool works as a task alone")
	}
	answers, err := task.Ask(ctx,
		mcp.InputRequestMap{"first": form("One?", "name", "string"), "second": form("Two?", "name", "string")})
	if err != nil {
		return nil, err
	}
	return text("There were %d answers.", len(answers)), nil
}
