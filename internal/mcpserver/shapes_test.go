package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/mcpserver"
)

// sandboxed is an answer in the shape of the first sandbox server.
type sandboxed struct {
	Status   string `json:"status"`
	ExitCode *int   `json:"exit_code"`
	Output   []struct {
		ID   string  `json:"event_id"`
		Type string  `json:"type"`
		Data *string `json:"data"`
		TS   float64 `json:"ts"`
	} `json:"output"`
	NextCursor *int `json:"next_cursor"`
	HasMore    bool `json:"has_more"`
}

// sandbox calls get_execution_output, whose text is JSON and whose structured content is the same.
func (c *caller) sandbox(arguments args) (out sandboxed) {
	c.t.Helper()
	text, result := c.try(c.t.Context(), "get_execution_output", arguments, &out)
	var said sandboxed
	if err := json.Unmarshal([]byte(text), &said); err != nil || result.IsError {
		c.t.Fatalf("%v is answered with %q: %v", arguments, text, err)
	}
	if said.Status != out.Status || len(said.Output) != len(out.Output) || *said.NextCursor != *out.NextCursor {
		c.t.Errorf("text %+v, structured %+v", said, out)
	}
	return out
}

// data is the output in an answer.
func (s *sandboxed) data() string {
	var b strings.Builder
	for _, e := range s.Output {
		b.WriteString(*e.Data)
	}
	return b.String()
}

// TestSandboxShapes: a boolean wait, offset paging with integers, and last_event_id, as the first sandbox server has
// them.
func TestSandboxShapes(t *testing.T) {
	w := newFixture(t, nil)
	c := w.caller("2025-11-25", "")
	var run executed
	c.call("execute_code_async",
		args{"command": "for i in 1 2 3 4 5 6; do echo line $i; read x; done; exit 3", "stdin_open": true}, &run)
	for i := range 6 { // each is an event of its own
		c.call("get_execution_output",
			args{"execution_id": run.ID, "match": fmt.Sprintf("line %d\n", i+1), "wait": 50}, nil)
		if i < 5 {
			c.call("send_stdin", args{"execution_id": run.ID, "text": "\n"}, nil)
		}
	}
	if got := c.sandbox(args{"execution_id": run.ID, "wait": false}); got.Status != "running" || got.ExitCode != nil ||
		got.data() != "line 1\nline 2\nline 3\nline 4\nline 5\nline 6\n" {
		t.Errorf("without waiting: %+v", got)
	}
	c.call("send_stdin", args{"execution_id": run.ID, "text": "\n"}, nil)
	whole := c.sandbox(args{"execution_id": run.ID, "wait": true})
	all := len(whole.Output) + 2 // with started and end
	if whole.Status != "completed" || *whole.ExitCode != 3 || whole.HasMore || *whole.NextCursor != all {
		t.Errorf("to the end: %+v", whole)
	}
	var paged []string
	for cursor := 0; ; {
		page := c.sandbox(args{"execution_id": run.ID, "cursor": cursor, "limit": 3})
		if len(page.Output) > 3 || *page.NextCursor <= cursor {
			t.Fatalf("after %d: %+v", cursor, page)
		}
		for _, e := range page.Output {
			if e.TS < 1e9 || e.ID == "" {
				t.Errorf("%+v", e)
			}
			paged = append(paged, *e.Data)
		}
		if cursor = *page.NextCursor; !page.HasMore {
			break
		}
	}
	if strings.Join(paged, "") != whole.data() || len(paged) != len(whole.Output) {
		t.Errorf("in pages %q", paged)
	}
	last := whole.Output[2].ID
	got := c.sandbox(args{"execution_id": run.ID, "wait": false, "last_event_id": last})
	if got.Output[0].ID != whole.Output[3].ID {
		t.Errorf("after %s: %+v", last, got)
	}
	// The loop of that server's clients begins with null, without wait.
	if got := c.sandbox(args{"execution_id": run.ID, "last_event_id": nil}); got.data() != whole.data() {
		t.Errorf("from null: %+v", got)
	}
	if got := c.sandbox(args{"execution_id": run.ID, "last_event_id": last}); got.data() != "line 4\nline 5\nline 6\n" {
		t.Errorf("after %s, without wait: %+v", last, got)
	}
	for _, wrong := range []string{"nonsense", "6f1c1e1e-0000-4000-8000-000000000000", "99" + last} {
		text := c.call("get_execution_output", args{"execution_id": run.ID, "last_event_id": wrong}, nil)
		if !strings.HasPrefix(text, "{") || !strings.Contains(text, `"error":"Event ID `+wrong+` not found"`) ||
			!strings.Contains(text, `"output":[]`) || !strings.Contains(text, `"code":"cursor_`) {
			t.Errorf("after %s: %s", wrong, text)
		}
	}
	// Our own cursor stays a string, and its answer has a text.
	text := c.call("get_execution_output", args{"execution_id": run.ID, "cursor": last}, nil)
	if !strings.HasSuffix(text, "[ended: exited, exit code 3]") {
		t.Errorf("by a string: %q", text)
	}
	for _, ahead := range []string{"1000", "1e3", "1.0e3"} {
		c.refuse("get_execution_output", args{"execution_id": run.ID, "cursor": json.RawMessage(ahead)}, "cursor_ahead")
	}
	c.refuse("get_execution_output", args{"execution_id": run.ID, "cursor": -1}, "invalid")
	c.refuse("get_execution_output", args{"execution_id": run.ID, "cursor": 1.5}, "invalid")
	c.refuse("get_execution_output", args{"execution_id": run.ID, "cursor": 1, "last_event_id": last}, "invalid")
}

