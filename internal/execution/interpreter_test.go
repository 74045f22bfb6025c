package execution_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/internal/execution/language"
	"reprise/internal/quota"
)

// anybody opens the interpreters.
var anybody = &quota.Holder{Account: quota.Account{Tenant: tenant}}

// longer is how long these tests wait: starting an interpreter takes a while on a loaded machine.
const longer = 90 * time.Second

func longWithin(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longer)
	t.Cleanup(cancel)
	return ctx
}

// openInterpreter opens one, or skips the test on a machine without the language, but for CI.
func openInterpreter(t *testing.T, h *execution.Host, q interpreter.Request) interpreter.Interpreter {
	t.Helper()
	if _, err := language.Lookup(q.Language).Argv(exec.LookPath, ""); err != nil && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	i, _, err := interpreter.Open(longWithin(t), h, anybody, q)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// ran is what has become of code.
type ran struct {
	execution.Execution
	stdout, stderr  string
	result, display map[string]string // by MIME type
	exception       string            // "name: value"
	traceback       string
}

// give starts code in an interpreter.
func give(t *testing.T, h *execution.Host, id, code string) execution.Execution {
	t.Helper()
	return start(t, h, execution.Request{Interpreter: id, Code: code})
}

// runCode runs code in an interpreter to its end.
func runCode(t *testing.T, h *execution.Host, id, code string) ran {
	t.Helper()
	return ended(t, h, give(t, h, id, code).ID)
}

// ended waits for the end of code and collects its events.
func ended(t *testing.T, h *execution.Host, id string) ran {
	t.Helper()
	var r ran
	s, err := h.Stream(t.Context(), tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := s.Reader(t.Context(), reprise.Earliest())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for ctx := longWithin(t); ; {
		batch, err := reader.Next(ctx)
		if _, lost := errors.AsType[*reprise.WindowError](err); lost {
			err = reader.Seek(reprise.Earliest())
			if err == nil {
				continue
			}
		}
		if errors.Is(err, reprise.ErrEnded) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		for e := range batch.All() {
			r.add(t, e)
		}
	}
	if r.Execution, err = h.Show(longWithin(t), tenant, id); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *ran) add(t *testing.T, e reprise.Event) {
	t.Helper()
	var data struct {
		MIME        map[string]string
		Name, Value string
		Traceback   []string
	}
	switch e.Type {
	case "result", "display", "exception":
		if err := json.Unmarshal(e.Data, &data); err != nil {
			t.Fatalf("%s: %v", e.Data, err)
		}
	}
	switch e.Type {
	case execution.Stdout:
		r.stdout += string(e.Data)
	case execution.Stderr:
		r.stderr += string(e.Data)
	case "result":
		r.result = data.MIME
	case "display":
		r.display = data.MIME
	case "exception":
		r.exception, r.traceback = data.Name+": "+data.Value, strings.Join(data.Traceback, "\n")
	}
}

// inInterpreters runs a test with every language under supervisors, and with bash without one too.
func inInterpreters(t *testing.T, test func(t *testing.T, h *execution.Host, language string)) {
	t.Run("bash/here", func(t *testing.T) { test(t, newHost(t, execution.Options{}), "bash") })
	for _, language := range []string{"bash", "javascript", "python"} {
		t.Run(language, func(t *testing.T) { test(t, newHost(t, execution.Options{RunsDir: t.TempDir()}), language) })
	}
}

// TestInterpretersRemember: variables, definitions and the directory live on from run to run; results come by MIME
// type.
func TestInterpretersRemember(t *testing.T) {
	inInterpreters(t, func(t *testing.T, h *execution.Host, language string) {
		i := openInterpreter(t, h,
			interpreter.Request{Language: language, Session: "s", Labels: map[string]string{"a": "b"}})
		steps := map[string][]string{
			"bash": {
				"declare x=41 && f() { echo \"f $((x + 1))\"; } && mkdir d && cd d",
				"f; echo é; basename \"$PWD\"; echo oops >&2", "false",
			},
			"python": {
				"import os\nx = 41\ndef f(): print('f', x + 1)\nos.mkdir('d'); os.chdir('d')",
				"import sys\nf(); print('é'); print(os.path.basename(os.getcwd())); print('oops', file=sys.stderr); x",
				"1/0",
			},
			"javascript": {
				"const fs = require('fs'); let x = 41; function f() { console.log('f', x + 1) }; fs.mkdirSync('d'); process.chdir('d')",
				"f(); console.log('é'); console.log(require('path').basename(process.cwd())); console.error('oops'); x",
				"null.a",
			},
		}[language]
		if first := runCode(t, h, i.ID, steps[0]); *first.ExitCode != 0 || first.Session != "s" ||
			first.Interpreter != i.ID {
			t.Fatalf("%+v", first)
		}
		second := runCode(t, h, i.ID, steps[1])
		if second.stdout != "f 42\né\nd\n" || second.stderr != "oops\n" || *second.ExitCode != 0 {
			t.Errorf("%+v", second)
		}
		if want := map[bool]string{true: "", false: "41"}[language == "bash"]; second.result["text/plain"] != want {
			t.Errorf("result %v", second.result)
		}
		third := runCode(t, h, i.ID, steps[2])
		wantOutcome(t, third.Execution, execution.Exited, 1, "")
		if language != "bash" &&
			(!strings.Contains(third.exception, "Error: ") || !strings.Contains(third.traceback, "3")) {
			t.Errorf("%q, %q", third.exception, third.traceback)
		}
		shown, err := interpreter.Show(longWithin(t), h, tenant, i.ID)
		if err != nil || shown.Runs == nil || *shown.Runs != 3 || shown.Running != "" ||
			shown.Status != execution.StatusRunning ||
			shown.Labels["a"] != "b" || shown.Language != language {
			t.Errorf("%+v, %v", shown, err)
		}
		clear := ended(t, h, start(t, h, execution.Request{Interpreter: i.ID, Clear: true}).ID)
		wantOutcome(t, clear.Execution, execution.Exited, 0, "")
		forgotten := runCode(t, h, i.ID, map[string]string{
			"bash": "[[ -z ${x-} && ${PWD##*/} != d ]]", "python": "assert 'x' not in globals() and os.getcwd()",
			"javascript": "if (typeof x !== 'undefined' || process.cwd().endsWith('/d')) throw 'kept'",
		}[language])
		if language == "python" && forgotten.exception != "NameError: name 'os' is not defined" ||
			language != "python" && *forgotten.ExitCode != 0 {
			t.Errorf("%+v", forgotten)
		}
	})
}

// TestInterpretersAndBadCode: what bad code does to its interpreter, and what it cannot do.
func TestInterpretersAndBadCode(t *testing.T) {
	t.Parallel() // it waits most of the time
	h := newHost(t, execution.Options{RunsDir: t.TempDir()})
	survivors := map[string]interpreter.Interpreter{}
	for _, test := range []struct {
		name, language, code string
		outcome              execution.Outcome
		exit                 int    // the exit code
		signal               string // or the signal
		has                  string // in what it says
		ends                 bool   // the interpreter
	}{
		{name: "syntax", language: "python", code: "def f(:", outcome: execution.Exited, exit: 1, has: "SyntaxError"},
		{
			name: "syntax", language: "javascript", code: "let = ;", outcome: execution.Exited, exit: 1,
			has: "SyntaxError",
		},
		{name: "syntax", language: "bash", code: "echo $((", outcome: execution.Exited, exit: 2, has: "unexpected"},
		{
			name: "exit", language: "python", code: "import sys; sys.exit(3)", outcome: execution.Exited, exit: 3,
			ends: true,
		},
		{name: "exit", language: "javascript", code: "process.exit(3)", outcome: execution.Exited, exit: 3, ends: true},
		{name: "exit", language: "bash", code: "exit 3", outcome: execution.Exited, exit: 3, ends: true},
		{
			name: "kills itself", language: "python", code: "import os; os.kill(os.getpid(), 9)",
			outcome: execution.Signaled, signal: "KILL", ends: true,
		},
		{
			name: "kills itself", language: "javascript", code: "process.kill(process.pid, 'SIGKILL')",
			outcome: execution.Signaled, signal: "KILL", ends: true,
		},
		{
			name: "kills itself", language: "bash", code: "kill -9 $$", outcome: execution.Signaled, signal: "KILL",
			ends: true,
		},
		{name: "closes stdout", language: "python", code: "import os; os.close(1)", outcome: execution.Exited},
		{name: "closes stdout", language: "python", code: "import sys; sys.stdout.close()", outcome: execution.Exited},
		{name: "closes stdout", language: "javascript", code: "require('fs').closeSync(1)", outcome: execution.Exited},
		{name: "closes stdout", language: "bash", code: "exec 1>&- 2>&-", outcome: execution.Exited},
		{name: "reads", language: "python", code: "input()", outcome: execution.Exited, exit: 1, has: "EOFError"},
		{
			name: "reads", language: "javascript", code: "require('fs').readFileSync(0).length",
			outcome: execution.Exited, has: "0",
		},
		{name: "reads", language: "bash", code: "read x || echo none", outcome: execution.Exited, has: "none"},
		{
			name: "recursion", language: "python", code: "def f(): f()\nf()", outcome: execution.Exited, exit: 1,
			has: "RecursionError",
		},
		{
			name: "recursion", language: "javascript", code: "function f() { f() }; f()", outcome: execution.Exited,
			exit: 1, has: "RangeError",
		},
		{
			name: "recursion", language: "bash", code: "FUNCNEST=50; f() { f; }; f", outcome: execution.Exited,
			exit: 1, has: "nesting",
		},
		{name: "huge value", language: "python", code: "'x' * (64 << 20)", outcome: execution.Exited, has: "..."},
		{
			name: "huge value", language: "javascript", code: "'x'.repeat(64 << 20)", outcome: execution.Exited,
			has: "...",
		},
		{
			name:     "a child lives on",
			language: "python",
			code:     "import subprocess; c = subprocess.Popen(['sleep', '100'])",
			outcome:  execution.Exited,
		},
		{
			name:     "a child lives on",
			language: "javascript",
			code:     "require('child_process').spawn('sleep', ['100'], {stdio: 'inherit'}).pid > 0",
			outcome:  execution.Exited,
			has:      "true",
		},
		{name: "a child lives on", language: "bash", code: "sleep 100 & :", outcome: execution.Exited},
		{name: "a child goes on", language: "python", code: "import os; os.fork()", outcome: execution.Exited},
		{
			name: "unicode", language: "python", code: "'\\u2028 \\ud800 \U0001F600'", outcome: execution.Exited,
			has: "\U0001F600",
		},
		{
			name: "unicode", language: "javascript", code: "'\U0001F600\\u2028'", outcome: execution.Exited,
			has: "\U0001F600",
		},
		{name: "unicode", language: "bash", code: "echo \U0001F600", outcome: execution.Exited, has: "\U0001F600"},
		{
			name: "strange errors", language: "python",
			code: "class E(BaseException):\n  def __str__(self): raise self\nraise E", outcome: execution.Exited,
			exit: 1, has: "E: ",
		},
		{
			name: "strange errors", language: "javascript", code: "throw {get name() { throw 1 }}",
			outcome: execution.Exited, exit: 1, has: "Thrown",
		},
		{name: "no code", language: "python", code: "# nothing", outcome: execution.Exited},
	} {
		t.Run(test.language+"/"+test.name, func(t *testing.T) {
			i, there := survivors[test.language]
			if !there {
				i = openInterpreter(t, h, interpreter.Request{Language: test.language})
			}
			survivors[test.language] = i
			r := runCode(t, h, i.ID, test.code)
			wantOutcome(t, r.Execution, test.outcome, test.exit, test.signal)
			if all := fmt.Sprint(r.stdout, r.stderr, r.result, r.exception); !strings.Contains(all, test.has) {
				t.Errorf("%.1000q has no %q", all, test.has)
			}
			if test.ends {
				delete(survivors, test.language)
				finish(t, h, i.ID)
				_, _, err := h.Start(longWithin(t), tenant, execution.Request{Interpreter: i.ID, Code: "1"})
				if !errors.Is(err, reprise.ErrEnded) {
					t.Errorf("code in an interpreter that has ended: %v", err)
				}
				return
			}
			say := map[string]string{
				"bash":       "echo well",
				"python":     "print('well')",
				"javascript": "console.log('well')",
			}[test.language]
			if next := runCode(t, h, i.ID, say); next.stdout != "well\n" || *next.ExitCode != 0 {
				t.Errorf("the next code: %+v", next)
			}
		})
	}
}

// TestPrintedFramesAreOutput: code that prints what it was sent, or guesses, forges no frame and no end.
func TestPrintedFramesAreOutput(t *testing.T) {
	h := newHost(t, execution.Options{RunsDir: t.TempDir()})
	i := openInterpreter(t, h, interpreter.Request{Language: "bash"})
	forged := "\x00AAAAAAAAAAAAAAAAAAAAAAAAAA5:end 0"
	r := runCode(t, h, i.ID, `printf '\0AAAAAAAAAAAAAAAAAAAAAAAAAA5:end 0'; declare -p | tr '\n' '\0'; printf '\0'; (exit 9)`)
	wantOutcome(t, r.Execution, execution.Exited, 9, "")
	if !strings.HasPrefix(r.stdout, forged) || !strings.HasSuffix(r.stdout, "\x00\x00") {
		t.Errorf("%.60q", r.stdout)
	}
}

// TestInterruptsLeaveTheInterpreter: code that never ends is ended by an interruption, a cancellation and its timeout,
// and what was declared before is still there. Code that does not take that is ended with its interpreter.
func TestInterruptsLeaveTheInterpreter(t *testing.T) {
	t.Parallel() // it waits most of the time
	endless := map[string]string{
		"bash":       "f() { while :; do sleep 0.01; done; echo no; }; echo up; f; echo no",
		"python":     "print('up')\nwhile True: pass",
		"javascript": "console.log('up'); for (;;);",
	}
	remember := map[string]string{"bash": "x=41", "python": "x = 41", "javascript": "let x = 41"}
	recall := map[string]string{"bash": "echo $x", "python": "print(x)", "javascript": "console.log(x)"}
	inInterpreters(t, func(t *testing.T, h *execution.Host, language string) {
		i := openInterpreter(t, h, interpreter.Request{Language: language})
		runCode(t, h, i.ID, remember[language])
		for how, end := range map[execution.Outcome]func(id string) error{
			execution.Exited:    func(string) error { return interpreter.Interrupt(longWithin(t), h, tenant, i.ID) },
			execution.Cancelled: func(id string) error { return h.Cancel(longWithin(t), tenant, id) },
		} {
			x := start(t, h, execution.Request{Interpreter: i.ID, Code: endless[language]})
			await(t, h, x.ID, "up")
			_, _, err := h.Start(longWithin(t), tenant, execution.Request{Interpreter: i.ID, Code: "1"})
			if !errors.Is(err, reprise.ErrConflict) {
				t.Errorf("code in a busy interpreter: %v", err)
			}
			if err := end(x.ID); err != nil {
				t.Fatal(err)
			}
			r := ended(t, h, x.ID)
			wantOutcome(t, r.Execution, how, 130, "")
			if strings.Contains(r.stdout, "no") {
				t.Errorf("it went on: %q", r.stdout)
			}
		}
		slow := start(t, h, execution.Request{
			Interpreter: i.ID,
			Code:        endless[language],
			Timeout:     execution.Duration(time.Second),
		})
		wantOutcome(t, ended(t, h, slow.ID).Execution, execution.TimedOut, 130, "")
		if r := runCode(t, h, i.ID, recall[language]); r.stdout != "41\n" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("deaf", func(t *testing.T) {
		h := newHost(t, execution.Options{})
		i := openInterpreter(t, h, interpreter.Request{Language: "bash"})
		x := start(t, h, execution.Request{
			Interpreter: i.ID,
			Code:        "trap '' INT; echo up; while :; do sleep 0.1; done",
			Grace:       execution.Duration(50 * time.Millisecond),
		})
		await(t, h, x.ID, "up")
		if err := h.Cancel(longWithin(t), tenant, x.ID); err != nil {
			t.Fatal(err)
		}
		if r := ended(t, h, x.ID); r.Outcome != execution.Cancelled {
			t.Errorf("%+v", r)
		}
		if x := finish(t, h, i.ID); x.Outcome != execution.Cancelled || x.Error == "" {
			t.Errorf("%+v", x)
		}
	})
}

// TestInterruptsAsNodeBeginsToWait: Node changes what INT does when code begins to wait. An interruption in that moment
// is neither lost nor the end of the interpreter.
func TestInterruptsAsNodeBeginsToWait(t *testing.T) {
	h := newHost(t, execution.Options{RunsDir: t.TempDir()})
	i := openInterpreter(t, h, interpreter.Request{Language: "javascript"})
	for range 20 {
		code := "console.log('up'); await new Promise(() => setInterval(() => {}, 1000))"
		x := start(t, h, execution.Request{Interpreter: i.ID, Code: code})
		await(t, h, x.ID, "up")
		if err := interpreter.Interrupt(longWithin(t), h, tenant, i.ID); err != nil {
			t.Fatal(err)
		}
		wantOutcome(t, ended(t, h, x.ID).Execution, execution.Exited, 130, "")
	}
}

// TestResultsByMIMEType: a value that can be shown in several ways is, as in a notebook.
func TestResultsByMIMEType(t *testing.T) {
	h := newHost(t, execution.Options{})
	py := openInterpreter(t, h, interpreter.Request{Language: "python"})
	r := runCode(t, h, py.ID, "class V:\n  def __repr__(self): return 'V'\n  def _repr_html_(self): return '<b>V</b>'\n  def _repr_png_(self): return b'\\x89PNG'\n"+
		"  def _repr_svg_(self): raise ValueError\ndisplay(V())\nV()")
	want := map[string]string{"text/plain": "V", "text/html": "<b>V</b>", "image/png": "iVBORw=="}
	for _, got := range []map[string]string{r.result, r.display} {
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v", got)
		}
	}
	js := openInterpreter(t, h, interpreter.Request{Language: "javascript"})
	r = runCode(t, h, js.ID, "await null; ({[Symbol.for('Jupyter.display')]: () => ({'text/html': '<i>', 'text/plain': 'p'})})")
	if r.result["text/html"] != "<i>" || r.result["text/plain"] != "p" {
		t.Errorf("%v, %s", r.result, r.exception)
	}
}

// TestMuchOutputOfCode: code that prints far more than is kept ends as it should, and all of it was counted.
func TestMuchOutputOfCode(t *testing.T) {
	h := newHost(t, execution.Options{RunsDir: t.TempDir()})
	i := openInterpreter(t, h, interpreter.Request{Language: "python"})
	const size = 8 << 20
	x := start(t, h, execution.Request{
		Interpreter: i.ID,
		Code:        fmt.Sprintf("import sys\nfor _ in range(%d): sys.stdout.write('y' * (1 << 20))", size>>20),
		Retention:   execution.Retention{MaxBytes: 1 << 20},
	})
	if r := ended(t, h, x.ID); r.Outcome != execution.Exited || r.Bytes.Stdout != size {
		t.Errorf("%+v", r)
	}
	if r := runCode(t, h, i.ID, "6 * 7"); r.result["text/plain"] != "42" {
		t.Errorf("%+v", r)
	}
}

// TestInterpretersExpire: one that is not used ends after its idle timeout, and one that is used at the end of its
// time. Where the machine is so busy that one has ended before it was given code, the next one has longer.
func TestInterpretersExpire(t *testing.T) {
	t.Parallel() // it waits most of the time
	h := newHost(t, execution.Options{MaxInterpreters: 1})
	tries := func(once func(time.Duration) error) {
		t.Helper()
		for life := time.Second / 2; ; life *= 4 {
			err := once(life)
			until(t, "there is room", func() bool { return h.Counts().Running == 0 })
			if err == nil {
				return
			}
			if !errors.Is(err, reprise.ErrEnded) || life > longer {
				t.Fatal(err)
			}
		}
	}
	tries(func(idle time.Duration) error {
		bash := interpreter.Request{Language: "bash", IdleTimeout: execution.Duration(idle)}
		i := openInterpreter(t, h, bash)
		_, _, tooMany := interpreter.Open(longWithin(t), h, anybody, interpreter.Request{Language: "bash"})
		code := fmt.Sprintf("sleep %f; echo kept", 2*idle.Seconds())
		x, _, err := h.Start(longWithin(t), tenant, execution.Request{Interpreter: i.ID, Code: code})
		if err != nil {
			return err
		}
		if !errors.Is(tooMany, reprise.ErrQuota) {
			t.Errorf("one too many: %v", tooMany)
		}
		if r := ended(t, h, x.ID); r.stdout != "kept\n" {
			t.Errorf("%+v", r)
		}
		if x := finish(t, h, i.ID); x.Outcome != execution.Cancelled || !strings.Contains(x.Error, "idle") {
			t.Errorf("%+v", x)
		}
		return nil
	})
	tries(func(life time.Duration) error {
		bash := interpreter.Request{Language: "bash", Timeout: execution.Duration(life)}
		i := openInterpreter(t, h, bash)
		x, _, err := h.Start(longWithin(t), tenant, execution.Request{Interpreter: i.ID, Code: "sleep 100"})
		if err != nil {
			return err
		}
		if r := ended(t, h, x.ID); r.Outcome != execution.TimedOut {
			t.Errorf("%+v", r)
		}
		if x := finish(t, h, i.ID); x.Outcome != execution.TimedOut {
			t.Errorf("%+v", x)
		}
		return nil
	})
}

// TestInterpreterRequests: what is wrong is refused before anything is created, and a start is idempotent.
func TestInterpreterRequests(t *testing.T) {
	h := newHost(t, execution.Options{})
	for field, q := range map[string]interpreter.Request{
		"language":     {Language: "cobol"},
		"idle_timeout": {Language: "bash", IdleTimeout: -1},
		"id":           {Language: "bash", ID: "/"},
	} {
		_, _, err := interpreter.Open(longWithin(t), h, anybody, q)
		if refused, ok := errors.AsType[*execution.FieldError](err); !ok || refused.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	_, _, err := interpreter.Open(longWithin(t), h, anybody,
		interpreter.Request{Language: "python", Env: map[string]string{"PATH": "/nowhere"}})
	if refused, ok := errors.AsType[*execution.FieldError](err); !ok || !strings.Contains(refused.Reason, "python3") {
		t.Errorf("without an interpreter: %v", err)
	}
	if list, err := interpreter.List(longWithin(t), h, tenant, nil); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	i := openInterpreter(t, h, interpreter.Request{Language: "bash", ID: "b"})
	if again, created, err := interpreter.Open(longWithin(t), h, anybody, interpreter.Request{
		Language: "bash",
		ID:       "b",
	}); err != nil || created || again.ID != i.ID {
		t.Errorf("%+v, %v, %v", again, created, err)
	}
	for field, req := range map[string]execution.Request{
		"code":  {Interpreter: "b"},
		"cwd":   {Interpreter: "b", Code: "1", Cwd: "/"},
		"clear": {Command: "true", Clear: true},
	} {
		_, _, err := h.Start(longWithin(t), tenant, req)
		if refused, ok := errors.AsType[*execution.FieldError](err); !ok || refused.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	req := execution.Request{Interpreter: "b", ID: "one", Code: "echo once"}
	start(t, h, req)
	ended(t, h, "one")
	if _, created, err := h.Start(longWithin(t), tenant, req); err != nil || created {
		t.Errorf("the same again: %v, %v", created, err)
	}
	req.Code = "echo twice"
	if _, _, err := h.Start(longWithin(t), tenant, req); !errors.Is(err, reprise.ErrConflict) {
		t.Errorf("other code under the same id: %v", err)
	}
	if _, _, err := h.Start(longWithin(t), tenant, execution.Request{
		Interpreter: "none",
		Code:        "1",
	}); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("no such interpreter: %v", err)
	}
	if list, err := interpreter.List(longWithin(t), h, tenant, nil); err != nil || len(list) != 1 ||
		list[0].ID != "b" || list[0].Status != execution.StatusRunning {
		t.Errorf("%+v, %v", list, err)
	}
	if err := h.Remove(longWithin(t), tenant, "b"); err != nil {
		t.Fatal(err)
	}
	if r := ended(t, h, "one"); r.stdout != "once\n" {
		t.Errorf("what ran in it is kept: %+v", r)
	}
}
