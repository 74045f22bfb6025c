//lint:file-ignore SA1019 sampling, roots and logging are deprecated, and the suite asks for them.

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// addReporting adds tools that say something before they answer, or close the connection.
func addReporting(server *mcp.Server) {
	add(server, "test_tool_with_logging", "Logs three messages.",
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			for _, step := range []string{"started", "processing", "completed"} {
				if err := req.Session.Log(ctx,
					&mcp.LoggingMessageParams{Level: "info", Data: "The tool has " + step}); err != nil {
					return nil, err
				}
				time.Sleep(50 * time.Millisecond)
			}
			return text("Three messages were logged."), nil
		})
	add(server, "test_logging_tool", "Logs one message, if the client wants any.",
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			err := req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: "A message."})
			return text("One message was logged."), err
		})
	add(server, "test_tool_with_progress", "Reports progress three times.", progress)
	add(server, "test_streaming_elicitation", "Reports progress, and asks nothing.", progress)
	add(server, "test_reconnection", "Closes the connection, and answers when the client may be back.",
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if req.Extra != nil && req.Extra.CloseSSEStream != nil {
				req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
			}
			time.Sleep(100 * time.Millisecond)
			return text("The rest came after the connection was closed."), nil
		})
}

func progress(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	token := req.Params.GetProgressToken()
	for done := 0.0; token != nil && done <= 100; done += 50 {
		err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token, Progress: done, Total: 100, Message: fmt.Sprintf("Completed step %v of 100", done),
		})
		if err != nil {
			return nil, err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return text("The progress token was %v.", token), nil
}

// addChanging adds tools that change the lists of tools and of prompts, of which those are told who listen.
func addChanging(server *mcp.Server) {
	add(server, "test_trigger_tool_change", "Changes the list of tools.",
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			add(server, "added_tool", "Was added by test_trigger_tool_change.", always(text("It was added.")))
			return text("A tool was added."), nil
		})
	add(server, "test_trigger_prompt_change", "Changes the list of prompts.",
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			addPrompt(server, &mcp.Prompt{
				Name:        "added_prompt",
				Description: "Was added by test_trigger_prompt_change.",
			},
				"It was added.")
			return text("A prompt was added."), nil
		})
}
