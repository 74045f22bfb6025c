package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpClient starts "reprise mcp" on a data directory, and talks to it.
func mcpClient(t *testing.T, data, version string, flags ...string) *mcp.ClientSession {
	t.Helper()
	us, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	reprise := filepath.Join(t.TempDir(), "reprise") // the name by which TestMain knows what to be
	if err := os.Symlink(us, reprise); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(reprise, append([]string{"mcp", "--data", data}, flags...)...)
	command.Stderr = t.Output()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: command}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func callText(t *testing.T, session *mcp.ClientSession, tool string, arguments map[string]any) string {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	return result.Content[0].(*mcp.TextContent).Text
}

// TestMCP: a client over stdio, and what it finds after a restart.
func TestMCP(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			data := t.TempDir()
			session := mcpClient(t, data, version)
			if got := callText(t, session, "execute_code", map[string]any{"command": "echo hi"}); !strings.HasPrefix(got, "hi\n[execution ") {
				t.Errorf("answered %q", got)
			}
			callText(t, session, "execute_code_async", map[string]any{"command": "sleep 60"})
			if err := session.Close(); err != nil {
				t.Errorf("it ends with %v", err)
			}
			session = mcpClient(t, data, version)
			defer session.Close()
			got := callText(t, session, "list_executions", nil)
			if !strings.Contains(got, "exited with code 0") || !strings.Contains(got, "cancelled") {
				t.Errorf("after a restart there is %q", got)
			}
		})
	}
}
