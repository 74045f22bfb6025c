package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/api"
	"reprise/internal/mcpapi"
	"reprise/internal/roster"
	"reprise/mcp/mcphttp"
	"reprise/mcp/mcptask"
)

// started is when the servers of the tests have started.
var started = time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)

// openTasks serves a tool whose calls become tasks, and a list of replicas with this server.
func (w *fixture) openTasks(opts *api.Options) (closeAll func()) {
	w.Helper()
	var life func(reprise.Tenant, string) context.Context
	if w.keys != nil {
		life = w.keys.Life
	}
	tasks, err := mcptask.New(w.log, &mcptask.Options{Life: life})
	w.ok(err)
	server := mcp.NewServer(&mcp.Implementation{Name: "tasks", Version: "1"}, nil)
	type input struct {
		Execution string `json:"execution,omitempty"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "wait"},
		func(ctx context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
			if err := mcptask.Note(ctx, in); err != nil {
				return nil, nil, err
			}
			if err := mcptask.FromContext(ctx).Say(ctx, "waits in "+in.Execution); err != nil {
				return nil, nil, err
			}
			<-ctx.Done()
			return nil, nil, context.Cause(ctx)
		})
	tasks.Support("wait", mcptask.Tool{})
	w.ok(tasks.Install(server))
	backend := mcptask.Backend(mcphttp.Server(func(*http.Request) *mcp.Server { return server }))
	handler, err := mcphttp.New(w.log, backend,
		&mcphttp.Options{Name: "tasks", Identify: func(r *http.Request) (reprise.Tenant, string, error) {
			return reprise.DefaultTenant, r.Header.Get("X-User"), nil
		}})
	w.ok(err)
	w.mcp, w.tasks = handler, tasks
	executionOf := func(note json.RawMessage) string {
		var in input
		_ = json.Unmarshal(note, &in)
		return in.Execution
	}
	opts.Parts = append(opts.Parts, mcpapi.Tasks{{Name: "tasks", Tasks: tasks, Execution: executionOf}})
	servers := roster.New(roster.Options{Name: "alone", About: func() roster.About {
		return roster.About{
			URL: "http://127.0.0.1:1", Version: "test", Started: started,
			Running: w.host.Counts().Running, Streams: w.log.Memory().Streams,
		}
	}})
	opts.Parts = append(opts.Parts, roster.API{Roster: servers})
	return func() {
		w.ok(handler.Close())
		w.ok(tasks.Close())
	}
}

// task makes a task of a principal of the default tenant that waits in an execution, and returns its id.
func (w *fixture) task(principal, execution string) string {
	w.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{"execution":%q},`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{%q:{}}}}}}`, execution, mcptask.Extension)
	r := httptest.NewRequestWithContext(w.Context(), http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "wait", "X-User": principal,
	} {
		r.Header.Set(name, value)
	}
	answer := httptest.NewRecorder()
	w.mcp.ServeHTTP(answer, r)
	_, text, _ := strings.Cut(answer.Body.String(), `"taskId":"`)
	id, _, ok := strings.Cut(text, `"`)
	if !ok {
		w.Fatalf("the call has become no task: %d %s", answer.Code, answer.Body)
	}
	w.eventually("the tool runs", func() bool {
		info, err := w.tasks.Show(w.Context(), reprise.DefaultTenant, id)
		return err == nil && info.Message != ""
	})
	return id
}

