package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reprise/internal/gateway"
)

// answer is what a client of version 2026-07-28 is told.
type answer struct {
	Result struct {
		ResultType    string
		TaskID        string `json:"taskId"`
		Status        string
		StatusMessage string
		Result        json.RawMessage
		Error         json.RawMessage
		InputRequests map[string]json.RawMessage
		RequestState  string
		Content       json.RawMessage
		Capabilities  struct{ Extensions map[string]any }
	}
	Error json.RawMessage
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

// streaming sends a request of version 2026-07-28 with the Tasks extension.
func (f *fixture) streaming(method, name, params, extraMeta string) *http.Response {
	f.Helper()
	if params != "" {
		params += ","
	}
	all := strings.Replace(meta, "{", "{"+extraMeta, 1)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s%s}}`, method, params, all)
	r, err := http.NewRequest(http.MethodPost, f.http.URL, strings.NewReader(body))
	check(f, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", method)
	if name != "" {
		r.Header.Set("Mcp-Name", name)
	}
	resp, err := f.client.Do(r)
	check(f, err)
	return resp
}

// modern sends a request and returns the response.
func (f *fixture) modern(method, name, params string) (a answer) {
	f.Helper()
	resp := f.streaming(method, name, params, "")
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check(f, err)
	if i := strings.LastIndex(string(text), "data: "); i >= 0 {
		text = text[i+len("data: "):]
	}
	check(f, json.Unmarshal(text, &a))
	return a
}

func (f *fixture) tool(name, arguments string) answer {
	f.Helper()
	return f.modern("tools/call", name, fmt.Sprintf(`"name":%q,"arguments":%s`, name, arguments))
}

func (f *fixture) task(id string) answer {
	f.Helper()
	return f.modern("tasks/get", id, fmt.Sprintf(`"taskId":%q`, id))
}

func TestLongCallBecomesTask(t *testing.T) {
	for _, lacks := range []string{"", "server/discover"} {
		t.Run("lacks="+lacks, func(t *testing.T) {
			f := newFixture(t, gateway.Upstream{Command: []string{program, "-lacks", lacks}})
			f.taskAfter = 100 * time.Millisecond
			f.start()
			if a := f.modern(
				"server/discover", "", "",
			); a.Result.Capabilities.Extensions["io.modelcontextprotocol/tasks"] == nil {
				t.Errorf("the extension is not declared: %+v", a)
			}
			patient := newFixture(t, gateway.Upstream{Command: []string{program, "-lacks", lacks}})
			patient.taskAfter = time.Hour
			if a := patient.start().tool("echo", `{"text":"x"}`); a.Result.ResultType != "complete" {
				t.Errorf("a short call is answered with %+v", a)
			}
			gate := filepath.Join(t.TempDir(), "gate")
			a := f.tool("hold", fmt.Sprintf(`{"text":%q}`, gate))
			if a.Result.ResultType != "task" {
				t.Fatalf("a long call is answered with %+v %s", a, a.Error)
			}
			check(t, os.WriteFile(gate, nil, 0o600))
			f.eventually("the task has its result", func() bool {
				got := f.task(a.Result.TaskID)
				return got.Result.Status == "completed" && strings.Contains(string(got.Result.Result), "held 1")
			})
			crashed := f.tool("crash", fmt.Sprintf(`{"text":%q}`, gate+"2"))
			check(t, os.WriteFile(gate+"2", nil, 0o600))
			f.eventually("the task has failed", func() bool {
				return f.task(crashed.Result.TaskID).Result.Status == "failed"
			})
			before := f.slept()
			cancelled := f.tool("sleep", `{"ms":600000}`)
			f.eventually("the tool runs", func() bool { return f.slept() > before })
			f.modern("tasks/cancel", cancelled.Result.TaskID, fmt.Sprintf(`"taskId":%q`, cancelled.Result.TaskID))
			f.eventually("the tool is cancelled",
				func() bool { return strings.Contains(f.logged.String(), "text=cancelled") })
		})
	}
}

func TestQuestionInTaskIsAnswered(t *testing.T) {
	f := newFixture(t, gateway.Upstream{Command: []string{program, "-lacks", "server/discover"}})
	f.taskAfter = 100 * time.Millisecond
	f.start()
	a := f.tool("ask", `{"text":"who"}`)
	if a.Result.ResultType != "task" {
		t.Fatalf("the call is answered with %+v %s", a, a.Error)
	}
	key := ""
	f.eventually("the task asks", func() bool {
		got := f.task(a.Result.TaskID)
		for key = range got.Result.InputRequests {
			return got.Result.Status == "input_required"
		}
		return false
	})
	f.modern("tasks/update", a.Result.TaskID, fmt.Sprintf(`"taskId":%q,"inputResponses":{%q:{"action":"accept","content":{"name":"me"}}}`,
		a.Result.TaskID, key))
	f.eventually("the task has its result", func() bool {
		return strings.Contains(string(f.task(a.Result.TaskID).Result.Result), "accept me")
	})
}

func TestUnknownRequestStateIsRefused(t *testing.T) {
	f := newFixture(t, gateway.Upstream{Command: []string{program, "-lacks", "server/discover"}}).start()
	a := f.tool("ask", `{"text":"who"}`)
	if a.Result.ResultType != "input_required" {
		t.Fatalf("the call is answered with %+v %s", a, a.Error)
	}
	a = f.modern("tools/call", "ask", `"name":"ask","arguments":{},"requestState":"FORGED","inputResponses":{}`)
	if !strings.Contains(string(a.Error), "-32602") {
		t.Errorf("a forged state is answered with %+v %s", a, a.Error)
	}
}
