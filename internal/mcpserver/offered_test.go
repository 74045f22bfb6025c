package mcpserver_test

//lint:file-ignore SA1019 the versions before 2026-07-28 have logging

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// inMemory is a client of the server without HTTP between them, as on stdio.
func (w *fixture) inMemory(version string) *mcp.ClientSession {
	w.t.Helper()
	ours, theirs := mcp.NewInMemoryTransports()
	done := make(chan error, 1)
	go func() { done <- w.server.Run(w.t.Context(), theirs) }()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(w.t.Context(), ours, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { session.Close(); <-done })
	return session
}

// TestCapabilitiesAndMethodsAgree: a method without a capability does not exist, and the others do.
func TestCapabilitiesAndMethodsAgree(t *testing.T) {
	w := newFixture(t, nil)
	for name, session := range map[string]*mcp.ClientSession{
		"HTTP": w.session("2025-11-25", "", nil), "modern": w.session("2026-07-28", "", nil),
		"stdio": w.inMemory("2025-11-25"),
	} {
		if c := session.InitializeResult(); c != nil && (c.Capabilities.Prompts != nil ||
			c.Capabilities.Logging != nil || c.Capabilities.Completions != nil ||
			c.Capabilities.Resources == nil || c.Capabilities.Resources.Subscribe) {
			t.Errorf("%s: capabilities %+v", name, c.Capabilities)
		}
		_, err := session.ListPrompts(t.Context(), nil)
		_, err2 := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "x"})
		_, err3 := session.Complete(t.Context(), &mcp.CompleteParams{
			Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "x"},
		})
		for _, err := range []error{err, err2, err3} {
			if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != jsonrpc.CodeMethodNotFound {
				t.Errorf("%s: answered with %v", name, err)
			}
		}
		if _, err := session.ListResources(t.Context(), nil); err != nil {
			t.Errorf("%s: resources/list: %v", name, err)
		}
		if _, err := session.ListResourceTemplates(t.Context(), nil); err != nil {
			t.Errorf("%s: resources/templates/list: %v", name, err)
		}
	}
}

// TestPanicOverStdio: a tool that panics does not end the process.
func TestPanicOverStdio(t *testing.T) {
	w := newFixture(t, nil)
	mcp.AddTool(w.server.MCP(), &mcp.Tool{Name: "panics"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) { panic("oops") })
	c := &caller{t, w.inMemory("2025-11-25")}
	_, err := c.session.CallTool(t.Context(), &mcp.CallToolParams{Name: "panics"})
	if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != jsonrpc.CodeInternalError {
		t.Errorf("answered with %v", err)
	}
	if text := c.call("execute_code", args{"command": "echo on"}, nil); !strings.HasPrefix(text, "on\n") {
		t.Errorf("the next call: %q", text)
	}
}

// TestVersionOverStdio: a version that is not listed is not agreed to.
func TestVersionOverStdio(t *testing.T) {
	said := converse(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if !strings.Contains(said, `"protocolVersion": "2025-11-25"`) {
		t.Errorf("answered with %s", said)
	}
}
