package mcpserver_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"reprise/internal/mcpserver"
)

type args = map[string]any

func TestExecuteReturnsOutputAndExitCode(t *testing.T) {
	w := newFixture(t, nil)
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			c := w.caller(era, "")
			var got executed
			text := c.call("execute_code", args{"command": "echo out; echo err >&2; exit 3"}, &got)
			if got.Stdout.Text != "out\n" || got.Stderr.Text != "err\n" || *got.ExitCode != 3 ||
				got.Outcome != "exited" || got.Status != "ended" {
				t.Errorf("%+v", got)
			}
			if !strings.HasPrefix(text, "out\n[stderr]\nerr\n[execution ") ||
				!strings.Contains(text, "exited with code 3") {
				t.Errorf("a model reads %q", text)
			}
			c.call("execute_code", args{"argv": []string{"printf", "%s|%s", "a", "b"}}, &got)
			if got.Stdout.Text != "a|b" {
				t.Errorf("argv: %+v", got)
			}
			c.call("execute_code",
				args{
					"code": "read x; echo \"$x $Y\"", "language": "sh", "stdin": "in\n",
					"env": args{"Y": "env"},
				}, &got)
			if got.Stdout.Text != "in env\n" {
				t.Errorf("code: %+v", got)
			}
			_, result := c.try(t.Context(), "execute_code", args{"argv": []string{"/no/such/program"}}, &got)
			if !result.IsError || got.Outcome != "failed_to_start" {
				t.Errorf("a program that is not there: %+v", got)
			}
		})
	}
}

func TestLongOutputIsCut(t *testing.T) {
	w := newFixture(t, nil)
	c := w.caller("2025-11-25", "")
	var got executed
	// Exactly as much as is shown, and one byte more.
	c.call("execute_code", args{"command": "head -c 1000 /dev/zero | tr '\\0' x", "max_bytes": 1000}, &got)
	if got.Stdout.Omitted != 0 || len(got.Stdout.Text) != 1000 {
		t.Errorf("1000 of 1000: %+v", got.Stdout)
	}
	c.call("execute_code", args{"command": "head -c 1001 /dev/zero | tr '\\0' x", "max_bytes": 1000}, &got)
	if got.Stdout.Omitted != 1 || strings.Count(got.Stdout.Text, "x") < 1000 || got.Stdout.Bytes != 1001 {
		t.Errorf("1000 of 1001: %+v", got.Stdout)
	}
	text := c.call("execute_code", args{"command": "seq 1 100000; seq 1 100000 >&2"}, &got)
	if n := len(got.Stdout.Text) + len(got.Stderr.Text); n > 30_000+1000 || len(text) > 32_000 {
		t.Errorf("%d bytes, and %d for the model", n, len(text))
	}
	for _, ch := range []channel{got.Stdout, got.Stderr} {
		head, rest, _ := strings.Cut(ch.Text, "\n[... ")
		note, tail, _ := strings.Cut(rest, " ...]\n")
		if !strings.HasPrefix(head, "1\n2\n") || !strings.HasSuffix(tail, "\n100000\n") ||
			!strings.Contains(note, ch.Cursor) || ch.Cursor == "" ||
			int64(len(head)+len(tail))+ch.Omitted != ch.Bytes {
			t.Errorf("head %.20q, note %q, tail %.20q of %d bytes", head, note, tail, ch.Bytes)
		}
	}
	// What was left out can be read.
	left := c.all(got.ID, got.Stdout.Cursor, "stdout")
	head, _, _ := strings.Cut(got.Stdout.Text, "\n[... ")
	whole := c.all(got.ID, "", "stdout")
	if !strings.HasSuffix(whole, left) || len(left) < len(whole)-len(head) {
		t.Errorf("%d bytes are left, of %d, %d shown at first", len(left), len(whole), len(head))
	}
}

