package mcpserver_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise"
	"reprise/internal/mcpserver"
)

// cursorIn is the cursor that a text ends with, as a model finds it.
func cursorIn(t *testing.T, text string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text[strings.LastIndex(text, "["):], `cursor "`)
	cursor, _, closed := strings.Cut(rest, `"`)
	if !ok || !closed {
		t.Fatalf("no cursor at the end of %q", text)
	}
	return cursor
}

// bodyOf is a text without its last line, which says how to go on.
func bodyOf(text string) string { return text[:strings.LastIndex(text, "[")] }

// TestBoundedWait: execute_code answers before the end of what takes long, and says how to read on; nothing is missing
// and nothing comes twice.
func TestBoundedWait(t *testing.T) {
	w := newFixture(t, &mcpserver.Options{TaskAfter: time.Hour})
	for _, era := range eras {
		c := w.caller(era, "")
		var g gate
		var run executed
		text := ""
		for wait := 3; wait < 50; wait *= 3 { // a busy machine may need longer for the first line
			g = newGate(t)
			begun := time.Now()
			text = c.call("execute_code",
				args{"command": "echo one; " + g.wait() + "; echo two", "wait_seconds": wait}, &run)
			if took := time.Since(begun); took < time.Duration(wait)*time.Second {
				t.Errorf("%s: a wait of %d s took %v", era, wait, took)
			}
			if bodyOf(text) != "" {
				break
			}
		}
		if bodyOf(text) != "one\n" || run.Status != "running" || !strings.Contains(text, run.ID) {
			t.Errorf("%s: a model reads %q, %+v", era, text, run)
		}
		g.open(t)
		text = c.call("get_execution_output",
			args{"execution_id": run.ID, "cursor": cursorIn(t, text), "until": "end"}, nil)
		if text != "two\n[ended: exited, exit code 0]" {
			t.Errorf("%s: then %q", era, text)
		}
	}
	c := w.caller("2025-11-25", "")
	c.call("execute_code", args{"command": "true", "wait_seconds": 120}, &executed{}) // as the longest
	c.refuse("execute_code", args{"command": "true", "wait_seconds": -1}, "invalid")
	var run executed
	if text := c.call("execute_code", args{"command": "sleep 600", "wait_seconds": 0}, &run); run.Status == "ended" {
		t.Errorf("without a wait: %q", text)
	}
}

// TestBoundedWaitOfATask: a call that has become a task is not bounded.
func TestBoundedWaitOfATask(t *testing.T) {
	w := newFixture(t, &mcpserver.Options{TaskAfter: 50 * time.Millisecond})
	created := w.raw("tools/call",
		`"name":"execute_code","arguments":{"command":"sleep 1; echo done","wait_seconds":0.3}`)
	got := w.untilEnded(created.TaskID)
	if x := got.Result.executed(); x.Outcome != "exited" || x.Stdout.Text != "done\n" {
		t.Errorf("the task: %+v", got.Result)
	}
}

// chatty writes 100 lines in three seconds, or somewhat more: 292 bytes.
const chatty = "i=0; while [ $i -lt 100 ]; do i=$((i+1)); echo $i; sleep 0.03; done"

// longQuiet is no pause in the output of a command that goes on, even on a busy machine.
const longQuiet = 5 * time.Second

// TestManyLinesInFewCalls: 100 lines in three seconds cost at most 3 calls, and 1.5 times the bytes of the output.
func TestManyLinesInFewCalls(t *testing.T) {
	w := newFixture(t, mcpserver.Options{}.WithQuiet(longQuiet))
	var want strings.Builder
	for i := range 100 {
		fmt.Fprintln(&want, i+1)
	}
	for name, more := range map[string]args{
		"wait": {"wait": 10}, "until output": {"until": "output"}, "until end": {"wait": 20, "until": "end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := w.caller("2025-11-25", "")
			for tries := 1; ; tries++ { // a machine that stops for longer than a pause in the output costs calls
				calls, shown := c.followChatty(want.String(), more)
				t.Logf("%d calls, %d bytes for %d", calls, shown, want.Len())
				if calls <= 3 && shown <= want.Len()*3/2 {
					return
				}
				if tries == 3 {
					t.Fatalf("%d calls and %d bytes for %d bytes of output", calls, shown, want.Len())
				}
			}
		})
	}
	t.Run("execute_code", func(t *testing.T) {
		t.Parallel()
		text := w.caller("2026-07-28", "").call("execute_code", args{"command": chatty}, nil)
		if bodyOf(text) != want.String() || len(text) > want.Len()*3/2 {
			t.Errorf("one call shows %d bytes: %q", len(text), text)
		}
	})
}

