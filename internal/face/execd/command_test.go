package execd_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"reprise"
)

// TestCommandIsSentByLines: empty lines and the last one without an end too, and the end tells the exit code.
func TestCommandIsSentByLines(t *testing.T) {
	w := start(t, nil)
	w.want("lines", w.run("/command", `{"command":"printf 'a\\n\\nb\\n\\n\\nc\\n'; printf '1%%\\r2%%'"}`),
		"init", `stdout "a"`, `stdout "\n"`, `stdout "b"`, `stdout "\n"`, `stdout "\n"`, `stdout "c"`, `stdout "1%"`,
		`stdout "2%"`, "execution_complete")
	w.want("channels", w.run("/command", `{"command":"echo $GREETING >&2","envs":{"GREETING":"hello"}}`),
		"init", `stderr "hello"`, "execution_complete")
	w.want("bash", w.run("/command", `{"command":"echo {1..3}"}`), "init", `stdout "1 2 3"`, "execution_complete")
	w.want("argv", w.run("/command", `{"argv":["echo","$HOME"]}`), "init", `stdout "$HOME"`, "execution_complete")
	w.want("not UTF-8", w.run("/command", `{"command":"printf 'a\\xffb\\n'"}`),
		"init", `stdout "a`+"\uFFFD"+`b"`, "execution_complete")
	w.OK(os.Mkdir(w.Dir+"/sub", 0o700))
	w.want("cwd", w.run("/command", `{"command":"pwd","cwd":"~/$NAME","envs":{"NAME":"sub"}}`),
		"init", "stdout "+quoted(w.Dir+"/sub"), "execution_complete")
}

// TestEndIsNeverSuccess unless the command has exited with 0.
func TestEndIsNeverSuccess(t *testing.T) {
	w := start(t, nil)
	for body, want := range map[string]string{
		`{"command":"exit 3"}`:                      "error CommandExecError 3",
		`{"command":"kill -9 $$"}`:                  "error CommandExecError -1",
		`{"command":"sleep 60","timeout":100}`:      "error CommandExecError -1",
		`{"argv":["/no/such/program"]}`:             "error CommandExecError ",
		`{"command":"true","cwd":"/no/such/place"}`: "error CommandExecError ",
	} {
		frames := w.run("/command", body)
		last := frames[len(frames)-1]
		if got := last.String(); !strings.HasPrefix(got, want) || len(last.Error.Traceback) != 1 {
			t.Errorf("%s: %s %+v", body, got, last.Error)
		}
		status, text, _ := w.do("GET", "/command/status/"+frames[0].Text, "")
		var s struct {
			Running  bool
			ExitCode *int `json:"exit_code"`
			Error    string
		}
		w.OK(json.Unmarshal([]byte(text), &s))
		code, started := strconv.Atoi(last.Error.Value)
		if status != http.StatusOK || s.Running || (started == nil) != (s.ExitCode != nil) ||
			s.ExitCode != nil && *s.ExitCode != code || code != 3 && s.Error == "" {
			t.Errorf("%s: status %d %s", body, status, text)
		}
	}
}

// TestBackgroundCommand: the answer is over at once, and the command goes on.
func TestBackgroundCommand(t *testing.T) {
	w := start(t, nil)
	w.OK(makeFIFO(w.Dir + "/go"))
	frames := w.run("/command", `{"command":"read line <go; echo out $line; exit 5","background":true}`)
	w.want("background", frames, "init", "execution_complete")
	id := frames[0].Text
	if text := must(w, "GET", "/command/status/"+id, ""); !strings.Contains(text, `"running":true`) {
		t.Errorf("status: %s", text)
	}
	w.OK(os.WriteFile(w.Dir+"/go", []byte("put\n"), 0o600))
	rest := w.parse(must(w, "GET", "/command/"+id+"/resume", ""))
	w.want("resumed", rest, `stdout "out put"`, "error CommandExecError 5")
	_, logs, h := w.do("GET", "/command/"+id+"/logs", "")
	if logs != "out put\n" || h.Get("EXECD-COMMANDS-TAIL-CURSOR") != "8" {
		t.Errorf("logs %q, %v", logs, h)
	}
}

