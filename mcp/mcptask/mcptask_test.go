package mcptask_test

import (
	"fmt"
	"strings"
	"testing"

	"reprise/mcp/mcptask"
	"reprise/store/memstore"
)

func TestTaskCompletes(t *testing.T) {
	log, release := newLog(t, memstore.New(nil)), make(chan struct{})
	defer log.Close()
	w := newFixtureWith(t, log, nil, addHeld(release))
	defer w.close()
	created := w.call("held", `{"label":"x"}`).Result
	if created.ResultType != "task" || created.Status != mcptask.Working || created.PollIntervalMs != 100 {
		t.Fatalf("created: %+v", created)
	}
	if got := w.get(created.TaskID).Result; got.ResultType != "complete" || got.Status != mcptask.Working {
		t.Errorf("at once: %+v", got)
	}
	close(release)
	done := w.until(created.TaskID, mcptask.Completed).Result
	if done.Result == nil || done.Result.Content[0]["text"] != "computed x" || done.TTLMs == nil || *done.TTLMs <= 0 {
		t.Errorf("in the end: %+v", done)
	}
}

func TestErrorsOfTools(t *testing.T) {
	w := newFixture(t, nil)
	if a := w.until(w.task("failing_job", `{}`), mcptask.Completed); !a.Result.Result.IsError {
		t.Errorf("an error of the tool: %+v", a)
	}
	if a := w.until(w.task("protocol_error_job", `{}`), mcptask.Failed); a.Result.Error.Code != -32603 ||
		a.Result.Result != nil {
		t.Errorf("a panic: %+v", a)
	}
	a := w.until(w.task("coded_error", `{}`), mcptask.Failed)
	if e := a.Result.Error; e.Code != -32050 || e.Message != "no quota" || string(e.Data) != `{"quota":1}` {
		t.Errorf("an error with a code: %+v", e)
	}
}

func TestCancel(t *testing.T) {
	w := newFixture(t, nil)
	id := w.task("slow_compute", `{"seconds":60}`)
	for range 2 { // and again
		a := w.send("", "tasks/cancel", fmt.Sprintf(`{"taskId":%q}`, id), withTasks)
		if a.Error != nil || a.Result.ResultType != "complete" || a.Result.TaskID != "" {
			t.Errorf("cancel: %+v", a)
		}
		w.until(id, mcptask.Cancelled)
	}
}

func TestOnlyLongCallsBecomeTasks(t *testing.T) {
	log, release := newLog(t, memstore.New(nil)), make(chan struct{})
	defer log.Close()
	w := newFixtureWith(t, log, nil, addHeld(release))
	defer w.close()
	if a := w.call("maybe_slow", `{"label":"quick"}`); a.Result.ResultType != "complete" ||
		a.Result.Content[0]["text"] != "computed quick" {
		t.Errorf("a quick call: %+v", a)
	}
	long := w.task("held_soon", `{}`)
	close(release)
	w.until(long, mcptask.Completed)
	a := w.send("", "tools/call", `{"name":"maybe_slow","arguments":{"seconds":0.1}}`, without)
	if a.Result.ResultType != "complete" {
		t.Errorf("a client without tasks: %+v", a)
	}
	if a := w.send("", "tools/call", `{"name":"failing_job","arguments":{}}`, without); a.Error == nil ||
		a.Error.Code != -32021 {
		t.Errorf("a tool that needs tasks: %+v", a)
	}
}

func TestInput(t *testing.T) {
	w := newFixture(t, nil)
	id := w.task("confirm_delete", `{}`)
	a := w.until(id, mcptask.InputRequired)
	if len(a.Result.InputRequests) != 1 ||
		!strings.Contains(string(a.Result.InputRequests["confirm"]), "elicitation/create") {
		t.Fatalf("asked: %s", a.Result.InputRequests)
	}
	for _, bad := range []string{`{"confirm":7}`, `{"confirm":{}}`, `{"confirm":null}`} {
		if a := w.update(id, bad); a.Error == nil || a.Error.Code != -32602 {
			t.Errorf("answer %s: %+v", bad, a)
		}
	}
	if a := w.update(id, `{"other":{"ignored":true}}`); a.Error != nil {
		t.Errorf("answer to what was not asked: %+v", a)
	}
	w.update(id, `{"confirm":{"action":"accept","content":{}}}`)
	if a := w.until(id, mcptask.Completed); a.Result.Result.Content[0]["text"] != "accept" {
		t.Errorf("in the end: %+v", a)
	}
	if a := w.update(id, `{"confirm":{"action":"decline"}}`); a.Error != nil {
		t.Errorf("answer after the end: %+v", a)
	}
}

func (w *fixture) update(id, responses string) answer {
	w.t.Helper()
	return w.send("", "tasks/update", fmt.Sprintf(`{"taskId":%q,"inputResponses":%s}`, id, responses), withTasks)
}

