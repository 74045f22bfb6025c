package mcptask_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/mcp/mcptask"
	"reprise/store/memstore"
)

// TestClientsThatKnowNoTasks: the client of the SDK, which has no extension to declare, on both eras.
func TestClientsThatKnowNoTasks(t *testing.T) {
	w := newFixture(t, nil)
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
			session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: w.url},
				&mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			result, err := session.CallTool(t.Context(),
				&mcp.CallToolParams{Name: "slow_compute", Arguments: map[string]any{"seconds": 0.1, "label": version}})
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
	w := newFixture(t, nil)
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
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: w.url},
		&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	got, err := session.CallTool(t.Context(),
		&mcp.CallToolParams{Name: "slow_compute", Arguments: map[string]any{"label": "x"}})
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

// TestPrincipalsOfTheSDK: without mcphttp, a task belongs to the user of the token.
func TestPrincipalsOfTheSDK(t *testing.T) {
	log := newLog(t, memstore.New(nil))
	defer log.Close()
	tasks, err := mcptask.New(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tasks.Close()
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	addTools(server, tasks)
	if err := tasks.Install(server); err != nil {
		t.Fatal(err)
	}
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true})
	users := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+r.Header.Get("X-User"))
		auth.RequireBearerToken(verify, nil)(handler).ServeHTTP(w, r)
	})
	web := httptest.NewServer(users)
	defer web.Close()
	defer http.DefaultClient.CloseIdleConnections()
	w := &fixture{t: t, url: web.URL}
	id := w.send("alice", "tools/call", `{"name":"slow_compute","arguments":{}}`, withTasks).Result.TaskID
	if a := w.send("alice", "tasks/get", `{"taskId":"`+id+`"}`, withTasks); a.Error != nil || a.Result.TaskID != id {
		t.Errorf("alice: %+v", a)
	}
	if a := w.send("bob", "tasks/get", `{"taskId":"`+id+`"}`, withTasks); a.Error == nil || a.Error.Code != -32602 {
		t.Errorf("bob: %+v", a)
	}
}