// TestErrorsSayHowToGoOn: they name the parameters of the tools, and the ids and cursors that can be asked for.
func TestErrorsSayHowToGoOn(t *testing.T) {
	w := newFixture(t, nil)
	c := w.caller("2025-11-25", "")
	explain := func(tool string, arguments args, field string, wants ...string) {
		t.Helper()
		text, result := c.try(t.Context(), tool, arguments, nil)
		meta, _ := result.Meta["reprise/error"].(map[string]any)
		if !result.IsError || meta["field"] != field {
			t.Errorf("%s %v is answered with %q, %v; want the field %s", tool, arguments, text, meta, field)
		}
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s %v is answered with %q, without %q", tool, arguments, text, want)
			}
		}
	}
	explain("get_execution_status", args{"execution_id": "none"}, "execution_id", `"none"`, "execute_code")
	var run executed
	c.call("execute_code", args{"command": "echo out", "idempotency_key": "k"}, &run)
	for _, tool := range []string{"get_execution_output", "get_execution_status", "cancel_execution", "send_stdin"} {
		explain(tool, args{"execution_id": "none"}, "execution_id", `"none"`, run.ID+" (ended)")
	}
	explain("get_execution_output", args{"execution_id": run.ID, "cursor": "x"}, "cursor", `"0.`, run.Cursor, "0 to 3")
	explain("get_execution_output", args{"execution_id": run.ID, "cursor": 99}, "cursor", `"0.`, run.Cursor)
	explain("execute_code", args{}, "code", "code, command and argv")
	explain("execute_code", args{"command": "true", "code": "1"}, "command", "code is given too")
	explain("execute_code", args{"command": "true", "language": "sh"}, "language", "code")
	explain("execute_code", args{"command": "true", "timeout_seconds": -1}, "timeout_seconds")
	explain("execute_code", args{"command": "echo other", "idempotency_key": "k"}, "idempotency_key",
		"conflict: idempotency_key: ")
	explain("execute_code", args{"command": "true", "waitseconds": 1}, "waitseconds", "no such parameter",
		"wait_seconds")
	explain("execute_code", args{"command": "true", "wait_seconds": "soon"}, "wait_seconds", "a number is taken",
		"a string")
	explain("get_execution_output", args{"execution_id": run.ID, "cursor": 1.5}, "cursor", "a string or an integer")
	explain("get_execution_output", args{"wait": 1}, "execution_id", "required")
	var other executed
	c.call("execute_code", args{"command": "true"}, &other)
	explain("get_execution_output", args{"execution_id": run.ID, "cursor": other.Cursor}, "cursor",
		"of another execution", run.Cursor)
	explain("send_stdin", args{"execution_id": run.ID, "text": "x"}, "execution_id", "exited with code 0")
	explain("list_executions", args{"cursor": "zzz"}, "cursor", "leave it out")
	explain("list_executions", args{"cursor": "1", "status": "asleep"}, "status", "queued, running and ended")
	g := newGate(t)
	c.call("execute_code_async", args{"command": "trap '' TERM; echo deaf; " + g.wait()}, &other)
	c.call("get_execution_output", args{"execution_id": other.ID, "match": "deaf", "wait": 50}, nil)
	text := c.call("cancel_execution", args{"execution_id": other.ID, "wait": 0}, nil)
	if !strings.Contains(text, "told to end") {
		t.Errorf("a run that is being ended: %q", text)
	}
	g.open(t)
	c.call("execute_code", args{"command": "sleep 60", "wait_seconds": 0}, &other)
	explain("send_stdin", args{"execution_id": other.ID, "text": "x"}, "execution_id", "stdin_open")
}