func TestInputRequestsMayBeAnsweredOneByOne(t *testing.T) {
	w := newFixture(t, nil)
	id := w.task("multi_input", `{"twice":true}`)
	asked := w.until(id, mcptask.InputRequired)
	if len(asked.Result.InputRequests) != 2 || asked.Result.StatusMessage != "asking" {
		t.Fatalf("asked: %+v", asked)
	}
	w.update(id, `{"first":{"action":"accept","content":{"name":"a"}}}`)
	left := w.get(id).Result
	if _, ok := left.InputRequests["second"]; left.Status != mcptask.InputRequired || len(left.InputRequests) != 1 ||
		!ok {
		t.Errorf("after one answer: %+v", left)
	}
	w.update(id, `{"second":{"action":"decline"}}`)
	again := w.until(id, mcptask.InputRequired).Result
	for len(again.InputRequests) != 2 {
		again = w.until(id, mcptask.InputRequired).Result
	}
	for key := range again.InputRequests {
		if key == "first" || key == "second" {
			t.Errorf("the key %q is used again", key)
		}
		w.update(id, fmt.Sprintf(`{%q:{"action":"cancel"}}`, key))
	}
	w.until(id, mcptask.Completed)
}

func TestInputBeforeTask(t *testing.T) {
	w := newFixture(t, nil)
	if a := w.call("test_tool_with_task", `{}`); a.Result.ResultType != "input_required" || a.Result.TaskID != "" {
		t.Fatalf("first: %+v", a)
	}
	a := w.send("", "tools/call", `{"name":"test_tool_with_task","arguments":{},"inputResponses":{"user_name":{"action":"accept","content":{"name":"Alice"}}}}`,
		withTasks)
	if a.Result.ResultType != "task" {
		t.Fatalf("second: %+v", a)
	}
	if a := w.until(a.Result.TaskID, mcptask.Completed); a.Result.Result.Content[0]["text"] != "Hello, Alice!" {
		t.Errorf("in the end: %+v", a)
	}
}

func TestTaskIsVisibleToItsOwnerOnly(t *testing.T) {
	w := newFixture(t, nil)
	a := w.send("alice", "tools/call", `{"name":"slow_compute","arguments":{"seconds":60}}`, withTasks)
	id := a.Result.TaskID
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		params := fmt.Sprintf(`{"taskId":%q,"inputResponses":{}}`, id)
		if a := w.send("alice", method, params, withTasks); a.Error != nil {
			t.Errorf("%s by alice: %v", method, a.Error)
		}
		for _, user := range []string{"", "bob"} {
			if a := w.send(user, method, params, withTasks); a.Error == nil || a.Error.Code != -32602 {
				t.Errorf("%s by %q: %+v", method, user, a)
			}
		}
		if a := w.send("alice", method, params, without); a.Error == nil || a.Error.Code != -32021 {
			t.Errorf("%s without the extension: %+v", method, a)
		}
		for _, forged := range []string{
			"", "x", "..", "../x", strings.Repeat("A", 26), strings.Repeat("A", 300), "É" + id[2:], id + "/x",
			strings.ToLower(id),
		} {
			if a := w.send(
				"alice", method, fmt.Sprintf(`{"taskId":%q,"inputResponses":{}}`, forged), withTasks,
			); a.Error == nil {
				t.Errorf("%s of %q: %+v", method, forged, a)
			}
		}
	}
}

func TestLongResults(t *testing.T) {
	w := newFixture(t, nil)
	for _, n := range []int{512<<10 - 100, 512 << 10, 1<<20 + 7, 5 << 20} {
		a := w.until(w.task("long_result", fmt.Sprintf(`{"bytes":%d}`, n)), mcptask.Completed)
		if got := a.Result.Result.Content[0]["text"].(string); got != strings.Repeat("x", n) {
			t.Errorf("of %d bytes came %d", n, len(got))
		}
	}
	if a := w.until(w.task("long_result", `{"bytes":6300000}`), mcptask.Failed); a.Result.Error == nil {
		t.Errorf("too long: %+v", a)
	}
}

func TestTasksAreDeclaredInCapabilities(t *testing.T) {
	w := newFixture(t, nil)
	a := w.send("", "server/discover", `{}`, withTasks)
	extensions, _ := a.Result.Capabilities["extensions"].(map[string]any)
	if _, ok := extensions[mcptask.Extension]; !ok || a.Result.Capabilities["tasks"] != nil {
		t.Errorf("capabilities: %v", a.Result.Capabilities)
	}
	for _, removed := range []string{"tasks/result", "tasks/list"} {
		if a := w.send("", removed, `{}`, withTasks); a.Error == nil || a.Error.Code != -32601 {
			t.Errorf("%s: %+v", removed, a)
		}
	}
}
