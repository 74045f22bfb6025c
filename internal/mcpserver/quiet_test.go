package mcpserver_test

import (
	"strings"
	"testing"

	"reprise/internal/mcpserver"
)

// TestQuietShowsTheLastLines: a quiet call shows the last line of each channel, how much each had, and the end, and no
// more.
func TestQuietShowsTheLastLines(t *testing.T) {
	c := newFixture(t, nil).caller("2025-11-25", "")
	first, last := newGate(t), newGate(t)
	command := `seq 1 20000; ` + first.wait() + `; printf '\033[31mwarning\033[0m\n' >&2; ` + last.wait() +
		`; printf 'FAIL: module 7'; exit 1`
	var run executed
	text := c.call("execute_code", args{"command": command, "wait_seconds": 0, "quiet": true}, &run)
	if !strings.Contains(text, " goes on after ") || len(text) > 300 {
		t.Errorf("execute_code of a run that goes on: %q", text)
	}
	asked := args{"execution_id": run.ID, "quiet": true, "match": "\n20000\n"}
	text = c.call("get_execution_output", asked, nil)
	if bodyOf(text) != "20000\n[last lines only; lines in all: stdout 20000 (108894 bytes)]\n" ||
		!strings.Contains(text, "[matched; ") {
		t.Errorf("until a match: %q", text)
	}
	first.open(t)
	asked["match"] = "warning\n"
	text = c.call("get_execution_output", asked, nil)
	if bodyOf(text) != "20000\n[stderr]\nwarning\n"+
		"[last lines only; lines in all: stdout 20000 (108894 bytes), stderr 1 (17 bytes)]\n" {
		t.Errorf("of both channels: %q", text)
	}
	last.open(t)
	asked = args{"execution_id": run.ID, "quiet": true, "cursor": cursorIn(t, text)}
	text = c.call("get_execution_output", asked, nil)
	if text != "FAIL: module 7\n[last lines only; lines in all: stdout 1 (14 bytes)]\n"+
		"[ended: exited, exit code 1]" {
		t.Errorf("at the end: %q", text)
	}
	asked["cursor"] = "tail"
	if text = c.call("get_execution_output", asked, nil); text != "[no output]\n[ended: exited, exit code 1]" {
		t.Errorf("after the end: %q", text)
	}
	asked = args{"command": command, "quiet": true}
	text = c.call("execute_code", asked, &run)
	if !strings.HasPrefix(text, "FAIL: module 7\n[stderr]\nwarning\n[last lines only; ") ||
		run.Stdout.Omitted != 108908 || len(text) > 300 {
		t.Errorf("execute_code: %q, %+v", text, run)
	}
	for _, more := range []args{{"events": true}, {"limit": 1}, {"wait": true}} {
		more["execution_id"], more["quiet"] = run.ID, true
		c.refuse("get_execution_output", more, "invalid")
	}
}

// TestQuietTaskIsQuiet: the result of a quiet call that has become a task is quiet too.
func TestQuietTaskIsQuiet(t *testing.T) {
	w := newFixture(t, &mcpserver.Options{TaskAfter: 1})
	created := w.raw("tools/call", `"name":"execute_code","arguments":{"command":"seq 1 9","quiet":true}`)
	got := w.untilEnded(created.TaskID)
	if text := got.Result.Content[0].Text; !strings.HasPrefix(text, "9\n[last lines only; lines in all: stdout 9 (") {
		t.Errorf("the task: %q", text)
	}
}