// TestArgumentsAsTheyAreMeant: null is as good as nothing, and so is JSON in a string where no string is taken.
func TestArgumentsAsTheyAreMeant(t *testing.T) {
	c := newFixture(t, nil).caller("2025-11-25", "")
	text := c.call("execute_code", args{
		"argv": `["echo", "a b"]`, "wait_seconds": "10", "cwd": nil, "env": nil, "max_bytes": nil,
	}, nil)
	if bodyOf(text) != "a b\n" {
		t.Errorf("a model reads %q", text)
	}
	if text := c.call("execute_code", args{"command": `{"a": 1}`, "code": nil}, nil); !strings.Contains(text, "127") {
		t.Errorf("a command that looks like JSON: %q", text)
	}
	c.refuse("execute_code", args{"command": "true", "wait_seconds": "10s"}, "invalid")
	c.refuse("execute_code", args{"command": 7}, "invalid")
	c.refuse("get_execution_status", args{"execution_id": nil}, "invalid")
}

// TestListTellsRunsApart: a line about a run has its command, its session and its labels, and nothing is said twice.
func TestListTellsRunsApart(t *testing.T) {
	c := newFixture(t, nil).caller("2025-11-25", "")
	c.call("execute_code", args{
		"command": "echo one;\n\n  echo " + strings.Repeat("é", 200),
		"session": "s", "labels": args{"b": "2", "a": "1"},
	}, nil)
	c.call("execute_code", args{"argv": []string{"echo", "two"}}, nil)
	text, result := c.try(t.Context(), "list_executions", nil, nil)
	lines := strings.Split(text, "\n")
	if len(lines) != 3 || !strings.HasSuffix(lines[0], ": echo two") || !utf8.ValidString(text) ||
		!strings.Contains(lines[1], ": echo one; echo éé") ||
		!strings.HasSuffix(lines[1], "é...; session s; label a=1; label b=2") {
		t.Errorf("a model reads %q", text)
	}
	if result.StructuredContent != nil {
		t.Errorf("structured content: %v", result.StructuredContent)
	}
}

// TestRetentionOfTool: a call says how much of its output is kept, and an unknown member is refused by its name.
func TestRetentionOfTool(t *testing.T) {
	w := newFixture(t, nil)
	c := w.caller("2025-11-25", "")
	for _, tool := range []string{"execute_code", "execute_code_async"} {
		var run executed
		c.call(tool, args{"command": "seq 1000; sleep 0.2; echo last", "retention": args{"max_events": 2}}, &run)
		c.call("get_execution_output", args{"execution_id": run.ID, "until": "end"}, nil)
		key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "execution:" + run.ID}
		s, err := w.log.Stream(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		info, err := s.Info(t.Context())
		if err != nil || info.Config.Retention.MaxEvents != 2 || info.Kept() > 2 {
			t.Errorf("%s keeps %d events with %+v, %v", tool, info.Kept(), info.Config.Retention, err)
		}
		text, result := c.try(t.Context(), tool, args{"command": "true", "retention": args{"max_byts": 2}}, nil)
		if !result.IsError || !strings.Contains(text, "max_byts") {
			t.Errorf("%s answers %q", tool, text)
		}
		text, result = c.try(t.Context(), tool, args{"command": "true", "retention": args{"max_bytes": -2}}, nil)
		if !result.IsError || !strings.Contains(text, "retention.max_bytes") {
			t.Errorf("%s answers %q", tool, text)
		}
	}
}

