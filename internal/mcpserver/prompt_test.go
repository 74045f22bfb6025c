package mcpserver_test

import (
	"strings"
	"testing"
)

// TestUntilPrompt: a wait for a prompt ends with a line that has no end, and shows the answer before it.
func TestUntilPrompt(t *testing.T) {
	c := newFixture(t, nil).caller("2025-11-25", "")
	var run executed
	c.call("execute_code_async", args{
		"command":    `echo welcome; printf '> ' >&2; while read -r x; do echo "got $x"; sleep 0.3; printf '> ' >&2; done`,
		"stdin_open": true,
	}, &run)
	text := c.call("get_execution_output", args{"execution_id": run.ID, "until": "prompt"}, nil)
	if !strings.Contains(text, "welcome\n") || !strings.Contains(text, "> \n") ||
		!strings.Contains(text, "[matched; ") {
		t.Errorf("the first prompt: %q", text)
	}
	for _, line := range []string{"one", "two", "three"} {
		text = c.call("send_stdin", args{"execution_id": run.ID, "text": line + "\n", "until": "prompt"}, nil)
		if strings.Count(text, "got ") != 1 || !strings.Contains(text, "got "+line+"\n") ||
			!strings.Contains(text, "> \n") || !strings.Contains(text, "[matched; ") {
			t.Errorf("after %s: %q", line, text)
		}
	}
	asked := args{"execution_id": run.ID, "cursor": cursorIn(t, text), "until": "prompt", "wait": 0.1}
	if text = c.call("get_execution_output", asked, nil); !strings.HasPrefix(text, "[goes on, no prompt; ") {
		t.Errorf("without a prompt: %q", text)
	}
	c.refuse("get_execution_output", args{"execution_id": run.ID, "until": "prompt", "match": "x"}, "invalid")
	c.call("cancel_execution", args{"execution_id": run.ID}, nil)
}
