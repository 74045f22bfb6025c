package api_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExecutionFromStartToRemoval(t *testing.T) {
	w := start(t, setup{})
	a := w.do("POST", "/v1/executions",
		`{"id":"one","command":"echo out; echo err >&2; exit 3","session":"s","labels":{"k":"v"}}`).is(201)
	if a.header.Get("Location") != "/v1/executions/one" || a.header.Get("Execution-Id") != "one" {
		t.Errorf("Location %q, Execution-Id %q", a.header.Get("Location"), a.header.Get("Execution-Id"))
	}
	w.do("POST", "/v1/executions",
		`{"id":"one","command":"echo out; echo err >&2; exit 3","session":"s","labels":{"k":"v"}}`).is(200)
	w.do("POST", "/v1/executions", `{"id":"one","command":"another"}`).refused(409, "conflict")

	a = w.ended("one")
	if a.text("status") != "ended" || a.text("outcome") != "exited" || a.number("exit_code") != 3 ||
		a.text("labels", "k") != "v" {
		t.Errorf("shown as %s", a.body)
	}
	if got := w.do("GET", "/v1/executions/one/stdout", "").is(200).body; got != "out\n" {
		t.Errorf("stdout %q", got)
	}
	if got := w.do("GET", "/v1/executions/one/stderr", "").is(200).body; got != "err\n" {
		t.Errorf("stderr %q", got)
	}
	if head := w.do("HEAD", "/v1/executions/one", "").is(200); head.body != "" {
		t.Errorf("HEAD with a body: %q", head.body)
	}
	w.do("POST", "/v1/executions/one/cancel", "").is(204)
	w.do("DELETE", "/v1/executions/one", "").is(204)
	w.do("DELETE", "/v1/executions/one", "").is(204)
	w.do("GET", "/v1/executions/one", "").refused(404, "not_found")
	w.do("GET", "/v1/executions/one/stdout", "").refused(404, "not_found")
	w.do("POST", "/v1/executions/one/cancel", "").refused(404, "not_found")
	w.do("POST", "/v1/executions/one/stdin", "x").refused(404, "not_found")
	w.do("POST", "/v1/executions/one/signal", `{"signal":"INT"}`).refused(404, "not_found")
}

func TestStartIsIdempotentByKey(t *testing.T) {
	w := start(t, setup{})
	first := w.do("POST", "/v1/executions", `{"argv":["true"]}`, "Idempotency-Key: k1").is(201)
	second := w.do("POST", "/v1/executions", `{"argv":["true"]}`, "Idempotency-Key: k1").is(200)
	if first.text("id") != second.text("id") {
		t.Errorf("ids %q and %q", first.text("id"), second.text("id"))
	}
	w.do("POST", "/v1/executions", `{"argv":["false"]}`, "Idempotency-Key: k1").refused(409, "conflict")
	const named = `{"id":"named","argv":["true"]}` // the key is a part of this request
	w.do("POST", "/v1/executions", named, "Idempotency-Key: k1").is(201)
	w.do("POST", "/v1/executions", named, "Idempotency-Key: k1").is(200)
	w.do("POST", "/v1/executions", named, "Idempotency-Key: k2").refused(409, "conflict")
	w.do("POST", "/v1/executions", `{"argv":["true"]}`,
		"Idempotency-Key: "+strings.Repeat("k", 300)).refused(422, "invalid")
}