// all reads a channel from a cursor to the end, in pieces.
func (c *caller) all(id, cursor, channel string) string {
	c.t.Helper()
	var b strings.Builder
	for {
		var page read
		c.call("get_execution_output",
			args{"execution_id": id, "cursor": cursor, "wait": 5, "max_bytes": 40_000, "limit": 3}, &page)
		if len(page.Events) > 3 {
			c.t.Fatalf("%d events, at most 3 were asked for", len(page.Events))
		}
		for _, e := range page.Events {
			if e.Type == channel {
				b.WriteString(e.Text)
				b.Write(e.Base64)
			}
		}
		cursor = page.Cursor
		if page.End != nil {
			return b.String()
		}
	}
}

func TestUnicodeAndBinary(t *testing.T) {
	w := newFixture(t, nil)
	c := w.caller("2025-11-25", "")
	var got executed
	c.call("execute_code", args{"command": "for i in $(seq 1 200); do printf '€😀é'; done", "max_bytes": 300}, &got)
	if got.Stdout.Binary || strings.ContainsRune(got.Stdout.Text, '�') || got.Stdout.Bytes != 1800 {
		t.Errorf("%+v", got.Stdout)
	}
	text := c.call("execute_code", args{"command": "printf 'a\\000b\\377'"}, &got)
	if !got.Stdout.Binary || got.Stdout.Text != "" || got.Stdout.Bytes != 4 || got.Stdout.Cursor == "" {
		t.Errorf("%+v", got.Stdout)
	}
	if !strings.Contains(text, "[stdout: 4 bytes that are no text; get_execution_output with events reads them]") {
		t.Errorf("a model reads %q", text)
	}
	if got := c.all(got.ID, "", "stdout"); got != "a\x00b\xff" {
		t.Errorf("read %q", got)
	}
}

func TestAsyncExecutionIsReadByCursor(t *testing.T) {
	w := newFixture(t, nil)
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			c := w.caller(era, "")
			var run executed
			c.call("execute_code_async",
				args{"command": "echo first; while read line; do echo \"got $line\"; done", "stdin_open": true}, &run)
			var page read
			c.call("get_execution_output", args{"execution_id": run.ID, "wait": 10, "cursor": run.Cursor}, &page)
			for len(page.Events) < 2 { // started, and the first line
				c.call("get_execution_output", args{"execution_id": run.ID, "wait": 10}, &page)
			}
			if page.Events[1].Text != "first\n" || page.End != nil || page.HasMore {
				t.Fatalf("%+v", page)
			}
			for range 2 { // the second time it is a duplicate
				var in struct {
					Offset      int64
					Open, Whole bool
				}
				c.call("send_stdin", args{"execution_id": run.ID, "text": "line\n", "offset": 0}, &in)
				if in.Offset != 5 || !in.Open || !in.Whole {
					t.Errorf("stdin: %+v", in)
				}
			}
			c.call("send_stdin",
				args{
					"execution_id": run.ID, "base64": base64.StdEncoding.EncodeToString([]byte("2\n")),
					"eof": true,
				}, nil)
			last := page.Events[1].ID
			c.call("get_execution_output", args{"execution_id": run.ID, "wait": 10, "last_event_id": last}, &page)
			if got := c.all(run.ID, last, "stdout"); got != "got line\ngot 2\n" {
				t.Errorf("then %q", got)
			}
			var st executed
			c.call("get_execution_status", args{"execution_id": run.ID}, &st)
			if st.Status != "ended" || *st.ExitCode != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

func TestWaitIsBounded(t *testing.T) {
	w := newFixture(t, nil)
	c := w.caller("2025-11-25", "")
	var run executed
	c.call("execute_code_async", args{"command": "sleep 600"}, &run)
	var page read
	for len(page.Events) == 0 { // the event "started"
		c.call("get_execution_output", args{"execution_id": run.ID, "wait": 0.3}, &page)
	}
	begun := time.Now()
	c.call("get_execution_output", args{"execution_id": run.ID, "wait": 0.3, "cursor": page.Cursor}, &page)
	if took := time.Since(begun); took < 300*time.Millisecond || took > time.Minute || len(page.Events) != 0 {
		t.Errorf("%v, %+v", took, page)
	}
	text := c.call("cancel_execution", args{"execution_id": run.ID}, &run)
	if run.Outcome != "cancelled" || !strings.Contains(text, "cancelled") {
		t.Errorf("%q, %+v", text, run)
	}
	c.call("cancel_execution", args{"execution_id": run.ID, "wait": 0}, &run) // again
}

func TestIdempotencyKey(t *testing.T) {
	w := newFixture(t, nil)
	c := w.caller("2026-07-28", "")
	g := newGate(t)
	request := args{"command": "echo $$; " + g.wait(), "idempotency_key": "k", "session": "s"}
	var first, second executed
	c.cutOff(request)
	g.open(t)
	c.call("execute_code", request, &first)
	c.call("execute_code", request, &second)
	if !first.Attached || !second.Attached || first.ID != second.ID || first.Outcome != "exited" ||
		first.Stdout.Text != second.Stdout.Text {
		t.Errorf("%+v\n%+v", first, second)
	}
	c.refuse("execute_code", args{"command": "echo other", "idempotency_key": "k"}, "conflict")
}

// cutOff calls execute_code with a session, and gives up when there is an execution in it.
func (c *caller) cutOff(request args) {
	c.t.Helper()
	ctx, stop := context.WithCancel(c.t.Context())
	defer stop()
	cut := make(chan error, 1)
	go func() {
		_, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: "execute_code", Arguments: request})
		cut <- err
	}()
	until(c.t, "it is started", func() bool {
		var list struct{ Executions []executed }
		c.call("list_executions", args{"session": request["session"]}, &list)
		return len(list.Executions) == 1
	})
	stop()
	if err := <-cut; err == nil {
		c.t.Error("it was not cut off")
	}
}

