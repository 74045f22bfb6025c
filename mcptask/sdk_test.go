package mcptask_test

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestClientsThatKnowNoTasks: the client of the SDK, which has no extension to declare, on both eras.
func TestClientsThatKnowNoTasks(t *testing.T) {
	w := newWorld(t, nil)
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
			session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: w.url}, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "slow_compute", Arguments: map[string]any{"seconds": 0.1, "label": version}})
			if err != nil || result.IsError || result.Content[0].(*mcp.TextContent).Text != "computed "+version {
				t.Errorf("%+v, %v", result, err)
			}
			if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "failing_job"}); err == nil {
				t.Error("a tool that needs tasks is called")
			}
		})
	}
}

// TestOldVersions: the extension does not exist there, whatever the client declares.
func TestOldVersions(t *testing.T) {
	w := newWorld(t, nil)
	options := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}
	options.Capabilities.AddExtension("io.modelcontextprotocol/tasks", nil)
	client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, options)
	type params struct {
		mcp.ParamsBase
		TaskID string `json:"taskId"`
	}
	type result struct{ mcp.ResultBase }
	if err := mcp.AddSendingCustomMethod[*params, *result](client, "tasks/get"); err != nil {
		t.Fatal(err)
	}
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: w.url}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "slow_compute", Arguments: map[string]any{"label": "x"}})
	if err != nil || got.Content[0].(*mcp.TextContent).Text != "computed x" {
		t.Errorf("%+v, %v", got, err)
	}
	if session.InitializeResult().Capabilities.Extensions != nil {
		t.Error("the extension is declared")
	}
	_, err = mcp.CallCustomMethod[*params, *result](t.Context(), session, "tasks/get", &params{TaskID: "x"})
	if e := rpcError(err); e == nil || e.Code != -32601 {
		t.Errorf("tasks/get: %v", err)
	}
}
