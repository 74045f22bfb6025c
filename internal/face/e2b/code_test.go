package e2b_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"reprise/internal/face/facetest"
)

// lines returns the lines of an answer with results of code.
func (w *fixture) lines(status int, body string) (lines []map[string]any) {
	w.Helper()
	got, text := w.do("POST", "/execute", body, "Content-Type", "application/json")
	if got != status {
		w.Fatalf("%s: %d %s, want %d", body, got, text, status)
	}
	for line := range strings.Lines(text) {
		var one map[string]any
		w.OK(json.Unmarshal([]byte(line), &one))
		lines = append(lines, one)
	}
	return lines
}

// TestCode keeps its declarations in a context, of each sandbox one without a name.
func TestCode(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no Python")
	}
	w := start(t, nil)
	kinds := func(lines []map[string]any) (text string) {
		for _, line := range lines {
			text += line["type"].(string) + " "
		}
		return text
	}
	lines := w.lines(200, `{"code":"x = 1\nprint('hi')\nx + 1"}`)
	if got := kinds(lines); !strings.HasSuffix(got, "stdout result end_of_execution ") {
		t.Fatalf("%s: %v", got, lines)
	}
	result := lines[len(lines)-2]
	if result["text"] != "2" || result["is_main_result"] != true || lines[len(lines)-3]["text"] != "hi\n" {
		t.Errorf("%v", lines)
	}
	lines = w.lines(200, `{"code":"1/(x-1)"}`)
	last := lines[len(lines)-2]
	if last["type"] != "error" || last["name"] != "ZeroDivisionError" ||
		!strings.Contains(last["traceback"].(string), "Traceback") {
		t.Errorf("%v", lines)
	}
	lines = w.lines(200, `{"code":"import os\nos._exit(3)"}`)
	if end := lines[len(lines)-2]; end["type"] != "error" {
		t.Errorf("an interpreter that ends: %v", lines)
	}
	w.sandbox = "team-2"
	lines = w.lines(200, `{"code":"x"}`)
	if lines[len(lines)-2]["name"] != "NameError" {
		t.Errorf("another sandbox has %v", lines)
	}

	var made struct{ ID, Language string }
	status, text := w.do("POST", "/contexts", `{"language":"python"}`)
	w.OK(json.Unmarshal([]byte(text), &made))
	if status != 200 || made.ID == "" || made.Language != "python" {
		t.Fatalf("%d %s", status, text)
	}
	in := `","context_id":"` + made.ID + `"}`
	w.lines(200, `{"code":"y = 5`+in)
	if status, text := w.do("POST", "/contexts/"+made.ID+"/restart", ""); status != 204 {
		t.Errorf("%d %s", status, text)
	}
	lines = w.lines(200, `{"code":"y`+in)
	if lines[len(lines)-2]["name"] != "NameError" {
		t.Errorf("after a restart: %v", lines)
	}
	if status, text := w.do("GET", "/contexts", ""); status != 200 || strings.Count(text, `"id"`) != 2 {
		t.Errorf("%d %s", status, text)
	}
	w.token = facetest.Stranger
	w.lines(404, `{"code":"1`+in)
	w.token = facetest.Owner
	for _, method := range []string{"DELETE", "DELETE"} {
		status, _ = w.do(method, "/contexts/"+made.ID, "")
	}
	if status != 404 {
		t.Errorf("a context is removed twice: %d", status)
	}
	w.lines(404, `{"code":"1`+in)
	w.lines(400, `{"code":"1","language":"cobol"}`)
	w.lines(400, `{"code":"1","env_vars":{"A":"b"}}`)
	w.lines(400, `{`)
}
