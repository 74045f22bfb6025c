package e2b_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"reprise"

	"reprise/internal/face/facetest"
)

func of(pid uint32, more string) string { return fmt.Sprintf(`{"process":{"pid":%d}%s}`, pid, more) }

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// TestCommands: output, the exit code, and everything but an exit, which no SDK takes for success.
func TestCommands(t *testing.T) {
	w := start(t, nil)
	o := w.run("process.Process/Start", shell(`printf out; printf err >&2; echo " $X"; exit 7`, `,"stdin":false`))
	if o.stdout.String() != "out \n" || o.stderr.String() != "err" || o.code != 7 || o.status != "exit status 7" {
		t.Errorf("%+v", o)
	}
	body := strings.Replace(shell(`echo $X; pwd`, ""), `"cmd"`, `"envs":{"X":"y"},"cwd":"sub","cmd"`, 1)
	w.call(200, "filesystem.Filesystem/MakeDir", `{"path":"sub"}`)
	if o := w.run("process.Process/Start", body); o.stdout.String() != "y\n"+w.Dir+"/sub\n" || o.code != 0 || !o.ended {
		t.Errorf("%q %d", &o.stdout, o.code)
	}
	for _, failing := range []string{`{"process":{"cmd":"/no/such/program"}}`, shell("kill -9 $$", "")} {
		if o := w.run("process.Process/Start", failing); o.code != -1 || !o.ended || o.status == "" {
			t.Errorf("%s: %+v", failing, o)
		}
	}
	for body, code := range map[string]string{
		`{`: "invalid_argument", `{}`: "invalid_argument", `{"process":{"cmd":1}}`: "invalid_argument",
		shell("true", `,"tag":"x"`):                          "unimplemented",
		`{"process":{"cmd":"a","envs":{"A=B":"c"}}}`:         "invalid_argument",
		`{"process":{"cmd":"a","args":["\u0000"]}}`:          "invalid_argument",
		shell("true", `,"pty":{"size":{"cols":-1,"rows":1}`): "invalid_argument",
	} {
		if o := w.run("process.Process/Start", body); o.refused != code || o.pid != 0 {
			t.Errorf("%s: %q, want %q", body, o.refused, code)
		}
	}
}

// TestInput of all kinds reaches a process, and its end too.
func TestInput(t *testing.T) {
	w := start(t, nil)
	pid, from := w.begin(shell("cat", `,"stdin":true`))
	w.call(200, "process.Process/SendInput", of(pid, `,"input":{"stdin":"`+encoded("one\n")+`"}`))
	stream := enveloped(`{"start":`+of(pid, "")+`}`) + enveloped(`{"keepalive":{}}`) +
		enveloped(`{"data":{"input":{"stdin":"`+encoded("two\n")+`"}}}`) + "\x02\x00\x00\x00\x02{}"
	if o := w.run2("process.Process/StreamInput", stream); o.refused != "" {
		t.Errorf("a stream of input: %q", o.refused)
	}
	w.call(200, "process.Process/CloseStdin", of(pid, ""))
	o := rest(t, from)
	if o.stdout.String() != "one\ntwo\n" || o.code != 0 {
		t.Errorf("%q %d", &o.stdout, o.code)
	}
	for _, call := range []string{"SendInput", "CloseStdin", "Update", "SendSignal"} {
		w.call(404, "process.Process/"+call, of(pid, `,"signal":"SIGNAL_SIGKILL","pty":{"size":{"cols":1,"rows":1}}`))
		w.call(404, "process.Process/"+call, of(7, `,"signal":9,"pty":{"size":{"cols":1,"rows":1}}`))
		w.call(400, "process.Process/"+call, `{}`)
		w.call(501, "process.Process/"+call, `{"process":{"tag":"x"}}`)
	}
	for _, bad := range []string{
		enveloped(`{"data":{}}`), enveloped(`{`), "\x01\x00\x00\x00\x02{}", "\x00\xff\xff\xff\xff", "\x00\x00",
		enveloped(`{"start":{"process":{"pid":7}}}`) + enveloped(`{"data":{"input":{"stdin":"eA=="}}}`),
	} {
		if o := w.run2("process.Process/StreamInput", bad); o.refused == "" {
			t.Errorf("%q is taken", bad)
		}
	}
}