// TestToolDescriptionsFitInEightKilobytes: the descriptions of all tools, as a model reads them, have at most 8 KB.
func TestToolDescriptionsFitInEightKilobytes(t *testing.T) {
	w := newFixture(t, nil)
	result, err := w.session("2025-11-25", "", nil).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 8<<10 {
		t.Errorf("tools/list has %d bytes", len(text))
	}
	t.Logf("%d bytes", len(text))
}

// TestTextIsNotRepeated: output is in the text of a result or in its structured content, and in one of them alone.
func TestTextIsNotRepeated(t *testing.T) {
	w := newFixture(t, nil)
	c := w.caller("2025-11-25", "")
	var run executed
	_, result := c.try(t.Context(), "execute_code", args{"command": "printf mar%s ker"}, &run)
	for _, arguments := range []args{nil, {"execution_id": run.ID}, {"execution_id": run.ID, "events": true}} {
		if arguments != nil {
			_, result = c.try(t.Context(), "get_execution_output", arguments, nil)
		}
		text, err := json.Marshal(result)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "marker"); n != 1 {
			t.Errorf("%v: the output is there %d times: %s", arguments, n, text)
		}
	}
}

// TestEscapeSequences: a model reads none, however they are cut; the resource and the events have them.
func TestEscapeSequences(t *testing.T) {
	w := newFixture(t, nil)
	c := w.caller("2025-11-25", "")
	var run executed
	text := c.call("execute_code", args{
		"command": `printf '\033[1;3'; sleep 2; printf '1mred\033[0m\033]0;title\007 plain\n'; sleep 1; printf '\033[2Kerr\033(B\n' >&2`,
	}, &run)
	if bodyOf(text) != "red plain\n[stderr]\nerr\n" {
		t.Errorf("a model reads %q", text)
	}
	raw := "\x1b[1;31mred\x1b[0m\x1b]0;title\a plain\n"
	contents, err := c.session.ReadResource(t.Context(),
		&mcp.ReadResourceParams{URI: "reprise://executions/" + run.ID + "/stdout"})
	if err != nil || contents.Contents[0].Text != raw {
		t.Errorf("the resource: %+v, %v", contents, err)
	}
	if got := c.all(run.ID, "", "stdout"); got != raw {
		t.Errorf("the events: %q", got)
	}
	// From a cursor within a sequence.
	var page read
	c.call("get_execution_output", args{"execution_id": run.ID, "limit": 2}, &page)
	text = c.call("get_execution_output", args{"execution_id": run.ID, "cursor": page.Cursor}, nil)
	if bodyOf(text) != "red plain\n[stderr]\nerr\n" {
		t.Errorf("from within a sequence: %q", text)
	}
}

// TestLinksToOmittedOutputCanBeRead: a link is there where something was left out, and each can be read.
func TestLinksToOmittedOutputCanBeRead(t *testing.T) {
	w := newFixture(t, &mcpserver.Options{MaxResource: 1000})
	c := w.caller("2025-11-25", "")
	for _, size := range []string{"900", "2500"} {
		var run executed
		_, result := c.try(t.Context(), "execute_code",
			args{"command": "head -c " + size + " /dev/zero | tr '\\0' x", "max_bytes": 500}, &run)
		link, ok := result.Content[len(result.Content)-1].(*mcp.ResourceLink)
		if !ok {
			t.Fatalf("%s bytes: %+v", size, result.Content)
		}
		contents, err := c.session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: link.URI})
		if err != nil || int64(len(contents.Contents[0].Text)) != *link.Size {
			t.Errorf("%s bytes: %s: %v", size, link.URI, err)
		}
		root := "reprise://executions/" + run.ID + "/stdout"
		if size == "900" {
			continue
		}
		read := 0
		for _, part := range []string{"0-999", "1000-1999", "2000-2999"} {
			contents, err := c.session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: root + "/" + part})
			if err != nil {
				t.Fatal(err)
			}
			read += len(contents.Contents[0].Text)
		}
		if read != 2500 {
			t.Errorf("the parts have %d bytes", read)
		}
		for _, part := range []string{"", "/2500-2600", "/5-4", "/x", "/0-1000", "/-1-5", "/0-5/6"} {
			if _, err := c.session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: root + part}); err == nil {
				t.Errorf("%s is read", root+part)
			}
		}
	}
	_, result := c.try(t.Context(), "execute_code",
		args{"command": "seq 1 1000; sleep 600", "max_bytes": 500, "wait_seconds": 2}, nil)
	if len(result.Content) != 1 {
		t.Errorf("a run that goes on has links: %+v", result.Content)
	}
}