// TestStartWithKey: 200 while it runs and after success, 201 after a failure, 409 for another request.
func TestStartWithKey(t *testing.T) {
	w := start(t, setup{})
	done := filepath.Join(t.TempDir(), "done")
	body := fmt.Sprintf(`{"key":"nightly","command":"read x; [ -e %s ]","stdin_open":true}`, done)
	end := func(id string) *answer {
		w.do("POST", "/v1/executions/"+id+"/stdin?eof=true", "\n").is(200)
		return w.ended(id)
	}
	first := w.do("POST", "/v1/executions", body).is(201)
	if again := w.do("POST", "/v1/executions", body).is(200); again.text("id") != first.text("id") {
		t.Errorf("while it runs: %s", again.body)
	}
	w.do("POST", "/v1/executions", `{"key":"nightly","command":"true"}`).refused(409, "conflict")
	if failed := end(first.text("id")); failed.number("exit_code") != 1 || failed.text("key") != "nightly" {
		t.Errorf("ended as %s", failed.body)
	}
	second := w.do("POST", "/v1/executions", body).is(201)
	if second.text("id") == first.text("id") {
		t.Errorf("after a failure: %s", second.body)
	}
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	end(second.text("id"))
	if third := w.do("POST", "/v1/executions", body).is(200); third.text("id") != second.text("id") {
		t.Errorf("after success: %s", third.body)
	}
	live := w.do("POST", "/v1/executions", body, "Accept: text/event-stream").is(200)
	if live.header.Get("Execution-Id") != second.text("id") || !strings.Contains(live.body, "event: end\n") {
		t.Errorf("as a stream: %v %s", live.header, live.body)
	}
	w.do("POST", "/v1/executions", `{"key":"nightly","command":"true"}`).refused(409, "conflict")
	w.do("POST", "/v1/executions", `{"key":"k","id":"i","command":"true"}`).refused(422, "invalid")
	w.do("POST", "/v1/executions", `{"key":"k","command":"true"}`, "Idempotency-Key: k").refused(422, "invalid")
	w.do("DELETE", "/v1/executions/"+second.text("id"), "").is(204)
	w.do("POST", "/v1/executions", `{"key":"nightly","command":"true"}`).is(201)
}

func TestStartThatStreamsAtOnce(t *testing.T) {
	w := start(t, setup{})
	a := w.do("POST", "/v1/executions", `{"id":"live","command":"echo hello"}`, "Accept: text/event-stream").is(200)
	if a.header.Get("Execution-Id") != "live" || a.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("header %v", a.header)
	}
	for _, part := range []string{"event: started\n", `"text":"hello\n"`, "event: end\n", `"outcome":"exited"`} {
		if !strings.Contains(a.body, part) {
			t.Errorf("%q is not in %q", part, a.body)
		}
	}
	w.do("POST", "/v1/executions", `{"argv":["true"]}`, "Accept: image/png").refused(406, "invalid")
}

func TestStdinSignalAndCancel(t *testing.T) {
	w := start(t, setup{})
	w.do("POST", "/v1/executions", `{"id":"cat","argv":["cat"],"stdin_open":true}`).is(201)
	if a := w.do("POST", "/v1/executions/cat/stdin?offset=0", "hello ").is(200); a.number("offset") != 6 ||
		a.member("open") != true {
		t.Errorf("stdin: %s", a.body)
	}
	w.do("POST", "/v1/executions/cat/stdin?offset=0", "hello ").is(200) // again
	w.do("POST", "/v1/executions/cat/stdin?offset=9", "x").refused(409, "conflict")
	w.do("POST", "/v1/executions/cat/stdin?offset=6&eof=true", "world").is(200)
	if a := w.ended("cat"); a.number("exit_code") != 0 {
		t.Errorf("ended as %s", a.body)
	}
	if got := w.do("GET", "/v1/executions/cat/stdout", "").body; got != "hello world" {
		t.Errorf("stdout %q", got)
	}
	w.do("POST", "/v1/executions/cat/stdin", "late").refused(409, "stream_ended")

	w.do("POST", "/v1/executions", `{"id":"s","argv":["sleep","60"]}`).is(201)
	follow := w.follow("/v1/executions/s/events", "Accept: application/x-ndjson")
	follow.line() // started
	w.do("POST", "/v1/executions/s/signal", `{"signal":"NOSUCH"}`).is(422)
	w.do("POST", "/v1/executions/s/signal", `{}`).refused(422, "invalid")
	w.do("POST", "/v1/executions/s/signal", `{"signal":"INT"}`).is(204)
	follow.close()
	if a := w.ended("s"); a.text("outcome") != "signaled" || a.text("signal") != "INT" {
		t.Errorf("ended as %s", a.body)
	}
	w.do("POST", "/v1/executions/s/signal", `{"signal":"INT"}`).refused(409, "stream_ended")

	w.do("POST", "/v1/executions", `{"id":"c","argv":["sleep","60"]}`).is(201)
	w.do("POST", "/v1/executions/c/cancel", "").is(204)
	if a := w.ended("c"); a.text("outcome") != "cancelled" {
		t.Errorf("ended as %s", a.body)
	}
}