// TestCancelledCall: a run that nobody can find again goes with the call.
func TestCancelledCall(t *testing.T) {
	w := newFixture(t, nil)
	for _, era := range eras {
		c := w.caller(era, "")
		c.cutOff(args{"command": "sleep 600", "session": "s" + era[:4]})
		until(t, "the run is cancelled", func() bool {
			var list struct{ Executions []executed }
			c.call("list_executions", args{"session": "s" + era[:4]}, &list)
			return len(list.Executions) == 1 && list.Executions[0].Outcome == "cancelled"
		})
	}
}

func TestTenantsDoNotSeeEachOther(t *testing.T) {
	w := newFixture(t, nil)
	alice, bob := w.caller("2025-11-25", "alice"), w.caller("2026-07-28", "bob")
	var run executed
	alice.call("execute_code_async", args{"command": "cat", "stdin_open": true}, &run)
	for tool, more := range map[string]args{
		"get_execution_output": {}, "get_execution_status": {}, "cancel_execution": {}, "send_stdin": {"text": "x"},
		"search_execution_output": {"pattern": "x"},
	} {
		more["execution_id"] = run.ID
		bob.refuse(tool, more, "not_found")
	}
	if _, err := bob.session.ReadResource(t.Context(),
		&mcp.ReadResourceParams{URI: "reprise://executions/" + run.ID}); err == nil {
		t.Error("bob reads the resource")
	}
	var list struct{ Executions []executed }
	bob.call("list_executions", nil, &list)
	if len(list.Executions) != 0 {
		t.Errorf("bob sees %+v", list)
	}
	var own executed
	bob.call("execute_code", args{"command": "true"}, &own)
	alice.call("get_execution_output", args{"execution_id": run.ID}, nil)
	cursor := run.Cursor
	bob.refuse("get_execution_output", args{"execution_id": own.ID, "cursor": cursor}, "cursor_foreign")
}

func TestReaderStartsNothing(t *testing.T) {
	w := newFixture(t, granted("read"))
	c := w.caller("2025-11-25", "")
	c.call("list_executions", nil, nil)
	for _, tool := range []string{"execute_code", "execute_code_async"} {
		c.refuse(tool, args{"command": "true"}, "forbidden")
	}
	c.refuse("cancel_execution", args{"execution_id": "x"}, "forbidden")
	c.refuse("send_stdin", args{"execution_id": "x"}, "forbidden")
}

