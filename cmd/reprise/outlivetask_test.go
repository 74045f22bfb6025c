package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reprise/client"
)

// mcpTask is what a client of version 2026-07-28 sees of a task.
type mcpTask struct {
	TaskID        string `json:"taskId"`
	Status        string `json:"status"`
	StatusMessage string `json:"statusMessage"`
	Result        *struct {
		IsError bool `json:"isError"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"result"`
	Error json.RawMessage `json:"error"`
}

// ask sends a request of version 2026-07-28 to the MCP endpoint of the server. name is that of the tool, or the id of
// the task.
func (o *outliving) ask(method, name, params string) mcpTask {
	o.t.Helper()
	return o.askAs(o.token(), method, name, params)
}

// askAs is ask with a token.
func (o *outliving) askAs(token, method, name, params string) mcpTask {
	o.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`,
		method, params)
	r, err := http.NewRequestWithContext(o.t.Context(), http.MethodPost, "http://"+o.daemon.addr+"/mcp",
		strings.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + token, "Content-Type": "application/json",
		"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method,
		"Mcp-Name": name,
	} {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		o.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	for line := range bytes.Lines(answer) { // of an answer that is a stream
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && bytes.Contains(data, []byte(`"result"`)) {
			answer = data
		}
	}
	var message struct {
		Result *mcpTask        `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(answer, &message); err != nil || message.Result == nil {
		o.t.Fatalf("%s %s is answered with %d, %s (%v)", method, name, response.StatusCode, answer, err)
	}
	return *message.Result
}

func (o *outliving) task(id string) mcpTask {
	o.t.Helper()
	return o.ask("tasks/get", id, fmt.Sprintf(`"taskId":%q`, id))
}

// startTask calls execute_code with a command that must become a task.
func (o *outliving) startTask(command string) string {
	o.t.Helper()
	task := o.ask("tools/call", "execute_code",
		fmt.Sprintf(`"name":"execute_code","arguments":{"command":%q}`, command))
	if task.TaskID == "" {
		o.t.Fatalf("the call did not become a task: %+v", task)
	}
	return task.TaskID
}

// untilTask waits for a status of a task.
func (o *outliving) untilTask(id, status string) mcpTask {
	o.t.Helper()
	var task mcpTask
	if !eventually(func() bool {
		task = o.task(id)
		return task.Status == status
	}) {
		o.t.Fatalf("the task is %+v, want %s", task, status)
	}
	return task
}

// TestTaskOfKilledServer: a server that is killed twice goes on with the MCP tasks of the commands, which have outlived
// it. The result has all output, each command has run once, and a task can still be cancelled.
func TestTaskOfKilledServer(t *testing.T) {
	t.Parallel()
	o := startOutliving(t)
	gate, count := filepath.Join(o.dir, "gate"), filepath.Join(o.dir, "count")
	done := o.startTask(fmt.Sprintf("echo begun; echo x >> %s; until [ -e %s ]; do sleep 0.02; done; echo done",
		count, gate))
	cancelled := o.startTask("echo begun; exec sleep 600")
	for range 2 {
		o.restart(0)
		for _, id := range []string{done, cancelled} {
			if task := o.task(id); task.Status != "working" {
				t.Fatalf("after a restart the task is %+v", task)
			}
		}
	}
	o.ask("tasks/cancel", cancelled, fmt.Sprintf(`"taskId":%q`, cancelled))
	o.untilTask(cancelled, "cancelled")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	task := o.untilTask(done, "completed")
	if task.Result == nil || task.Result.IsError || !strings.HasPrefix(task.Result.Content[0].Text, "begun\ndone\n") {
		t.Errorf("the task is %+v", task)
	}
	if text, err := os.ReadFile(count); err != nil || string(text) != "x\n" {
		t.Errorf("the command has run %q times (%v)", text, err)
	}
	ended := func() bool {
		list, err := o.client.List(t.Context(), client.ExecutionQuery{Status: "running"})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Executions) == 0
	}
	if !eventually(ended) {
		t.Error("the command of the cancelled task goes on")
	}
	http.DefaultClient.CloseIdleConnections()
}