// followChatty reads all of chatty, and returns what that took.
func (c *caller) followChatty(want string, more args) (calls, shown int) {
	c.t.Helper()
	var run executed
	shown = len(c.call("execute_code_async", args{"command": chatty}, &run))
	calls = 1
	var got strings.Builder
	for cursor := ""; ; {
		arguments := args{"execution_id": run.ID}
		maps.Copy(arguments, more)
		if cursor != "" {
			arguments["cursor"] = cursor
		}
		text := c.call("get_execution_output", arguments, nil)
		calls++
		shown += len(text)
		got.WriteString(bodyOf(text))
		if strings.Contains(text, "[ended: ") {
			break
		}
		cursor = cursorIn(c.t, text)
	}
	if got.String() != want {
		c.t.Errorf("read %q", got.String())
	}
	return calls, shown
}

// TestUntilOutput: an answer is there soon after a prompt, and not at the first byte.
func TestUntilOutput(t *testing.T) {
	w := newFixture(t, mcpserver.Options{}.WithQuiet(longQuiet))
	c := w.caller("2025-11-25", "")
	var run executed
	c.call("execute_code_async",
		args{
			"command":    `for i in 1 2 3 4 5; do printf "$i "; sleep 0.05; done; printf '> '; read x; sleep 60`,
			"stdin_open": true,
		}, &run)
	begun := time.Now()
	text := c.call("get_execution_output", args{"execution_id": run.ID, "wait": 20}, nil)
	if took := time.Since(begun); took > 15*time.Second || bodyOf(text) != "1 2 3 4 5 > \n" {
		t.Errorf("%q after %v", text, took)
	}
	begun = time.Now()
	text = c.call("get_execution_output",
		args{"execution_id": run.ID, "cursor": cursorIn(t, text), "wait": 0.4, "until": "output"}, nil)
	if took := time.Since(begun); took < 400*time.Millisecond || took > time.Minute || bodyOf(text) != "" {
		t.Errorf("where there is none: %q after %v", text, took)
	}
	c.call("cancel_execution", args{"execution_id": run.ID}, nil)
}

// TestUntilMatch: a wait for a text or a pattern ends with the event that has it, wherever it was cut by the writer.
func TestUntilMatch(t *testing.T) {
	w := newFixture(t, nil)
	c := w.caller("2025-11-25", "")
	var run executed
	c.call("execute_code_async", args{"command": `echo begin; sleep 0.3; printf 'rea'; sleep 0.3; printf 'dy\n'; sleep 0.3; ` +
		`printf 'port 80' >&2; sleep 0.3; echo 81 >&2; sleep 60`}, &run)
	text := c.call("get_execution_output", args{"execution_id": run.ID, "match": "ready"}, nil)
	if bodyOf(text) != "begin\nready\n" || !strings.Contains(text, "[matched; ") {
		t.Errorf("a text: %q", text)
	}
	text = c.call("get_execution_output", args{
		"execution_id": run.ID, "cursor": cursorIn(t, text), "until": "match", "pattern": `port (\d{4})`, "wait": 10,
	}, nil)
	if bodyOf(text) != "[stderr]\nport 8081\n" || !strings.Contains(text, "[matched; ") {
		t.Errorf("a pattern: %q", text)
	}
	begun := time.Now()
	text = c.call("get_execution_output",
		args{"execution_id": run.ID, "cursor": cursorIn(t, text), "match": "ready", "wait": 0.3}, nil)
	if took := time.Since(begun); took < 300*time.Millisecond || !strings.Contains(text, "[goes on, no match; ") {
		t.Errorf("what comes no more: %q after %v", text, took)
	}
	c.call("cancel_execution", args{"execution_id": run.ID}, nil)
	text = c.call("get_execution_output", args{"execution_id": run.ID, "match": "nothing of that kind"}, nil)
	if !strings.Contains(text, "[ended: cancelled") {
		t.Errorf("after the end: %q", text)
	}
	for _, bad := range []args{
		{"until": "match"},
		{"match": "a", "pattern": "b"},
		{"pattern": "("},
		{"pattern": "(?:a{0,500}){2}b"},
		{"until": "end", "match": "a"},
		{"until": "then"},
	} {
		bad["execution_id"] = run.ID
		c.refuse("get_execution_output", bad, "invalid")
	}
}