func TestHostileArguments(t *testing.T) {
	w := newFixture(t, nil)
	c := w.caller("2025-11-25", "")
	var run executed
	c.call("execute_code", args{"command": "true"}, &run)
	for _, bad := range []struct {
		tool      string
		arguments args
		code      string
	}{
		{"execute_code", nil, "invalid"},
		{"execute_code", args{"command": "true", "code": "1"}, "invalid"},
		{"execute_code", args{"command": 7}, "invalid"},
		{"execute_code", args{"code": "x", "language": "cobol"}, "invalid"},
		{"execute_code", args{"command": "true", "timeout_seconds": -1}, "invalid"},
		{"execute_code", args{"command": "true", "timeout_seconds": 1e300}, "invalid"},
		{"execute_code", args{"command": "true", "max_bytes": 255}, "invalid"},
		{"execute_code", args{"command": "true", "max_bytes": 1<<20 + 1}, "invalid"},
		{"execute_code", args{"command": "a\x00b"}, "invalid"},
		{"execute_code", args{"command": "true", "idempotency_key": strings.Repeat("k", 256)}, "invalid"},
		{"execute_code", args{"command": "true", "session": "../x"}, "invalid"},
		{"execute_code", args{"command": "true", "nonsense": 1}, "invalid"},
		{"get_execution_output", args{}, "invalid"},
		{"get_execution_output", args{"execution_id": ""}, "not_found"},
		{"get_execution_output", args{"execution_id": "../../x"}, "not_found"},
		{"get_execution_output", args{"execution_id": strings.Repeat("x", 10_000)}, "not_found"},
		{"get_execution_output", args{"execution_id": run.ID, "cursor": "7.x"}, "cursor_malformed"},
		{"get_execution_output", args{"execution_id": run.ID, "cursor": "\x00"}, "cursor_malformed"},
		{"get_execution_output", args{"execution_id": run.ID, "wait": 1e300}, "invalid"},
		{"get_execution_output", args{"execution_id": run.ID, "wait": -1}, "invalid"},
		{"get_execution_output", args{"execution_id": run.ID, "limit": 1001}, "invalid"},
		{"get_execution_output", args{"execution_id": run.ID, "limit": -1}, "invalid"},
		{"get_execution_output", args{"execution_id": run.ID, "max_bytes": 1}, "invalid"},
		{"get_execution_output", args{"execution_id": run.ID, "cursor": "0", "last_event_id": "tail"}, "invalid"},
		{"get_execution_status", args{"execution_id": "none"}, "not_found"},
		{"cancel_execution", args{"execution_id": "none"}, "not_found"},
		{"send_stdin", args{"execution_id": run.ID, "text": "x"}, "stream_ended"},
		{"send_stdin", args{"execution_id": run.ID, "text": "x", "base64": "eA=="}, "invalid"},
		{"send_stdin", args{"execution_id": run.ID, "offset": -2}, "invalid"},
		{"list_executions", args{"limit": 101}, "invalid"},
		{"list_executions", args{"limit": -1}, "invalid"},
		{"list_executions", args{"status": "asleep"}, "invalid"},
		{"list_executions", args{"cursor": "nonsense"}, "invalid"},
	} {
		c.refuse(bad.tool, bad.arguments, bad.code)
	}
}

func TestListPagesHaveEachExecutionOnce(t *testing.T) {
	w := newFixture(t, nil)
	c := w.caller("2025-11-25", "")
	for i := range 5 {
		c.call("execute_code", args{"command": "true", "labels": args{"n": fmt.Sprint(i % 2)}}, nil)
	}
	var list struct {
		Executions []executed
		NextCursor string `json:"next_cursor"`
	}
	var seen []string
	for cursor := ""; ; cursor = list.NextCursor {
		list.NextCursor = ""
		c.call("list_executions", args{"limit": 2, "cursor": cursor}, &list)
		for _, x := range list.Executions {
			seen = append(seen, x.ID)
		}
		if list.NextCursor == "" {
			break
		}
	}
	if len(seen) != 5 {
		t.Errorf("seen: %v", seen)
	}
	c.call("list_executions", args{"labels": args{"n": "1"}, "status": "ended"}, &list)
	if len(list.Executions) != 2 {
		t.Errorf("with a label: %+v", list)
	}
}