// hazards are commands that models write for bash, with their output. In dash, which is sh on Debian, they do something
// else, many without an error.
var hazards = map[string]string{
	"echo {1..3}":                                        "1 2 3\n",
	"set -o pipefail; false | true; echo $?":             "1\n",
	"echo -e 'a\\tb'":                                    "a\tb\n",
	"cat <(echo of a process)":                           "of a process\n",
	"[[ abc == a* ]] && echo matches":                    "matches\n",
	"a=(1 2 3); echo ${#a[@]}":                           "3\n",
	"echo ${BASH_VERSION:+bash}; cat <<< input":          "bash\ninput\n",
	"for ((i = 0; i < 3; i++)); do echo $i; done":        "0\n1\n2\n",
	"v=abc; echo ${v^^}":                                 "ABC\n",
	"v=abc; echo ${v/b/x}":                               "axc\n",
	"v=abc; echo ${v:1:2}":                               "bc\n",
	"echo $'a\\tb'":                                      "a\tb\n",
	"cd $(mktemp -d); ls none &> log; wc -l < log":       "1\n",
	"cd $(mktemp -d); echo echo sourced > f; source ./f": "sourced\n",
	"function f { echo called; }; f":                     "called\n",
	"let x=1+2; echo $x":                                 "3\n",
	"declare -A m; m[k]=v; echo ${m[k]}":                 "v\n",
	"[ a == a ] && echo same":                            "same\n",
	"mapfile -t l < <(printf 'a\\nb\\n'); echo ${l[1]}":  "b\n",
	"[ -n \"$RANDOM\" ] && echo random":                  "random\n",
	"printf '%q\\n' 'a b'":                               "a\\ b\n",
	"pushd / > /dev/null; pwd":                           "/\n",
}

// TestCommandsRunInBash: models write commands for bash, of which sh may be another shell, such as dash.
func TestCommandsRunInBash(t *testing.T) {
	c := newFixture(t, nil).caller("2025-11-25", "")
	dash, err := exec.LookPath("dash")
	for command, want := range hazards {
		if got := bodyOf(c.call("execute_code", args{"command": command}, nil)); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
		if err != nil {
			continue
		}
		if other, _ := exec.CommandContext(t.Context(), dash, "-c", command).Output(); string(other) == want {
			t.Errorf("%s does the same in dash", command)
		}
	}

	bin := t.TempDir()
	if err := os.Symlink("/bin/sh", filepath.Join(bin, "sh")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	c = newFixture(t, nil).caller("2025-11-25", "")
	text := c.call("execute_code", args{"command": "echo ${BASH_VERSION:-no bash}"}, nil)
	if !strings.HasPrefix(text, "[run by sh: this machine has no bash]\nno bash\n") {
		t.Errorf("without bash: %q", text)
	}
}

// TestEndedBackgroundProcessesAreNamed: a model learns that what it has left running was ended.
func TestEndedBackgroundProcessesAreNamed(t *testing.T) {
	c := newFixture(t, nil).caller("2025-11-25", "")
	const command = `sleep 1000 >/dev/null 2>&1 & until read -r name </proc/$!/comm && [ "$name" = sleep ]; do :; done; echo up`
	const note = "[1 background process was ended with it: sleep 1000; execute_code_async runs one by itself]\n[e"
	var run executed
	if text := c.call("execute_code", args{"command": command}, &run); !strings.HasPrefix(text, "up\n"+note) {
		t.Errorf("execute_code: %q", text)
	}
	text := c.call("get_execution_output", args{"execution_id": run.ID, "until": "end"}, nil)
	if !strings.HasPrefix(text, "up\n"+note) {
		t.Errorf("get_execution_output: %q", text)
	}
}
