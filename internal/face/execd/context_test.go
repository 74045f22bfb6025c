package execd_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// opened returns a member of the answer to a request that opens something.
func opened(w *fixture, path, body, member string) string {
	w.Helper()
	var answer map[string]string
	w.OK(json.Unmarshal([]byte(must(w, "POST", path, body)), &answer))
	return answer[member]
}

// TestSession: the directory and the variables stay, and both channels are stdout.
func TestSession(t *testing.T) {
	w := start(t, nil)
	id := opened(w, "/session", `{"cwd":"/tmp"}`, "session_id")
	run := func(body string) []frame { return w.run("/session/"+id+"/run", body) }
	w.want("first", run(`{"command":"pwd; export A=1; cd /; echo; echo err >&2"}`),
		"init", `stdout "/tmp"`, `stdout "err"`, "execution_complete")
	w.want("next", run(`{"command":"pwd; echo $A; false"}`),
		"init", `stdout "/"`, `stdout "1"`, "error CommandExecError 1")
	w.want("directory", run(`{"command":"pwd","cwd":"/usr"}`), "init", `stdout "/usr"`, "execution_complete")
	frames := run(`{"command":"echo not here","cwd":"/no/it's not"}`)
	if last := frames[len(frames)-1].String(); last != "error CommandExecError 1" || strings.Contains(must(w, "GET",
		"/command/"+frames[0].Execution+"/logs", ""), "not here\n") {
		t.Errorf("without its directory: %v", frames)
	}
	if frames[0].Text != id || frames[0].Execution == "" {
		t.Errorf("init: %+v", frames[0])
	}
	w.want("timeout", run(`{"command":"sleep 60","timeout":200}`), "init", "error CommandExecError -1")
	must(w, "DELETE", "/session/"+id, "")
	for _, r := range []struct{ method, path, body string }{
		{"DELETE", "/session/" + id, ""},
		{"POST", "/session/" + id + "/run", `{"command":"true"}`},
		{"DELETE", "/session/none", ""},
	} {
		if status, text, _ := w.do(r.method, r.path, r.body); status != http.StatusNotFound ||
			!strings.Contains(text, "CONTEXT_NOT_FOUND") {
			t.Errorf("%v: %d %s", r, status, text)
		}
	}
}

// TestRunOfASessionIsResumed by the execution that its init event names.
func TestRunOfASessionIsResumed(t *testing.T) {
	w := start(t, nil)
	id := opened(w, "/session", "", "session_id")
	whole := w.run("/session/"+id+"/run", `{"command":"echo a; echo; echo b"}`)
	rest := w.parse(must(w, "GET", "/command/"+whole[0].Execution+"/resume?after_eid=1", ""))
	w.want("rest", rest, `stdout "b"`, "execution_complete")
}

// TestCode: values, errors and numbers of a context.
func TestCode(t *testing.T) {
	w := start(t, nil)
	id := opened(w, "/code/context", `{"language":"python"}`, "id")
	code := func(text string) []frame {
		return w.run("/code", `{"code":`+quoted(text)+`,"context":{"id":"`+id+`"}}`)
	}
	frames := code("x = 41\nprint('é')\nx + 1")
	w.want("value", frames, "init", "execution_count", `stdout "é\n"`, "result", "execution_complete")
	got := string(frames[3].Results["text"])
	if got != `"42"` || frames[1].ExecutionCount != 1 || frames[0].Text != id {
		t.Errorf("%+v", frames)
	}
	w.want("error", code("print(x)\n1/0"),
		"init", "execution_count", `stdout "41\n"`, "error ZeroDivisionError division by zero")
	w.want("default context", w.run("/code", `{"code":"y = 1","context":{"language":"Python"}}`),
		"init", "execution_count", "execution_complete")
	w.want("the same", w.run("/code", `{"code":"print(y)","context":{"language":"python3"}}`),
		"init", "execution_count", `stdout "1\n"`, "execution_complete")
	w.want("no language", w.run("/code", `{"code":"echo {1..2}"}`), "init", `stdout "1 2"`, "execution_complete")
	w.want("shell", w.run("/code", `{"code":"echo a; false","context":{"language":"bash"}}`),
		"init", "execution_count", `stdout "a\n"`, "error CommandExecError 1")
	list := func() (contexts []struct{ ID, Language string }) {
		w.OK(json.Unmarshal([]byte(must(w, "GET", "/code/contexts?language=python", "")), &contexts))
		return contexts
	}
	if all := list(); len(all) != 2 {
		t.Errorf("contexts: %v", all)
	}
	must(w, "DELETE", "/code/contexts/"+id, "")
	must(w, "DELETE", "/code/contexts?language=python", "")
	if all := list(); len(all) != 0 {
		t.Errorf("contexts after their end: %v", all)
	}
	w.want("another default context", w.run("/code", `{"code":"print('y' in globals())","context":{"language":"python"}}`),
		"init", "execution_count", `stdout "False\n"`, "execution_complete")
}

// TestBusyContext: it runs one piece of code at a time, which can be interrupted.
func TestBusyContext(t *testing.T) {
	w := start(t, nil)
	id := opened(w, "/code/context", `{"language":"bash"}`, "id")
	body := `{"code":"echo on; sleep 60; echo off","context":{"id":"` + id + `"}}`
	res := w.send("POST", "/execd/code", body)
	_, in := w.untilInit(res)
	if status, text, _ := w.do("POST", "/code", body); status != http.StatusInternalServerError ||
		!strings.Contains(text, "session is busy") {
		t.Errorf("busy: %d %s", status, text)
	}
	for { // once it runs
		line, err := in.ReadString('\n')
		w.OK(err)
		if strings.Contains(line, `"on\n"`) {
			break
		}
	}
	must(w, "DELETE", "/code?id="+id, "")
	for {
		line, err := in.ReadString('\n')
		w.OK(err)
		if strings.Contains(line, `"type":"error"`) {
			break
		}
		if strings.Contains(line, "off") || strings.Contains(line, "complete") {
			t.Fatal(line)
		}
	}
	w.OK(res.Body.Close())
	w.want("it goes on", w.run("/code", `{"code":"echo again","context":{"id":"`+id+`"}}`),
		"init", "execution_count", `stdout "again\n"`, "execution_complete")
}