func must(w *fixture, method, path, body string, header ...string) string {
	w.Helper()
	status, text, _ := w.do(method, path, body, header...)
	if status != http.StatusOK {
		w.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	return text
}

// TestCutAtEveryByte: a client that has read any part of a response gets the rest by the eid of its last whole event,
// and by bytes.
func TestCutAtEveryByte(t *testing.T) {
	w := start(t, nil)
	text := must(w, "POST", "/command", `{"command":"for i in 1 2 3; do echo out $i; echo; echo err $i >&2; done; exit 2"}`)
	whole := w.parse(text)
	id := whole[0].Text
	for cut := range len(text) {
		read := w.parse(text[:cut])
		after := int64(0)
		for _, f := range read {
			after = max(after, f.EID)
		}
		rest := w.parse(must(w, "GET", "/command/"+id+"/resume?after_eid="+strconv.FormatInt(after, 10), ""))
		if len(read) == 0 {
			read = whole[:1]
		}
		if got := append(slices.Clone(read), rest...); !slices.EqualFunc(got, whole, func(a, b frame) bool {
			return a.String() == b.String() && a.EID == b.EID && a.Timestamp == b.Timestamp
		}) {
			t.Fatalf("cut at %d: %v", cut, got)
		}
	}
	all := must(w, "GET", "/command/"+id+"/logs", "")
	for cut := range len(all) {
		if got := must(w, "GET", "/command/"+id+"/logs?cursor="+strconv.Itoa(cut), ""); got != all[cut:] {
			t.Fatalf("logs from %d: %q", cut, got)
		}
	}
}

// TestEventSource: with framing=sse the frames have ids, by which a reader of server-sent events goes on by itself.
func TestEventSource(t *testing.T) {
	w := start(t, nil)
	id := w.run("/command", `{"command":"echo a; echo b; echo c"}`)[0].Text
	text := must(w, "GET", "/command/"+id+"/resume?framing=sse", "")
	if !strings.Contains(text, "id: 1\ndata: {\"type\":\"stdout\",\"text\":\"a\"") || strings.Count(text, "id: ") != 4 {
		t.Errorf("%s", text)
	}
	text = must(w, "GET", "/command/"+id+"/resume", "", "Last-Event-ID: 2")
	if !strings.Contains(text, "id: 3\ndata: ") || strings.Count(text, "id: ") != 2 {
		t.Errorf("%s", text)
	}
}

// TestReadersOfARunningCommand: a disconnected client does not end the command, several readers follow it, and logs do
// not end within a character.
func TestReadersOfARunningCommand(t *testing.T) {
	w := start(t, nil)
	w.OK(makeFIFO(w.Dir + "/go"))
	res := w.send("POST", "/execd/command", `{"command":"printf 'x\\xe2\\x82'; read line <go; printf '\\xac\\n'"}`)
	begun, in := w.untilInit(res)
	w.OK(res.Body.Close())
	_ = in
	id := begun.Text
	// The first bytes are there once the command reads the pipe.
	second := w.send("GET", "/execd/command/"+id+"/resume", "")
	pipe, err := os.OpenFile(w.Dir+"/go", os.O_WRONLY, 0)
	w.OK(err)
	_, logs, h := w.do("GET", "/command/"+id+"/logs", "")
	for logs == "" { // until what was written has come
		_, logs, h = w.do("GET", "/command/"+id+"/logs", "")
	}
	if cursor := h.Get("EXECD-COMMANDS-TAIL-CURSOR"); logs != "x" || cursor != "1" {
		t.Errorf("logs %q up to %s", logs, cursor)
	}
	_, err = pipe.WriteString("\n")
	w.OK(err)
	w.OK(pipe.Close())
	text, err := io.ReadAll(second.Body)
	w.OK(err)
	w.OK(second.Body.Close())
	w.want("second reader", w.parse(string(text)), `stdout "x€"`, "execution_complete")
	rest := must(w, "GET", "/command/"+id+"/logs?cursor="+h.Get("EXECD-COMMANDS-TAIL-CURSOR"), "")
	if logs+rest != "x€\n" {
		t.Errorf("logs %q and %q", logs, rest)
	}
}

// TestInterrupt ends a command as execd does.
func TestInterrupt(t *testing.T) {
	w := start(t, nil)
	res := w.send("POST", "/execd/command", `{"command":"sleep 60"}`)
	begun, in := w.untilInit(res)
	must(w, "DELETE", "/command?id="+begun.Text, "")
	rest, err := io.ReadAll(in)
	w.OK(err)
	w.OK(res.Body.Close())
	frames := w.parse(strings.TrimLeft(string(rest), "\n"))
	w.want("interrupted", frames, "error CommandExecError -1")
	if status, text, _ := w.do("DELETE", "/command?id="+begun.Text, ""); status != http.StatusInternalServerError {
		t.Errorf("again: %d %s", status, text)
	}
}

// TestLostOutputIsTold: what is no longer kept is never passed over.
func TestLostOutputIsTold(t *testing.T) {
	w := start(t, &reprise.Options{Retention: reprise.Retention{MaxBytes: 4 << 20}})
	frames := w.run("/command", `{"command":"seq 1000000","background":true}`)
	id := frames[0].Text
	for { // the stream is shortened behind the end
		status, text, _ := w.do("GET", "/command/status/"+id, "")
		if status != http.StatusOK {
			t.Fatal(text)
		}
		if strings.Contains(text, `"running":false`) {
			break
		}
	}
	for _, path := range []string{"/resume", "/resume?after_eid=5", "/logs", "/logs?cursor=10"} {
		if status, text, _ := w.do("GET", "/command/"+id+path, ""); status != http.StatusGone ||
			!strings.Contains(text, "REPLAY_WINDOW_EXCEEDED") {
			t.Errorf("%s: %d %.100s", path, status, text)
		}
	}
	size := 0
	for n := 1; n <= 1000000; n++ {
		size += len(strconv.Itoa(n)) + 1
	}
	if got := must(w, "GET", "/command/"+id+"/logs?cursor="+strconv.Itoa(size-8), ""); got != "1000000\n" {
		t.Errorf("the end of the logs: %q", got)
	}
}

// TestShutdownCutsResponses: a client does not take the end of the server for that of its command.
func TestShutdownCutsResponses(t *testing.T) {
	w := start(t, nil)
	res := w.send("POST", "/execd/command", `{"command":"sleep 60"}`)
	begun, in := w.untilInit(res)
	w.API.Drain()
	rest, err := io.ReadAll(in)
	w.OK(res.Body.Close())
	if err == nil {
		t.Errorf("the response of %s is whole: %s", begun.Text, rest)
	}
}

// TestLineBreaksInText: a reader that splits lines as Python does gets whole frames.
func TestLineBreaksInText(t *testing.T) {
	w := start(t, nil)
	text := must(w, "POST", "/command", `{"command":"printf 'a\\xe2\\x80\\xa8b\\xc2\\x85c\\n'"}`)
	if strings.ContainsAny(text, "\u2028\u2029\u0085") {
		t.Errorf("%q", text)
	}
	w.want("separators", w.parse(text), "init", `stdout "a\u2028b\u0085c"`, "execution_complete")
	in := bufio.NewScanner(strings.NewReader(text))
	for in.Scan() {
		if line := in.Text(); line != "" && !json.Valid([]byte(line)) {
			t.Errorf("a line that is no JSON: %s", line)
		}
	}
}