// TestPatternEndsWithItsWork: a search for a costly pattern ends before all output is searched, with a cursor to go on
// from, and does not search it all again there.
func TestPatternEndsWithItsWork(t *testing.T) {
	c := newFixture(t, nil).caller("2025-11-25", "")
	var run executed
	c.call("execute_code_async", args{"command": "head -c 200000 /dev/zero | tr '\\0' a; echo b"}, &run)
	calls, text := 0, ""
	for cursor := ""; !strings.Contains(text, "[matched; "); calls++ {
		asked := args{"execution_id": run.ID, "pattern": "(?:a{0,200}){2}b", "wait": 50}
		if cursor != "" {
			asked["cursor"] = cursor
		}
		if text = c.call("get_execution_output", asked, nil); strings.Contains(text, "[matched; ") {
			continue
		}
		cursor = cursorIn(t, text)
		if strings.Contains(text, "[goes on") || calls == 9 {
			t.Fatalf("call %d: %q", calls, text[max(0, len(text)-100):])
		}
	}
	if calls < 2 {
		t.Error("one call has searched all")
	}
}

// TestLongOutputIsCutInTheMiddle: long output is cut in the middle, and a note says how to read the rest.
func TestLongOutputIsCutInTheMiddle(t *testing.T) {
	w := newFixture(t, nil)
	c := w.caller("2025-11-25", "")
	var run executed
	g := newGate(t)
	c.call("execute_code_async", args{"command": "seq 1 100000; " + g.wait() + "; echo over >&2"}, &run)
	c.call("get_execution_output", args{"execution_id": run.ID, "match": "\n100000\n", "wait": 50}, nil)
	g.open(t)
	text := c.call("get_execution_output", args{"execution_id": run.ID, "until": "end", "max_bytes": 2000}, nil)
	if len(text) > 2300 || !strings.HasPrefix(text, "1\n2\n") ||
		!strings.HasSuffix(text, "\n100000\n[stderr]\nover\n[ended: exited, exit code 0]") {
		t.Errorf("a model reads %d bytes: %q", len(text), text)
	}
	head, rest, _ := strings.Cut(text, "\n[... ")
	cursor := cursorIn(t, "["+rest[:strings.Index(rest, " ...]")])
	left, whole := c.all(run.ID, cursor, "stdout"), c.all(run.ID, "", "stdout")
	if !strings.HasSuffix(whole, left) || len(left) < len(whole)-len(head) {
		t.Errorf("%d bytes are read from the note, of %d, with %d before it", len(left), len(whole), len(head))
	}
}

// TestMatchIsShown: however much is written in one piece with it, an answer has the match, some of what follows, and a
// cursor for the rest.
func TestMatchIsShown(t *testing.T) {
	c := newFixture(t, nil).caller("2025-11-25", "")
	var run executed
	file := filepath.Join(t.TempDir(), "output") // cat writes all of it at once
	c.call("execute_code", args{
		"command": "{ seq 1 3000; echo NEEDLE 4711; seq 3001 6000; } >" + file + "; cat " + file, "max_bytes": 1000,
	}, &run)
	for _, wanted := range []args{{"match": "NEEDLE"}, {"pattern": `NEEDLE \d+`}} {
		wanted["execution_id"], wanted["max_bytes"] = run.ID, 1000
		text := c.call("get_execution_output", wanted, nil)
		if len(text) > 1400 || !strings.Contains(text, "\n3000\nNEEDLE 4711\n3001\n") ||
			!strings.HasPrefix(text, "1\n2\n") || !strings.Contains(text, "[matched; ") ||
			strings.Count(text, "bytes are left out here") != 2 {
			t.Errorf("%v: %d bytes: %q", wanted, len(text), text)
		}
	}
}