// run2 is run for a request with several messages.
func (w *fixture) run2(method, body string) *output {
	w.Helper()
	resp := w.send("POST", "/"+method, body, "Content-Type", streamType)
	return rest(w, resp.Body)
}

// rest reads a stream to its end.
func rest(tb testing.TB, from io.ReadCloser) *output {
	tb.Helper()
	defer from.Close()
	o := &output{}
	for {
		e, err := readEvent(from)
		if err != nil {
			tb.Fatalf("the stream breaks off: %v", err)
		}
		if !o.add(&e) {
			return o
		}
	}
}

// TestTerminal has its own channel, and can be resized.
func TestTerminal(t *testing.T) {
	w := start(t, nil)
	pid, from := w.begin(shell("read x; stty size", `,"pty":{"size":{"cols":80,"rows":24}}`))
	w.await(pid)
	w.call(200, "process.Process/Update", of(pid, `,"pty":{"size":{"cols":100,"rows":30}}`))
	w.call(200, "process.Process/SendInput", of(pid, `,"input":{"pty":"`+encoded("x\n")+`"}`))
	o := rest(t, from)
	if !strings.Contains(o.pty.String(), "30 100") || o.stdout.Len() > 0 || o.code != 0 {
		t.Errorf("%q %q", &o.pty, &o.stdout)
	}
}

