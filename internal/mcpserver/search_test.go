package mcpserver_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestSearchShowsLinesAround: the lines that match are marked, with the lines around them, in both channels.
func TestSearchShowsLinesAround(t *testing.T) {
	c := newFixture(t, nil).caller("2025-11-25", "")
	g, last := newGate(t), newGate(t)
	var run executed
	c.call("execute_code_async", args{"command": `seq 1 30000; printf 'half \033[1mFA'; ` + g.wait() +
		`; printf 'IL\033[0m\r\n100%%\rdone\n'; ` + last.wait() + `; echo late >&2; exec sleep 100`}, &run)
	c.call("get_execution_output", args{"execution_id": run.ID, "match": "half", "quiet": true}, nil)
	g.open(t)
	c.call("get_execution_output", args{"execution_id": run.ID, "match": "done", "quiet": true}, nil)
	last.open(t)
	c.call("get_execution_output", args{"execution_id": run.ID, "match": "late", "quiet": true}, nil)
	for pattern, want := range map[string]string{
		"^77[78]$":       "  775\n  776\n> 777\n> 778\n  779\n  780\n[2 lines match]\n",
		"^1$|FAIL$":      "> 1\n  2\n  3\n--\n  29999\n  30000\n> half FAIL\n  100%\n  done\n[2 lines match]\n",
		"^done$":         "  half FAIL\n  100%\n> done\n[1 line matches]\n",
		"(?i)late|^2999": "",
		"^$":             "[0 lines match]\n",
	} {
		text := c.call("search_execution_output", args{"execution_id": run.ID, "pattern": pattern}, nil)
		if want == "" {
			want = "[stderr]\n> late\n[12 lines match]\n"
			if !strings.HasSuffix(bodyOf(text), want) || !strings.HasPrefix(text, "  2997\n  2998\n> 2999\n  3000\n") {
				t.Errorf("%s: %q", pattern, text)
			}
			continue
		}
		if bodyOf(text) != want || !strings.Contains(text, "[goes on; cursor ") {
			t.Errorf("%s: %q, want %q", pattern, text, want)
		}
	}
	asked := args{"execution_id": run.ID, "pattern": "^1[05]$", "around": 0}
	text := c.call("search_execution_output", asked, nil)
	if bodyOf(text) != "> 10\n--\n> 15\n[2 lines match]\n" {
		t.Errorf("without lines around: %q", text)
	}
	asked["cursor"] = cursorIn(t, text)
	if text = c.call("search_execution_output", asked, nil); bodyOf(text) != "[0 lines match]\n" {
		t.Errorf("from the end: %q", text)
	}
	c.call("cancel_execution", args{"execution_id": run.ID}, nil)
	for _, more := range []args{
		{"pattern": ""},
		{"pattern": "("},
		{"pattern": "(?:a{0,500}){2}b"},
		{"around": 21},
		{"around": -1},
		{"max_bytes": 255},
		{"lines": 1},
	} {
		if more["pattern"] == nil {
			more["pattern"] = "x"
		}
		more["execution_id"] = run.ID
		c.refuse("search_execution_output", more, "invalid")
	}
	asked["cursor"] = "7.x"
	c.refuse("search_execution_output", asked, "cursor_malformed")
	c.refuse("search_execution_output", args{"execution_id": "none", "pattern": "x"}, "not_found")
}

// TestSearchIsBounded: an answer has at most max_bytes and one line, tells how many lines it does not show, and what
// follows is searched from its cursor.
func TestSearchIsBounded(t *testing.T) {
	c := newFixture(t, nil).caller("2025-11-25", "")
	var run executed
	line := strings.Repeat("x", 500)
	c.call("execute_code", args{"command": "for i in {1..2000}; do echo $i " + line + "; done", "quiet": true}, &run)
	lines, calls := 0, 0
	asked := args{"execution_id": run.ID, "pattern": `^\d+ `, "max_bytes": 1000}
	for text := "[more"; strings.Contains(text, "[more"); calls++ {
		text = c.call("search_execution_output", asked, nil)
		var n, hidden int
		i := strings.LastIndex("\n"+bodyOf(text), "\n[")
		if got, err := fmt.Sscanf(text[i:], "[%d lines match; the last %d of them", &n, &hidden); got == 0 {
			t.Fatalf("%v: %q", err, text[i:])
		}
		if shown := strings.Count("\n"+text, "\n> "); shown != n-hidden || len(text) > 1700 {
			t.Errorf("%d of %d lines are shown, in %d bytes", shown, n, len(text))
		}
		if lines += n; strings.Contains(text, "[more") {
			asked["cursor"] = cursorIn(t, text)
		}
	}
	if lines < 2000 || lines > 2000+calls {
		t.Errorf("%d lines match in %d calls", lines, calls)
	}
}

// TestSearchEndsWithItsWork: a costly pattern searches the output in several calls, also where all lines are empty.
func TestSearchEndsWithItsWork(t *testing.T) {
	c := newFixture(t, nil).caller("2025-11-25", "")
	for name, command := range map[string]string{
		"lines": "head -c 300000 /dev/zero | tr '\\0' a | fold -w 1000; echo; echo b",
		"empty": "head -c 300000 /dev/zero | tr '\\0' '\\n'; echo b",
	} {
		var run executed
		c.call("execute_code", args{"command": command, "quiet": true}, &run)
		calls, text := 0, "[more"
		asked := args{"execution_id": run.ID, "pattern": "^(?:a{0,200}){2}b", "around": 0}
		for ; strings.Contains(text, "[more") && calls < 20; calls++ {
			if text = c.call("search_execution_output", asked, nil); strings.Contains(text, "[more") {
				asked["cursor"] = cursorIn(t, text)
			}
		}
		if calls < 2 || !strings.HasPrefix(text, "> b\n[1 line matches]\n") {
			t.Errorf("%s: after %d calls: %q", name, calls, text)
		}
	}
}