// TestTasks: tasks are listed in pages, shown and cancelled by those who have created them, and by administrators.
func TestTasks(t *testing.T) {
	w := start(t, setup{})
	annID, ann := w.key(reprise.DefaultTenant, "read", "control", "publish", "run")
	_, ben := w.key(reprise.DefaultTenant, "read", "control", "publish", "run")
	blindID, blind := w.key(reprise.DefaultTenant, "control")
	bens := w.task("other", "")
	first, second := w.task("test."+annID, "x1"), w.task("test."+annID, "")
	blinds := w.task("test."+blindID, "")
	all := []string{blinds, second, first, bens}

	if a := w.do("GET", "/v1/tasks", "").is(200); names(a, "tasks", "id") != strings.Join(all, " ") {
		t.Errorf("the token lists %s, want %v", a.body, all)
	}
	var paged []string
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		a := w.do("GET", "/v1/tasks?limit=3&cursor="+cursor, "").is(200)
		paged = append(paged, strings.Fields(names(a, "tasks", "id"))...)
		if cursor = a.text("next_cursor"); pages > 5 {
			t.Fatalf("the pages do not end: %s", a.body)
		}
	}
	if !slices.Equal(paged, all) {
		t.Errorf("in pages: %v, want %v", paged, all)
	}
	w.do("GET", "/v1/tasks?cursor=x", "").refused(400, "invalid")

	w.with(ann, func() {
		a := w.do("GET", "/v1/tasks?limit=2", "").is(200)
		if names(a, "tasks", "id") != second+" "+first || a.text("next_cursor") != "" {
			t.Errorf("their principal lists %s", a.body)
		}
		a = w.do("GET", "/v1/tasks/"+first, "").is(200)
		for _, part := range []string{
			`"endpoint":"tasks"`, `"tool":"wait"`, `"status":"working"`, `"message":"waits in x1"`, `"execution":"x1"`,
			`"expires":null`, `"ttl_ms":null`, `"execution":"/v1/executions/x1"`, `"principal":"test.` + annID + `"`,
		} {
			if !strings.Contains(a.body, part) {
				t.Errorf("no %s in %s", part, a.body)
			}
		}
	})
	absent := strings.Repeat("A", len(first))
	w.with(ben, func() {
		if a := w.do("GET", "/v1/tasks", "").is(200); names(a, "tasks", "id") != "" {
			t.Errorf("another principal lists %s", a.body)
		}
		for _, id := range []string{first, absent} {
			w.do("GET", "/v1/tasks/"+id, "").refused(404, "not_found")
			w.do("POST", "/v1/tasks/"+id+"/cancel", "").refused(404, "not_found")
		}
	})
	w.with(blind, func() {
		w.do("GET", "/v1/tasks/"+blinds, "").refused(403, "forbidden")
		w.do("POST", "/v1/tasks/"+blinds+"/cancel", "").is(204)
	})
	w.do("POST", "/v1/tasks/"+first+"/cancel", "").is(204) // by an administrator
	for _, id := range []string{blinds, first} {
		w.eventually("it is cancelled", func() bool {
			a := w.do("GET", "/v1/tasks/"+id, "").is(200)
			return a.text("status") == "cancelled" && !strings.Contains(a.body, `"ttl_ms":null`)
		})
	}
	w.do("POST", "/v1/tasks/"+first+"/cancel", "").is(204) // has no effect
	if a := w.do("GET", "/v1/tasks/"+second, "").is(200); a.text("status") != "working" {
		t.Errorf("one that nobody has cancelled: %s", a.body)
	}
}

// TestReplicas: the servers of a store are listed to administrators.
func TestReplicas(t *testing.T) {
	w := start(t, setup{})
	w.fill(reprise.DefaultTenant, hidden{"mine", "a-mine", "a-mine"})
	w.eventually("its execution is counted", func() bool {
		return strings.Contains(w.do("GET", "/v1/replicas", "").is(200).body, `"executions":{"running":1,"queued":0}`)
	})
	a := w.do("GET", "/v1/replicas", "").is(200)
	for _, part := range []string{
		`"id":"alone"`, `"self":true`, `"answers":true`, `"version":"test"`, `"started":"2026-11-23T08:00:00.000Z"`,
		`"last_heartbeat":null`, `"url":"http://127.0.0.1:1"`, `"next_cursor":""`,
	} {
		if !strings.Contains(a.body, part) {
			t.Errorf("no %s in %s", part, a.body)
		}
	}
	if a := w.do("GET", "/v1/replicas?cursor=alone", "").is(200); names(a, "replicas", "id") != "" {
		t.Errorf("after the last: %s", a.body)
	}
	w.do("GET", "/v1/replicas?limit=0", "").refused(400, "invalid")
	_, key := w.key(reprise.DefaultTenant, "read", "control", "publish", "run")
	w.with(key, func() { w.do("GET", "/v1/replicas", "").refused(403, "forbidden") })
}
