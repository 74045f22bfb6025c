package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/datadir"
	"reprise/internal/serverproof"
	"reprise/internal/testserver"
	"reprise/mcp/mcphttp"
	"reprise/store/memstore"
)

// mcpClient starts "reprise mcp" on a data directory, and talks to it.
func mcpClient(t *testing.T, data, version string, flags ...string) *mcp.ClientSession {
	t.Helper()
	us, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "reprise") // the name by which TestMain knows what to be
	if err := os.Symlink(us, binary); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(binary, append([]string{"mcp", "--data", data}, flags...)...)
	command.Env = append(os.Environ(), "REPRISE_URL=", "REPRISE_TOKEN=")
	command.Stderr = t.Output()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: command, TerminateDuration: patience},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
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
			data := testserver.TempDir(t)
			session := mcpClient(t, data, version)
			if got := callText(t, session, "execute_code",
				map[string]any{"command": "echo hi"}); !strings.HasPrefix(got, "hi\n[execution ") {
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

// TestDefaultWait: execute_code, and get_execution_output until the end, answer after 30 s of the real clock if they
// name no wait and the command goes on, so that clients that give up after 60 s get an answer. The command goes on.
func TestDefaultWait(t *testing.T) {
	if !soaking() {
		t.Skip("it waits for a minute: make soak")
	}
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			session := mcpClient(t, testserver.TempDir(t), version)
			defer session.Close()
			waited := func(tool string, arguments map[string]any) string {
				begun := time.Now()
				text := callText(t, session, tool, arguments)
				if took := time.Since(begun); took < 30*time.Second || took > 50*time.Second {
					t.Errorf("%s took %v", tool, took)
				}
				return text
			}
			text := waited("execute_code", map[string]any{"command": "echo one; sleep 45; echo two; sleep 600"})
			_, id, _ := strings.Cut(text, "[execution ")
			id, _, _ = strings.Cut(id, " ")
			if !strings.HasPrefix(text, "one\n[") || !strings.Contains(text, "goes on after 30s") {
				t.Errorf("answered %q", text)
			}
			text = waited("get_execution_output", map[string]any{"execution_id": id, "until": "end"})
			if !strings.HasPrefix(text, "one\ntwo\n[") {
				t.Errorf("answered %q", text)
			}
			callText(t, session, "cancel_execution", map[string]any{"execution_id": id})
		})
	}
}

// proving answers challenges as a server that knows a token, and lets next answer everything else.
func proving(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != serverproof.Path {
			next.ServeHTTP(w, r)
			return
		}
		address := r.Context().Value(http.LocalAddrContextKey).(net.Addr).String()
		proof, err := serverproof.Answer(token, r.URL.Query().Get(serverproof.Param), address)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{serverproof.Member: proof})
	})
}

// TestMCPSendsTokenToProvenServerOnly: a program that listens at --url and does not know the token of the data
// directory receives a challenge and nothing else. The client is told the reason.
func TestMCPSendsTokenToProvenServerOnly(t *testing.T) {
	data := testserver.TempDir(t)
	if err := os.WriteFile(filepath.Join(data, datadir.TokenFile), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var sent []string
	squatter := httptest.NewServer(proving("another", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, r.RequestURI+" "+r.Header.Get("Authorization"))
	})))
	defer squatter.Close()
	us, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "reprise")
	if err := os.Symlink(us, binary); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), binary, "mcp", "--data", data, "--url", squatter.URL)
	command.Env = append(os.Environ(), "REPRISE_URL=", "REPRISE_TOKEN=")
	command.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":` +
		`"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}` + "\n")
	said, err := command.Output()
	if err != nil || !strings.Contains(string(said), serverproof.ErrUnproven.Error()) {
		t.Errorf("the client is told %q, and it ends with %v", said, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(sent) > 0 {
		t.Errorf("the squatter was sent %q", sent)
	}
}

// TestMCPOfAServer: with --url all is passed on, with the token of the data directory.
func TestMCPOfAServer(t *testing.T) {
	data := testserver.TempDir(t)
	if err := os.WriteFile(filepath.Join(data, datadir.TokenFile), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := reprise.Open(t.Context(), memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	server := mcp.NewServer(&mcp.Implementation{Name: "far", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "where"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, "there", nil
		})
	handler, err := mcphttp.New(log, mcphttp.Server(func(r *http.Request) *mcp.Server {
		if r.URL.Path != "/mcp" || r.Header.Get("Authorization") != "Bearer secret" {
			return nil
		}
		return server
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer handler.Close()
	web := httptest.NewServer(proving("secret", handler))
	defer web.Close()
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		session := mcpClient(t, data, version, "--url", web.URL)
		if got := callText(t, session, "where", nil); got != `"there"` {
			t.Errorf("answered %q", got)
		}
		if err := session.Close(); err != nil {
			t.Errorf("it ends with %v", err)
		}
	}
	web.CloseClientConnections()
}