func TestTerminalIsResizedAndFedByTwo(t *testing.T) {
	w := start(t, setup{})
	w.do("POST", "/v1/executions/none/resize", `{"cols":1,"rows":1}`).refused(404, "not_found")
	w.do(
		"POST", "/v1/executions",
		`{"id":"t","command":"read a; stty size; read b; echo \"$a+$b\"; read c","tty":{"cols":81,"rows":25},"stdin_open":true}`,
	).is(201)
	w.do("POST", "/v1/executions/t/stdin?writer=a&offset=0", "one\n").is(200)
	follow := w.follow("/v1/executions/t/events", "Accept: application/x-ndjson")
	for !strings.Contains(follow.line(), "25 81") {
	}
	follow.close()
	w.do("POST", "/v1/executions/t/resize", `{"cols":0,"rows":1}`).refused(422, "invalid")
	w.do("POST", "/v1/executions/t/resize", `{"cols":90,"rows":30}`).is(204)
	if a := w.do("GET", "/v1/executions/t", ""); !strings.Contains(a.body, `"tty":{"cols":90,"rows":30}`) {
		t.Errorf("shown as %s", a.body)
	}
	a := w.do("GET", "/v1/executions/t/screen", "").is(200)
	if a.text("text") != "one\n25 81" || a.number("cols") != 90 || a.text("cursor") == "" {
		t.Errorf("the screen: %s", a.body)
	}
	if a := w.do("GET", "/v1/executions/t/screen?cols=2&rows=3", "").is(200); a.text("text") != " 8\n1" ||
		a.number("rows") != 3 {
		t.Errorf("the small screen: %s", a.body)
	}
	w.do("GET", "/v1/executions/t/screen?cols=0", "").refused(400, "invalid")
	w.do("GET", "/v1/executions/none/screen", "").refused(404, "not_found")
	w.do("POST", "/v1/executions", `{"id":"plain","argv":["true"]}`).is(201)
	w.do("GET", "/v1/executions/plain/screen", "").refused(409, "conflict")
	w.do("POST", "/v1/executions/t/stdin?writer=b", "x").refused(422, "invalid")
	for range 2 {
		if a := w.do("POST", "/v1/executions/t/stdin?writer=b&offset=0", "two\n").is(200); a.number("offset") != 4 {
			t.Errorf("stdin: %s", a.body)
		}
	}
	w.do("POST", "/v1/executions/t/stdin?writer=b&offset=4", "end\n").is(200)
	w.ended("t")
	if got := w.do("GET", "/v1/executions/t/stdout", "").body; !strings.Contains(got, "one+two\r\n") {
		t.Errorf("stdout %q", got)
	}
	w.do("POST", "/v1/executions/t/resize", `{"cols":90,"rows":30}`).refused(409, "stream_ended")
}