// TestLongEventIsCut: max_bytes holds for a piece of output that alone is longer, and no call is spent on events
// without output.
func TestLongEventIsCut(t *testing.T) {
	c := newFixture(t, nil).caller("2025-11-25", "")
	var run executed
	c.call("execute_code", args{"command": "seq 1 5000"}, &run)
	text := c.call("get_execution_output", args{"execution_id": run.ID, "max_bytes": 300}, nil)
	if len(text) > 700 || !strings.HasPrefix(text, "1\n2\n") || !strings.Contains(text, "bytes are left out here") {
		t.Fatalf("%d bytes: %q", len(text), text)
	}
	_, note, _ := strings.Cut(text, "max_bytes ")
	size, _, _ := strings.Cut(note, " ")
	n, err := strconv.Atoi(size)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(text, "[... ")
	cursor := cursorIn(t, "["+rest[:strings.Index(rest, " ...]")])
	text = c.call("get_execution_output", args{"execution_id": run.ID, "cursor": cursor, "max_bytes": n}, nil)
	if !strings.HasPrefix(text, "1\n2\n") || strings.Contains(text, "left out") {
		t.Errorf("as the note says: %.100q", text)
	}
}

// TestPagesHaveAllOutput: who reads page by page, and states no max_bytes, misses nothing.
func TestPagesHaveAllOutput(t *testing.T) {
	c := newFixture(t, nil).caller("2025-11-25", "")
	var run executed
	file := filepath.Join(t.TempDir(), "output") // cat writes much of it at once, and events get as long as they may
	c.call("execute_code", args{"command": "seq 1 50000 >" + file + "; cat " + file}, &run)
	var got, want strings.Builder
	for i := range 50_000 {
		fmt.Fprintln(&want, i+1)
	}
	for cursor := ""; ; {
		arguments := args{"execution_id": run.ID}
		if cursor != "" {
			arguments["cursor"] = cursor
		}
		text := c.call("get_execution_output", arguments, nil)
		body := bodyOf(text)
		if strings.Contains(text, "[ended: ") {
			got.WriteString(body)
			break
		}
		got.WriteString(strings.TrimSuffix(body, "\n")) // a page may end within a line, and ends with a line break
		if !strings.HasPrefix(want.String(), got.String()) {
			t.Fatalf("something is missing before byte %d", got.Len())
		}
		if strings.HasPrefix(want.String()[got.Len():], "\n") {
			got.WriteString("\n")
		}
		cursor = cursorIn(t, text)
	}
	if got.String() != want.String() {
		t.Errorf("%d bytes were read, of %d", got.Len(), want.Len())
	}
}

// TestStdinAnswersWithOutput: a call that writes and waits returns what the command says then, and nothing from before.
func TestStdinAnswersWithOutput(t *testing.T) {
	c := newFixture(t, nil).caller("2025-11-25", "")
	var run executed
	c.call("execute_code_async", args{
		"command":    `printf 'name? '; read name; printf 'hello %s\nage? ' "$name"; read age; echo "you are $age"`,
		"stdin_open": true,
	}, &run)
	text := c.call("get_execution_output", args{"execution_id": run.ID, "match": "? "}, nil)
	text = c.call("send_stdin", args{
		"execution_id": run.ID, "text": "Ada\n", "match": "? ", "cursor": cursorIn(t, text),
	}, nil)
	if bodyOf(text) != "hello Ada\nage? \n" || !strings.Contains(text, "[matched; ") {
		t.Errorf("up to the prompt: %q", text)
	}
	var facts struct {
		Stdin struct {
			Offset int64
			Whole  bool
		}
		End *struct{ Outcome string }
	}
	text = c.call("send_stdin",
		args{"execution_id": run.ID, "text": "36\n", "eof": true, "wait": 30, "match": "36"}, &facts)
	if bodyOf(text) != "you are 36\n" || facts.Stdin.Offset != 7 || !facts.Stdin.Whole {
		t.Errorf("without a cursor: %q, %+v", text, facts)
	}
	c.refuse("send_stdin", args{"execution_id": run.ID, "text": "x", "wait": -1}, "invalid")
	c.refuse("send_stdin", args{"execution_id": run.ID, "text": "x", "match": "y"}, "stream_ended")
}

// TestProgressOfOutput: get_execution_output reports the last line while it waits.
func TestProgressOfOutput(t *testing.T) {
	w := newFixture(t, &mcpserver.Options{ProgressEvery: 50 * time.Millisecond})
	last := make(chan string, 10_000)
	session := w.session("2025-11-25", "",
		&mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context,
			r *mcp.ProgressNotificationClientRequest,
		) {
			last <- r.Params.Message
		}})
	c := &caller{t, session}
	var run executed
	g := newGate(t)
	c.call("execute_code_async",
		args{"command": `printf 'first\n10%%\r20%%\r\033[31m3'; sleep 0.2; printf '0%%\033[0m\r\n'; ` + g.wait()}, &run)
	params := &mcp.CallToolParams{
		Name: "get_execution_output", Arguments: args{"execution_id": run.ID, "until": "end", "wait": 50},
	}
	params.SetProgressToken("p")
	called := make(chan error, 1)
	go func() {
		_, err := session.CallTool(t.Context(), params)
		called <- err
	}()
	for told := false; !told; {
		select {
		case message := <-last:
			told = strings.HasSuffix(message, ": 30%")
		case <-time.After(patience):
			t.Fatal("no progress has the last line")
		}
	}
	g.open(t)
	if err := <-called; err != nil {
		t.Fatal(err)
	}
}

