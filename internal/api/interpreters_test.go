package api_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"reprise"
)

// TestInterpretersOverHTTP: an interpreter is opened, given code whose events can be followed at once, shown, listed
// and removed.
func TestInterpretersOverHTTP(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	w := start(t, setup{})
	body := `{"id":"py","language":"python","session":"a-s","labels":{"k":"v"}}`
	if a := w.do("POST", "/v1/interpreters", body).is(201); a.header.Get("Location") != "/v1/interpreters/py" {
		t.Errorf("%v", a.header)
	}
	w.do("POST", "/v1/interpreters", body).is(200)
	w.do("POST", "/v1/interpreters", `{"id":"py","language":"bash"}`).refused(409, "conflict")
	w.do("POST", "/v1/interpreters", `{"language":"cobol"}`).refused(422, "invalid")
	w.do("POST", "/v1/interpreters", `{"language":"python","argv":["x"]}`).refused(422, "invalid")
	w.do("POST", "/v1/executions", `{"id":"first","interpreter":"py","code":"x = 41"}`).is(201)
	w.ended("first")
	a := w.do("POST", "/v1/executions",
		`{"id":"second","interpreter":"py","code":"print('seen')\nx + 1"}`, asSSE).is(200)
	for _, part := range []string{`"text":"seen\n"`, "event: result\n", `"text/plain":"42"`, `"outcome":"exited"`} {
		if !strings.Contains(a.body, part) {
			t.Errorf("%q is not in %q", part, a.body)
		}
	}
	a = w.do("POST", "/v1/executions", `{"interpreter":"py","code":"1/0"}`, asSSE).is(200)
	if !strings.Contains(a.body, "event: exception\n") || !strings.Contains(a.body, `"name":"ZeroDivisionError"`) {
		t.Errorf("%q", a.body)
	}
	w.do("POST", "/v1/executions", `{"interpreter":"py","code":"1","cwd":"/"}`).refused(422, "invalid")
	w.do("POST", "/v1/executions", `{"interpreter":"none","code":"1"}`).refused(404, "not_found")
	if a := w.do("GET", "/v1/executions/second", "").is(200); a.text("interpreter") != "py" ||
		a.text("session") != "a-s" {
		t.Errorf("%s", a.body)
	}
	if a := w.do("GET", "/v1/interpreters/py", "").is(200); a.number("runs") != 3 || a.text("language") != "python" {
		t.Errorf("%s", a.body)
	}
	w.do("GET", "/v1/interpreters/second", "").refused(404, "not_found")
	w.do("POST", "/v1/interpreters/py/interrupt", "").is(204)
	w.do("DELETE", "/v1/interpreters/second", "").is(204)
	w.do("GET", "/v1/executions/second", "").is(200)

	_, others := w.key(reprise.DefaultTenant, "read:b-", "run:b-", "control:b-")
	w.with(others, func() {
		if a := w.do("GET", "/v1/interpreters", "").is(200); strings.Contains(a.body, "py") {
			t.Errorf("%s", a.body)
		}
		w.do("GET", "/v1/interpreters/py", "").refused(404, "not_found")
		w.do("POST", "/v1/interpreters/py/interrupt", "").refused(404, "not_found")
		w.do("POST", "/v1/executions", `{"interpreter":"py","code":"x"}`).refused(404, "not_found")
		w.do("POST", "/v1/interpreters", `{"language":"python","session":"a-s"}`).refused(403, "forbidden")
		w.do("DELETE", "/v1/interpreters/py", "").is(204)
	})
	if a := w.do("GET", "/v1/interpreters", "").is(200); !strings.Contains(a.body, `"id":"py"`) {
		t.Errorf("%s", a.body)
	}
	w.do("DELETE", "/v1/interpreters/py", "").is(204)
	if got := w.do("GET", "/v1/interpreters/py", "").status; got != 404 && got != 410 {
		t.Errorf("after it was removed: %d", got)
	}
	w.do("POST", "/v1/executions", `{"interpreter":"py","code":"x"}`).refused(404, "not_found")
}