// TestReceipts: the follower that has started an execution with hold says what it has received; nobody else can, and
// nobody has to.
func TestReceipts(t *testing.T) {
	w := start(t, setup{})
	body := `{"id":"h","command":"printf out; sleep 600","retention":{"max_bytes":8000,"max_events":40}}`
	starter := w.open("POST", "/v1/executions?hold=1m", body, "Accept: text/event-stream", "Execution-Receipts: yes")
	defer starter.Body.Close()
	hold := starter.Header.Get("Execution-Hold")
	if got := starter.Header.Get("Execution-Receipts"); got != "events=20, bytes=1000" || hold == "" {
		t.Errorf("receipts are wanted for %q, by %q", got, hold)
	}
	receipts := "/v1/executions/h/receipts"
	w.do("POST", receipts+"?seq=1", "", "Execution-Hold: "+hold).is(204)
	w.do("POST", receipts+"?seq=1", "", "Execution-Hold: "+hold).is(204)
	w.do("POST", receipts+"?seq=1", "").refused(404, "not_found")
	w.do("POST", receipts+"?seq=1", "", "Execution-Hold: other").refused(404, "not_found")
	w.do("POST", "/v1/executions/none/receipts?seq=1", "", "Execution-Hold: "+hold).refused(404, "not_found")
	for _, query := range []string{"", "?seq=-1", "?seq=x", "?seq=1&seq=2"} {
		w.do("POST", receipts+query, "", "Execution-Hold: "+hold).refused(400, "invalid")
	}
	again := w.open("GET", "/v1/executions/h/events", "", "Accept: text/event-stream", "Execution-Hold: "+hold)
	defer again.Body.Close()
	if got := again.Header.Get("Execution-Receipts"); got != "" {
		t.Errorf("receipts are wanted for %q of who sends none", got)
	}
	w.do("POST", "/v1/executions/h/cancel", "").is(204)
	w.ended("h")
}

func TestListsAndSessions(t *testing.T) {
	w := start(t, setup{})
	for _, id := range []string{"a", "b", "c"} {
		w.do("POST", "/v1/executions", `{"id":"`+id+`","argv":["true"],"session":"s1","labels":{"n":"`+id+`"}}`).is(201)
		w.ended(id)
	}
	page := w.do("GET", "/v1/executions?limit=2", "").is(200)
	if ids := names(page, "executions", "id"); ids != "c b" {
		t.Errorf("first page %s", ids)
	}
	page = w.do("GET", "/v1/executions?limit=2&cursor="+page.text("next_cursor"), "").is(200)
	if ids := names(page, "executions", "id"); ids != "a" || page.text("next_cursor") != "" {
		t.Errorf("second page %s %s", ids, page.body)
	}
	for query, want := range map[string]string{
		"session=s1&status=ended": "c b a", "status=running": "", "label=n=b": "b", "session=none": "",
	} {
		if ids := names(w.do("GET", "/v1/executions?"+query, "").is(200), "executions", "id"); ids != want {
			t.Errorf("%s: %q, want %q", query, ids, want)
		}
	}
	for _, query := range []string{
		"limit=0", "limit=1001", "limit=x", "status=done", "label=n", "cursor=junk", "no=1", "label=n=b&label=n=c",
		"status=ended&status=ended", "%zz", "a;b",
	} {
		w.do("GET", "/v1/executions?"+query, "").refused(400, "invalid")
	}
	if ids := names(w.do("GET", "/v1/sessions", "").is(200), "sessions", "id"); ids != "s1" {
		t.Errorf("sessions %q", ids)
	}
	if a := w.do("GET", "/v1/sessions/s1", "").is(200); a.number("count") != 3 ||
		names(a, "executions", "id") != "c b a" {
		t.Errorf("session %s", a.body)
	}
	w.do("DELETE", "/v1/sessions/s1", "").is(204)
	w.do("GET", "/v1/sessions/s1", "").refused(404, "not_found")
	w.do("GET", "/v1/executions/a", "").refused(404, "not_found")
}

