package mcptask_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"reprise"
	"reprise/mcp/mcphttp"
	"reprise/mcp/mcptask"
	"reprise/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a server whose tasks are served over mcphttp.
type fixture struct {
	t     *testing.T
	log   *reprise.Log
	tasks *mcptask.Tasks
	url   string
	ids   atomic.Int64
	close func()
}

func newLog(t *testing.T, store reprise.Store) *reprise.Log {
	t.Helper()
	log, err := reprise.Open(t.Context(), store, nil)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func newFixture(t *testing.T, opts *mcptask.Options) *fixture {
	log := newLog(t, memstore.New(nil))
	w := newFixtureOn(t, log, opts)
	t.Cleanup(func() { log.Close() })
	t.Cleanup(w.close)
	return w
}

// newFixtureOn returns a fixture on log. The caller closes it.
func newFixtureOn(t *testing.T, log *reprise.Log, opts *mcptask.Options) *fixture {
	t.Helper()
	return newFixtureWith(t, log, opts, func(*mcp.Server, *mcptask.Tasks) {})
}

// newFixtureWith is newFixtureOn with further tools.
func newFixtureWith(t *testing.T, log *reprise.Log, opts *mcptask.Options,
	addMore func(*mcp.Server, *mcptask.Tasks),
) *fixture {
	t.Helper()
	if opts == nil {
		opts = &mcptask.Options{}
	}
	opts.Poll = 100 * time.Millisecond
	tasks, err := mcptask.New(log, opts)
	if err != nil {
		t.Fatal(err)
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	addTools(server, tasks)
	addMore(server, tasks)
	if err := tasks.Install(server); err != nil {
		t.Fatal(err)
	}
	backend := mcptask.Backend(mcphttp.Server(func(*http.Request) *mcp.Server { return server }))
	handler, err := mcphttp.New(log, backend, &mcphttp.Options{
		Replica: opts.Replica,
		Identify: func(r *http.Request) (reprise.Tenant, string, error) {
			return reprise.DefaultTenant, r.Header.Get("X-User"), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(handler)
	return &fixture{t: t, log: log, tasks: tasks, url: web.URL, close: func() {
		tasks.Close()
		handler.Close()
		web.CloseClientConnections()
		web.Close()
		http.DefaultClient.CloseIdleConnections()
	}}
}

// patience bounds everything that a test waits for.
const patience = 2 * time.Minute

type seconds struct {
	Seconds float64 `json:"seconds,omitempty"`
	Label   string  `json:"label,omitempty"`
}

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func ask(message, field string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: message, RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{field: map[string]any{"type": "string"}},
	}}
}

// addTools adds what the public conformance suite asks for, and what our tests need besides.
func addTools(server *mcp.Server, tasks *mcptask.Tasks) {
	greet := func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Name string `json:"name"`
	},
	) (*mcp.CallToolResult, any, error) {
		return text("Hello, %s!", in.Name), nil, nil
	}
	mcp.AddTool(server, &mcp.Tool{Name: "greet"}, greet)
	slow := func(ctx context.Context, _ *mcp.CallToolRequest, in seconds) (*mcp.CallToolResult, any, error) {
		if err := sleep(ctx, time.Duration(in.Seconds*float64(time.Second))); err != nil {
			return nil, nil, err
		}
		return text("computed %s", in.Label), nil, nil
	}
	mcp.AddTool(server, &mcp.Tool{Name: "slow_compute"}, slow)
	tasks.Support("slow_compute", mcptask.Tool{})
	mcp.AddTool(server, &mcp.Tool{Name: "maybe_slow"}, slow)
	tasks.Support("maybe_slow", mcptask.Tool{After: patience})
	mcp.AddTool(server, &mcp.Tool{
		Name: "failing_job",
	}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return nil, nil, errors.New("it does not work")
	})
	tasks.Support("failing_job", mcptask.Tool{Required: true})
	server.AddTool(&mcp.Tool{
		Name:        "protocol_error_job",
		InputSchema: json.RawMessage(`{"type":"object"}`),
	}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		panic("protocol error")
	})
	tasks.Support("protocol_error_job", mcptask.Tool{})
	server.AddTool(&mcp.Tool{
		Name:        "coded_error",
		InputSchema: json.RawMessage(`{"type":"object"}`),
	}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, &jsonrpc.Error{Code: -32050, Message: "no quota", Data: json.RawMessage(`{"quota":1}`)}
	})
	tasks.Support("coded_error", mcptask.Tool{})
	mcp.AddTool(server, &mcp.Tool{Name: "long_result"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Bytes int `json:"bytes"`
	},
	) (*mcp.CallToolResult, any, error) {
		return text("%s", strings.Repeat("x", in.Bytes)), nil, nil
	})
	tasks.Support("long_result", mcptask.Tool{})
	addAskingTools(server, tasks)
}

// addHeld returns a function that adds tools whose calls return when release is closed: "held", whose calls become
// tasks at once, and "held_soon", whose calls become tasks shortly after.
func addHeld(release <-chan struct{}) func(*mcp.Server, *mcptask.Tasks) {
	return func(server *mcp.Server, tasks *mcptask.Tasks) {
		for name, opts := range map[string]mcptask.Tool{"held": {}, "held_soon": {After: 50 * time.Millisecond}} {
			mcp.AddTool(server, &mcp.Tool{
				Name: name,
			}, func(ctx context.Context, _ *mcp.CallToolRequest, in seconds) (*mcp.CallToolResult, any, error) {
				select {
				case <-release:
					return text("computed %s", in.Label), nil, nil
				case <-ctx.Done():
					return nil, nil, context.Cause(ctx)
				}
			})
			tasks.Support(name, opts)
		}
	}
}