// TestStdinSaysWhatWasWrittenWithoutOutput: what was written is told, also if the output cannot be read then.
// Otherwise a model would write it again.
func TestStdinSaysWhatWasWrittenWithoutOutput(t *testing.T) {
	w := newFixture(t, nil)
	c := w.caller("2025-11-25", "")
	read := newGate(t)
	var run executed
	c.call("execute_code_async", args{
		"command": `echo up; read line; : > "$READ"; sleep 600`, "env": args{"READ": string(read)}, "stdin_open": true,
	}, &run)
	c.call("get_execution_output", args{"execution_id": run.ID, "match": "up"}, nil)
	go func() {
		until(t, "the line is read", func() bool {
			_, err := os.Stat(string(read))
			return err == nil
		})
		if s, err := w.log.Stream(t.Context(), reprise.StreamKey{
			Tenant: reprise.DefaultTenant, Name: "execution:" + run.ID,
		}); err != nil || s.Remove(t.Context()) != nil {
			t.Errorf("the stream is not removed: %v", err)
		}
	}()
	text := c.call("send_stdin", args{"execution_id": run.ID, "text": "x\n", "wait": 50}, nil)
	if !strings.Contains(text, "has been given 2 bytes in all; its output could not be read") {
		t.Errorf("answered %q", text)
	}
}

// TestReplOnPipes: in a conversation with a program whose prompt is on stderr and whose answers are on stdout, each
// answer is in the call that has asked for it.
func TestReplOnPipes(t *testing.T) {
	c := newFixture(t, nil).caller("2025-11-25", "")
	var run executed
	c.call("execute_code_async", args{"argv": []string{"python3", "-i", "-q"}, "stdin_open": true}, &run)
	c.call("get_execution_output", args{"execution_id": run.ID, "match": ">>> "}, nil)
	for n := range 40 {
		text := c.call("send_stdin",
			args{"execution_id": run.ID, "text": fmt.Sprintf("print(%d)\n", 1000+n), "match": ">>> "}, nil)
		if want := fmt.Sprintf("%d\n[stderr]\n>>> \n", 1000+n); bodyOf(text) != want {
			t.Errorf("%d: %q, want %q", n, text, want)
		}
	}
}

// TestStdinShowsWhatNoAnswerHasShown: output that comes between two calls is in the next one, and a prompt from before
// does not count as the answer to what is written then.
func TestStdinShowsWhatNoAnswerHasShown(t *testing.T) {
	c := newFixture(t, nil).caller("2025-11-25", "")
	late, slow := newGate(t), newGate(t)
	var run executed
	var status struct {
		Bytes int64 `json:"stdout_bytes"`
	}
	c.call("execute_code_async", args{
		"command": `read -r x; echo "got $x"; echo "> "; ` + late.wait() + `; echo "late $x"; echo "> "; ` +
			`read -r x; ` + slow.wait() + `; echo "got $x"; echo "> "; read -r x`, "stdin_open": true,
	}, &run)
	text := c.call("send_stdin", args{"execution_id": run.ID, "text": "one\n", "match": "> "}, nil)
	if bodyOf(text) != "got one\n> \n" {
		t.Fatalf("the first: %q", text)
	}
	late.open(t)
	for status.Bytes < int64(len("got one\n> \nlate one\n> \n")) {
		c.call("get_execution_status", args{"execution_id": run.ID}, &status)
	}
	defer time.AfterFunc(300*time.Millisecond, func() { slow.open(t) }).Stop() // later than any pause after a match
	text = c.call("send_stdin", args{"execution_id": run.ID, "text": "two\n", "match": "> "}, nil)
	if want := "late one\n> \ngot two\n> \n"; bodyOf(text) != want {
		t.Errorf("the second: %q, want %q", text, want)
	}
}