// names joins one member of each item of a list.
func names(a *answer, list, member string) string {
	items, _ := a.member(list).([]any)
	var all []string
	for _, item := range items {
		text, _ := item.(map[string]any)[member].(string)
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// TestTraceReachesTheCommand: a valid traceparent is in the environment of the command and in the log, and is no part
// of the request.
func TestTraceReachesTheCommand(t *testing.T) {
	const id, parent = "0af7651916cd43dd8448eb211c80319c", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	w := start(t, setup{})
	show := `"command":"echo $TRACEPARENT $TRACESTATE"`
	for name, tt := range map[string]struct {
		env     string
		headers []string
		want    string
	}{
		"none":    {},
		"parent":  {headers: []string{"Traceparent: " + parent}, want: parent},
		"state":   {headers: []string{"Traceparent: " + parent, "Tracestate: a=1"}, want: parent + " a=1"},
		"invalid": {headers: []string{"Traceparent: 00-x", "Tracestate: a=1"}},
		"own": {
			env:     `,"env":{"TRACEPARENT":"mine"}`,
			headers: []string{"Traceparent: " + parent, "Tracestate: a=1"}, want: "mine",
		},
	} {
		body := `{"id":"` + name + `",` + show + tt.env + `}`
		w.do("POST", "/v1/executions", body, tt.headers...).is(201)
		w.do("POST", "/v1/executions", body).is(200) // the same request
		w.ended(name)
		got := strings.TrimSpace(w.do("GET", "/v1/executions/"+name+"/stdout", "").is(200).body)
		if got != tt.want {
			t.Errorf("%s: the command has %q, want %q", name, got, tt.want)
		}
	}
	w.eventually("the line of a start has its trace", func() bool {
		return strings.Contains(w.logged.String(), "execution=parent trace="+id+" ")
	})
}

// TestRememberedExecution: an execution whose output has expired is shown and listed with its outcome, its start is
// answered with that, and its output is gone.
func TestRememberedExecution(t *testing.T) {
	w := start(t, setup{})
	const body = `{"id":"one","command":"echo x; exit 3","session":"s","retention":{"max_age":"1ns"}}`
	w.do("POST", "/v1/executions", body).is(201)
	w.eventually("its output expires", func() bool {
		_, err := w.log.Sweep(w.Context())
		w.ok(err)
		return w.do("GET", "/v1/executions/one", "").is(200).member("expired") == true
	})
	for _, a := range []*answer{
		w.do("GET", "/v1/executions/one", ""), w.do("POST", "/v1/executions", body),
	} {
		a.is(200)
		if a.text("id") != "one" || a.text("status") != "ended" || a.number("exit_code") != 3 ||
			a.text("session") != "s" || a.member("expired") != true || a.text("expired_at") == "" {
			t.Errorf("answered %s", a.body)
		}
		links := a.member("links").(map[string]any)
		if len(links) != 1 || links["self"] != "/v1/executions/one" || strings.Contains(a.body, "window") {
			t.Errorf("links %v in %s", links, a.body)
		}
	}
	a := w.do("POST", "/v1/executions", body, asSSE).refused(410, "stream_expired")
	if a.header.Get("Execution-Id") != "one" {
		t.Errorf("the header names %q", a.header.Get("Execution-Id"))
	}
	w.do("POST", "/v1/executions", `{"id":"one","command":"exit 4"}`).refused(409, "conflict")
	for _, path := range []string{"/events", "/stdout", "/screen", "/artifacts/x"} {
		w.do("GET", "/v1/executions/one"+path, "").refused(410, "stream_expired")
	}
	if a := w.do("GET", "/v1/executions?session=s", "").is(200); strings.Count(a.body, `"expired":true`) != 1 {
		t.Errorf("listed %s", a.body)
	}
	for _, query := range []string{"session=other", "status=running", "label=a=b"} {
		if a := w.do("GET", "/v1/executions?"+query, "").is(200); strings.Contains(a.body, `"one"`) {
			t.Errorf("%s: listed %s", query, a.body)
		}
	}
	w.do("GET", "/v1/executions?cursor=ran.x", "").refused(400, "invalid")
	w.do("DELETE", "/v1/executions/one", "").is(204)
	w.do("DELETE", "/v1/executions/one", "").is(204)
	if a := w.do("GET", "/v1/executions", "").is(200); strings.Contains(a.body, `"one"`) {
		t.Errorf("listed after it was removed: %s", a.body)
	}
	w.do("POST", "/v1/executions", `{"id":"one","command":"exit 4"}`).is(201)
}
