package mcpserver_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/mcpserver"
	"reprise/mcp/mcptask"
	"reprise/store/sqlitestore"
)

// task is what is on the wire of a task.
type task struct {
	ResultType    string         `json:"resultType"`
	TaskID        string         `json:"taskId"`
	Status        mcptask.Status `json:"status"`
	StatusMessage string         `json:"statusMessage"`
	Result        *taskResult    `json:"result"`
}

// taskResult is the result of execute_code that a task has.
type taskResult struct {
	IsError bool `json:"isError"`
	Content []struct{ Text string }
	Meta    struct {
		Execution executed `json:"reprise/execution"`
	} `json:"_meta"`
}

// executed is what the task has executed.
func (r *taskResult) executed() executed {
	x := r.Meta.Execution
	if len(r.Content) > 0 {
		x.fill(r.Content[0].Text)
	}
	return x
}

// raw sends a request of version 2026-07-28 by a client that knows tasks.
func (w *fixture) raw(method, params string) task {
	w.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`,
		method, params)
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	var named struct{ Name, TaskID string }
	if err := json.Unmarshal([]byte("{"+params+"}"), &named); err != nil {
		w.t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28",
		"Mcp-Method":           method, "Mcp-Name": named.Name + named.TaskID,
	} {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	scanner := bufio.NewScanner(bytes.NewReader(text))
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		line := strings.TrimPrefix(scanner.Text(), "data:")
		var m struct {
			Result *task
			Error  any
		}
		if json.Unmarshal([]byte(line), &m) == nil && (m.Result != nil || m.Error != nil) {
			if m.Error != nil {
				w.t.Fatalf("%s: %v", method, m.Error)
			}
			return *m.Result
		}
	}
	w.t.Fatalf("%s is answered with %q", method, text)
	return task{}
}

func (w *fixture) untilEnded(id string) task {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		got := w.raw("tasks/get", fmt.Sprintf(`"taskId":%q`, id))
		if got.Status.Ended() {
			return got
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("the task is %+v", got)
		}
	}
}

func TestShortRunsAreNoTasks(t *testing.T) {
	w := newFixture(t, &mcpserver.Options{TaskAfter: time.Minute})
	if got := w.raw("tools/call",
		`"name":"execute_code","arguments":{"command":"true"}`); got.ResultType != "complete" {
		t.Errorf("a short one: %+v", got)
	}
}

func TestLongRunsBecomeTasks(t *testing.T) {
	w := newFixture(t, &mcpserver.Options{TaskAfter: 100 * time.Millisecond})
	created := w.raw("tools/call", `"name":"execute_code","arguments":{"command":"echo begun; sleep 2; echo done"}`)
	if created.ResultType != "task" {
		t.Fatalf("a long one: %+v", created)
	}
	// Its output can be read while it runs.
	id := ""
	for deadline := time.Now().Add(patience); id == ""; time.Sleep(10 * time.Millisecond) {
		said := w.raw("tasks/get", fmt.Sprintf(`"taskId":%q`, created.TaskID)).StatusMessage
		if _, rest, ok := strings.Cut(said, "Execution "); ok {
			id, _, _ = strings.Cut(rest, " ")
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is said %q", said)
		}
	}
	if got := w.caller("2025-11-25", "").all(id, "", "stdout"); got != "begun\ndone\n" {
		t.Errorf("output: %q", got)
	}
	got := w.untilEnded(created.TaskID)
	if got.Status != mcptask.Completed || got.Result.executed().Stdout.Text != "begun\ndone\n" ||
		got.Result.executed().ID != id {
		t.Errorf("in the end: %+v", got)
	}
}

func TestCancelledTask(t *testing.T) {
	w := newFixture(t, &mcpserver.Options{TaskAfter: 50 * time.Millisecond})
	created := w.raw("tools/call", `"name":"execute_code","arguments":{"command":"sleep 60"}`)
	w.raw("tasks/cancel", fmt.Sprintf(`"taskId":%q`, created.TaskID))
	if got := w.untilEnded(created.TaskID); got.Status != mcptask.Cancelled {
		t.Errorf("the task: %+v", got)
	}
	c := w.caller("2025-11-25", "")
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var list struct{ Executions []executed }
		c.call("list_executions", nil, &list)
		if len(list.Executions) == 1 && list.Executions[0].Outcome == "cancelled" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the run: %+v", list)
		}
	}
}

// TestRestartEndsTasksWithTheirOutput: the server dies with a run. Its task says what there was, and so do the tools.
func TestRestartEndsTasksWithTheirOutput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	open := func() (*sqlitestore.Store, *fixture) {
		store, err := sqlitestore.Open(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		keys, err := reprise.LoadKeyset(path + ".keys")
		if err != nil {
			t.Fatal(err)
		}
		log, err := reprise.Open(t.Context(), store, &reprise.Options{Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		return store, newFixtureOn(t, log, &mcpserver.Options{TaskAfter: 50 * time.Millisecond})
	}
	store, w := open()
	created := w.raw("tools/call", `"name":"execute_code","arguments":{"command":"echo begun; sleep 60"}`)
	var list struct{ Executions []executed }
	c := w.caller("2025-11-25", "")
	until(t, "it is started", func() bool {
		c.call("list_executions", nil, &list)
		return len(list.Executions) == 1
	})
	var page read
	c.call("get_execution_output", args{"execution_id": list.Executions[0].ID, "wait": 5}, &page)
	for len(page.Events) < 2 {
		c.call("get_execution_output", args{"execution_id": list.Executions[0].ID, "wait": 5}, &page)
	}
	for deadline := time.Now().Add(patience); w.raw("tasks/get",
		fmt.Sprintf(`"taskId":%q`, created.TaskID)).StatusMessage == ""; {
		if time.Now().After(deadline) {
			t.Fatal("the task does not know its run")
		}
	}
	c.session.Close()
	w.log.Close() // the store is gone first, as it is for one that is killed
	w.close()
	store.Close()

	store, w = open()
	defer func() { w.close(); w.log.Close(); store.Close() }()
	got := w.untilEnded(created.TaskID)
	if got.Status != mcptask.Completed || !got.Result.IsError || got.Result.executed().Outcome != "lost" ||
		got.Result.executed().Stdout.Text != "begun\n" {
		t.Errorf("the task: %+v", got)
	}
	c = w.caller("2025-11-25", "")
	c.call("get_execution_output", args{"execution_id": list.Executions[0].ID, "cursor": page.Cursor}, &page)
	if page.End == nil || page.End.Outcome != "lost" || len(page.Events) != 1 {
		t.Errorf("the run: %+v", page)
	}
	c.session.Close()
}