func TestResourcesHaveOutputAndState(t *testing.T) {
	w := newFixture(t, &mcpserver.Options{MaxResource: 1000})
	c := w.caller("2025-11-25", "")
	var run executed
	read := func(uri string) (*mcp.ResourceContents, error) {
		result, err := c.session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil {
			return nil, err
		}
		return result.Contents[0], nil
	}
	c.call("execute_code", args{"command": "echo out; printf '\\377' >&2"}, &run)
	if got, err := read("reprise://executions/" + run.ID + "/stdout"); err != nil || got.Text != "out\n" {
		t.Errorf("stdout: %+v, %v", got, err)
	}
	if got, err := read("reprise://executions/" + run.ID + "/stderr"); err != nil || string(got.Blob) != "\xff" {
		t.Errorf("stderr: %+v, %v", got, err)
	}
	if got, err := read("reprise://executions/" + run.ID); err != nil || !strings.Contains(got.Text, `"exit_code":0`) {
		t.Errorf("the run: %+v, %v", got, err)
	}
	for _, uri := range []string{
		"reprise://executions/none", "reprise://executions/" + run.ID + "/stdin",
		"reprise://executions/%2e%2e/stdout", "reprise://executions//stdout",
	} {
		if got, err := read(uri); err == nil {
			t.Errorf("%s: %+v", uri, got)
		}
	}
	c.call("execute_code", args{"command": "head -c 1001 /dev/zero"}, &run)
	if got, err := read("reprise://executions/" + run.ID + "/stdout"); err == nil {
		t.Errorf("more than is read: %d bytes", len(got.Blob))
	}
	c.call("execute_code_async", args{"command": "sleep 60"}, &run)
	if got, err := read("reprise://executions/" + run.ID + "/stdout"); err == nil {
		t.Errorf("what runs: %+v", got)
	}
}

func TestProgressNamesLastLine(t *testing.T) {
	w := newFixture(t, &mcpserver.Options{ProgressEvery: 50 * time.Millisecond})
	for _, era := range eras {
		g := newGate(t)
		var count atomic.Int64
		var last atomic.Value
		session := w.session(era, "",
			&mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context,
				r *mcp.ProgressNotificationClientRequest,
			) {
				last.Store(r.Params.Message)
				if count.Add(1) >= 3 && strings.Contains(r.Params.Message, ": line ") {
					g.open(t)
				}
			}})
		params := &mcp.CallToolParams{
			Name:      "execute_code",
			Arguments: args{"command": "for i in 1 2 3 4 5; do echo line $i; sleep 0.1; done; " + g.wait()},
		}
		params.SetProgressToken("p")
		if _, err := session.CallTool(t.Context(), params); err != nil {
			t.Fatal(err)
		}
		if message, _ := last.Load().(string); count.Load() < 3 || !strings.Contains(message, ": line ") {
			t.Errorf("%s: %d notifications, the last %q", era, count.Load(), message)
		}
	}
}

func TestToolsAreDescribed(t *testing.T) {
	w := newFixture(t, nil)
	c := w.caller("2026-07-28", "")
	names := map[string]bool{}
	for tool, err := range c.session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names[tool.Name] = true
		a := tool.Annotations
		if tool.Description == "" || tool.Title == "" || a == nil ||
			a.DestructiveHint == nil || a.OpenWorldHint == nil {
			t.Errorf("%+v", tool)
		}
		if reads := strings.HasPrefix(tool.Name, "get_") ||
			strings.HasPrefix(tool.Name, "list_") || strings.HasPrefix(tool.Name, "search_"); a.ReadOnlyHint != reads {
			t.Errorf("%s: read only is %v", tool.Name, a.ReadOnlyHint)
		}
	}
	if len(names) != 8 {
		t.Errorf("tools: %v", names)
	}
}