func addAskingTools(server *mcp.Server, tasks *mcptask.Tasks) {
	raw := json.RawMessage(`{"type":"object"}`)
	// It knows nothing of tasks: it asks as the protocol has it.
	server.AddTool(&mcp.Tool{
		Name:        "confirm_delete",
		InputSchema: raw,
	}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer, ok := req.Params.InputResponses["confirm"].(*mcp.ElicitResult)
		if !ok {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"confirm": ask("Delete?", "confirm")}}, nil
		}
		return text("%s", answer.Action), nil
	})
	tasks.Support("confirm_delete", mcptask.Tool{})
	server.AddTool(&mcp.Tool{
		Name:        "multi_input",
		InputSchema: raw,
	}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		task := mcptask.FromContext(ctx)
		if err := task.Say(ctx, "asking"); err != nil {
			return nil, err
		}
		for range 2 { // the same keys, twice
			_, err := task.Ask(ctx, mcp.InputRequestMap{"first": ask("One?", "name"), "second": ask("Two?", "name")})
			if err != nil {
				return nil, err
			}
			if !strings.Contains(string(req(ctx)), "twice") {
				break
			}
		}
		return text("both"), nil
	})
	tasks.Support("multi_input", mcptask.Tool{})
	server.AddTool(&mcp.Tool{
		Name:        "test_tool_with_task",
		InputSchema: raw,
	}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer, ok := req.Params.InputResponses["user_name"].(*mcp.ElicitResult)
		if !ok {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"user_name": ask("Who?", "name")}}, nil
		}
		if _, err := mcptask.Begin(ctx); err != nil {
			return nil, err
		}
		return text("Hello, %v!", answer.Content["name"]), nil
	})
	tasks.Support("test_tool_with_task", mcptask.Tool{After: -1, Required: true})
}

// req is what the tool was called with, by the exchange that its context carries.
func req(ctx context.Context) []byte {
	if x := mcptask.Exchange(ctx); x != nil {
		return x.Messages[0].Params
	}
	return nil
}

// answer is a response.
type answer struct {
	Result struct {
		ResultType     string                     `json:"resultType"`
		TaskID         string                     `json:"taskId"`
		Status         mcptask.Status             `json:"status"`
		StatusMessage  string                     `json:"statusMessage"`
		TTLMs          *int64                     `json:"ttlMs"`
		PollIntervalMs int64                      `json:"pollIntervalMs"`
		InputRequests  map[string]json.RawMessage `json:"inputRequests"`
		Content        []map[string]any           `json:"content"`
		Capabilities   map[string]any             `json:"capabilities"`
		Result         *struct {
			Content []map[string]any `json:"content"`
			IsError bool             `json:"isError"`
		} `json:"result"`
		Error *jsonrpc.Error `json:"error"`
	} `json:"result"`
	Error *jsonrpc.Error `json:"error"`
}

const (
	withTasks = `{"extensions":{"io.modelcontextprotocol/tasks":{}},"elicitation":{}}`
	without   = `{}`
)

// body is a request of version 2026-07-28.
func (w *fixture) body(method, params, capabilities string) string {
	params = strings.TrimSuffix(strings.TrimSpace(params), "}")
	if params != "{" {
		params += ","
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s}}}`,
		w.ids.Add(1), method, params, capabilities)
}

func (w *fixture) request(ctx context.Context, user, method, params, capabilities string) *http.Request {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url,
		strings.NewReader(w.body(method, params, capabilities)))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("MCP-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", method)
	r.Header.Set("X-User", user)
	var named struct{ Name, TaskID string }
	_ = json.Unmarshal([]byte(params), &named)
	if name := named.Name + named.TaskID; name != "" {
		r.Header.Set("Mcp-Name", name)
	}
	return r
}

// send sends a request and returns the response.
func (w *fixture) send(user, method, params, capabilities string) answer {
	w.t.Helper()
	response, err := http.DefaultClient.Do(w.request(w.t.Context(), user, method, params, capabilities))
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(response.Body); err != nil {
		w.t.Fatal(err)
	}
	message := buf.Bytes()
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		message = nil
		for line := range strings.Lines(buf.String()) {
			if data, ok := strings.CutPrefix(line, "data:"); ok && strings.Contains(data, `"id"`) {
				message = []byte(data)
			}
		}
	}
	var a answer
	if err := json.Unmarshal(message, &a); err != nil {
		w.t.Fatalf("%s: %v in %q", method, err, buf.String())
	}
	return a
}

func (w *fixture) call(tool, arguments string) answer {
	w.t.Helper()
	return w.send("", "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments), withTasks)
}

func (w *fixture) get(id string) answer {
	w.t.Helper()
	return w.send("", "tasks/get", fmt.Sprintf(`{"taskId":%q}`, id), withTasks)
}

// until asks for a task until it is in a state.
func (w *fixture) until(id string, status mcptask.Status) answer {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		a := w.get(id)
		if a.Result.Status == status {
			return a
		}
		if time.Now().After(deadline) || a.Error != nil || a.Result.Status.Ended() {
			w.t.Fatalf("the task %s is %+v, want %s", id, a, status)
		}
	}
}

// task calls a tool, which must become a task.
func (w *fixture) task(tool, arguments string) string {
	w.t.Helper()
	a := w.call(tool, arguments)
	if a.Result.ResultType != "task" || a.Result.TaskID == "" {
		w.t.Fatalf("%s is answered with %+v, want a task", tool, a)
	}
	return a.Result.TaskID
}

func rpcError(err error) *jsonrpc.Error {
	e, _ := errors.AsType[*jsonrpc.Error](err)
	return e
}