// await waits until a process runs.
func (w *fixture) await(pid uint32) {
	w.Helper()
	for {
		e, err := w.Host.Show(w.Context(), reprise.DefaultTenant, fmt.Sprint("e2b-", pid))
		w.OK(err)
		if !e.Started.IsZero() {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// TestSignals end a process, also one that has only just been asked for, and the list has those that run.
func TestSignals(t *testing.T) {
	w := start(t, nil)
	for _, signal := range []string{`"SIGNAL_SIGTERM"`, `"SIGNAL_SIGKILL"`, "9", "15"} {
		pid, from := w.begin(shell("sleep 600", ""))
		list := w.call(200, "process.Process/List", "{}")
		if !strings.Contains(list, `"args":["-c","sleep 600"]`) ||
			!strings.Contains(list, fmt.Sprintf(`"pid":%d`, pid)) {
			t.Errorf("the list is %s", list)
		}
		w.sandbox = "team-2"
		if list := w.call(200, "process.Process/List", "{}"); strings.Contains(list, "sleep") {
			t.Errorf("another sandbox lists %s", list)
		}
		w.sandbox = "team-1"
		w.call(200, "process.Process/SendSignal", of(pid, `,"signal":`+signal))
		if o := rest(t, from); o.code != -1 || !o.ended {
			t.Errorf("%s: %+v", signal, o)
		}
		w.call(400, "process.Process/SendSignal", of(pid, `,"signal":"SIGNAL_SIGINT"`))
	}
	if list := w.call(200, "process.Process/List", "{}"); list != `{"processes":[]}`+"\n" {
		t.Errorf("the list is %s", list)
	}
}

// TestCutAtEveryByte: a client that is cut anywhere says how much of each channel it has, and gets the rest once.
func TestCutAtEveryByte(t *testing.T) {
	w := start(t, nil)
	pid, from := w.begin(shell(`for i in 1 2 3; do echo line $i; echo "ä $i" >&2; sleep 0.01; done; exit 3`, ""))
	all, err := io.ReadAll(from)
	w.OK(err)
	from.Close()
	want := &output{}
	for r := bytes.NewReader(all); ; {
		e, err := readEvent(r)
		w.OK(err)
		if !want.add(&e) {
			break
		}
	}
	if want.stdout.String() != "line 1\nline 2\nline 3\n" || want.stderr.String() != "ä 1\nä 2\nä 3\n" {
		t.Fatalf("%q %q", &want.stdout, &want.stderr)
	}
	for n := range len(all) + 5 {
		got := &output{}
		for r := bytes.NewReader(all[:max(0, n-5)]); ; { // the start event is not in it
			e, err := readEvent(r)
			if err != nil || !got.add(&e) {
				break
			}
		}
		seen := fmt.Sprintf("%d,%d", got.stdout.Len(), got.stderr.Len())
		method, header := "after/"+seen+"/process.Process/Connect", []string(nil)
		if n%2 == 0 {
			method, header = "process.Process/Connect", []string{"X-Reprise-After", seen}
		}
		more := w.run(method, of(pid, ""), header...)
		if text := got.stdout.String() + more.stdout.String(); text != want.stdout.String() {
			t.Fatalf("cut at byte %d, stdout %q", n, text)
		}
		if text := got.stderr.String() + more.stderr.String(); text != want.stderr.String() || more.code != 3 {
			t.Fatalf("cut at byte %d, stderr %q, code %d", n, text, more.code)
		}
	}
}

// TestConnect: without a word of what it has seen a client gets what comes, and the end of what has ended.
func TestConnect(t *testing.T) {
	w := start(t, nil)
	pid, from := w.begin(shell("echo before; read x; echo after; exit 5", `,"stdin":true`))
	e, err := readEvent(from)
	w.OK(err)
	if e.Event.Data == nil {
		t.Fatalf("the second event is %+v", e)
	}
	from.Close()
	live := w.open("process.Process/Connect", of(pid, ""))
	if e, err := readEvent(live); err != nil || e.Event.Start == nil || e.Event.Start.PID != pid {
		t.Fatalf("the first event is %+v, %v", e, err)
	}
	w.call(200, "process.Process/SendInput", of(pid, `,"input":{"stdin":"`+encoded("x\n")+`"}`))
	if o := rest(t, live); o.stdout.String() != "after\n" || o.code != 5 {
		t.Errorf("live: %q %d", &o.stdout, o.code)
	}
	if o := w.run("process.Process/Connect", of(pid, "")); o.stdout.Len() > 0 || o.code != 5 || !o.ended {
		t.Errorf("late: %q %d", &o.stdout, o.code)
	}
	o := w.run("after/start/process.Process/Connect", of(pid, ""))
	if o.stdout.String() != "before\nafter\n" || o.code != 5 {
		t.Errorf("from the start: %q %d", &o.stdout, o.code)
	}
	for _, bad := range []string{"x", "-1", "1,x", "1,-2", "99999999999999999999"} {
		if o := w.run("after/"+bad+"/process.Process/Connect", of(pid, "")); o.refused != "invalid_argument" {
			t.Errorf("after %s: %q", bad, o.refused)
		}
	}
	if o := w.run("process.Process/Connect", of(7, "")); o.refused != "not_found" {
		t.Errorf("an unknown process: %q", o.refused)
	}
}

// TestLostOutputIsTold: a client that wants what is no longer kept is refused, and one that is too slow is cut.
func TestLostOutputIsTold(t *testing.T) {
	w := start(t, &reprise.Options{Retention: reprise.Retention{MaxEvents: 5}})
	o := w.run("process.Process/Start", shell("for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.02; done", ""))
	if !o.ended {
		t.Fatalf("%+v", o)
	}
	late := w.run("after/start/process.Process/Connect", of(o.pid, ""))
	if late.refused != "out_of_range" || late.ended {
		t.Errorf("%+v", late)
	}
}

// TestShutdownCutsResponses: no client takes what is cut for whole.
func TestShutdownCutsResponses(t *testing.T) {
	w := start(t, nil)
	pid, from := w.begin(shell("echo begun; sleep 600", ""))
	defer from.Close()
	w.API.Drain()
	for {
		e, err := readEvent(from)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil || e.last {
			t.Fatalf("the stream of %d ends in order", pid)
		}
	}
	w.OK(w.Host.Cancel(t.Context(), reprise.DefaultTenant, fmt.Sprint("e2b-", pid)))
}

// TestAccess: each call asks for a scope, a bounded key has its sandboxes, and nothing is another tenant's.
func TestAccess(t *testing.T) {
	w := start(t, nil)
	w.sandbox = "other-1"
	pid, from := w.begin(shell("sleep 600", `,"stdin":true`))
	defer from.Close()
	for token, want := range map[string][4]int{ // SendInput, Stat, SendSignal, List
		facetest.Reader: {403, 404, 403, 200}, facetest.Bounded: {404, 404, 404, 200},
		facetest.Stranger: {404, 404, 404, 200}, "none": {401, 401, 401, 401},
	} {
		w.token = token
		w.call(want[0], "process.Process/SendInput", of(pid, `,"input":{"stdin":"eA=="}`))
		if token != facetest.Reader {
			w.call(want[1], "filesystem.Filesystem/Stat", `{"path":"`+w.Dir+`"}`)
		}
		w.call(want[2], "process.Process/SendSignal", of(pid, `,"signal":9`))
		list := w.call(want[3], "process.Process/List", "{}")
		if strings.Contains(list, "sleep") != (token == facetest.Reader) {
			t.Errorf("%s lists %s", token, list)
		}
		if o := w.run("process.Process/Connect", of(pid+1, "")); o.refused == "" {
			t.Errorf("%s reads another process", token)
		}
		if token != facetest.Reader {
			if o := w.run("process.Process/Connect", of(pid, "")); o.refused == "" {
				t.Errorf("%s reads the process", token)
			}
		}
		if token == facetest.Stranger {
			continue
		}
		if o := w.run("process.Process/Start", shell("true", "")); o.refused == "" {
			t.Errorf("%s starts in the sandbox", token)
		}
	}
	w.token, w.sandbox = facetest.Bounded, "team-1"
	if o := w.run("process.Process/Start", shell("exit 4", "")); o.code != 4 {
		t.Errorf("in its own sandbox: %+v", o)
	}
	w.token = facetest.Runner
	basic := []string{"Authorization", "Basic " + encoded("user:")}
	if o := w.run("process.Process/Start", shell("exit 4", ""), basic...); o.code != 4 {
		t.Errorf("as the default user: %+v", o)
	}
	basic[1] = "Basic " + encoded("root:")
	if o := w.run("process.Process/Start", shell("true", ""), basic...); o.refused != "permission_denied" {
		t.Errorf("as root: %+v", o)
	}
	if o := w.run("process.Process/Start", shell("exit 4", ""), "E2b-Named-User", "root"); o.code != 4 {
		t.Errorf("a header of ours counts: %+v", o)
	}
	w.token = facetest.Owner
	w.call(200, "process.Process/SendSignal", of(pid, `,"signal":9`))
}

// TestSandboxes are sessions: any name is one, and ending one ends its commands.
func TestSandboxes(t *testing.T) {
	w := start(t, nil)
	status, text := w.do("POST", "/v2/sandboxes", `{"templateID":"base","timeout":300}`, "X-API-KEY", facetest.Owner)
	if status != 201 || !strings.Contains(text, `"envdAccessToken":"`+facetest.Owner+`"`) {
		t.Errorf("%d %s", status, text)
	}
	pid, from := w.begin(shell("sleep 600", ""))
	for _, call := range []struct {
		method, path string
		status       int
		has          string
	}{
		{"POST", "/v2/sandboxes/team-1/connect", 200, `"sandboxID":"team-1"`},
		{"GET", "/sandboxes/team-1", 200, `"state":"running"`},
		{"POST", "/sandboxes/team-1/timeout", 204, ""},
		{"GET", "/v2/sandboxes", 200, `"sandboxID":"team-1"`},
		{"GET", "/health", 204, ""},
		{"GET", "/sandboxes/a%20b", 404, `"code":404`},
		{"DELETE", "/sandboxes/team-1", 204, ""},
		{"DELETE", "/sandboxes/team-1", 204, ""},
		{"GET", "/nothing", 404, `"message":`},
	} {
		status, text := w.do(call.method, call.path, "")
		if status != call.status || !strings.Contains(text, call.has) {
			t.Errorf("%s %s: %d %s", call.method, call.path, status, text)
		}
	}
	from.Close()
	if o := w.run("process.Process/Connect", of(pid, "")); o.refused != "not_found" {
		t.Errorf("the process of a sandbox that was ended: %+v", o)
	}
	_, err := w.Host.Show(t.Context(), reprise.DefaultTenant, fmt.Sprint("e2b-", pid))
	if !errors.Is(err, reprise.ErrNotFound) && !errors.Is(err, reprise.ErrExpired) {
		t.Errorf("it is still there: %v", err)
	}
	w.token, w.sandbox = "", ""
	for _, header := range []string{"X-Access-Token", "E2b-Traffic-Access-Token", "X-API-KEY"} {
		if status, text := w.do("GET", "/contexts", "", header, facetest.Owner); status != 200 {
			t.Errorf("%s: %d %s", header, status, text)
		}
	}
}
