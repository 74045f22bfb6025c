package execution_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/execution"
)

func TestExitCodesAndSignals(t *testing.T) {
	h := newHost(t, execution.Options{})
	for _, code := range []int{0, 1, 2, 125, 126, 127, 255} {
		wantOutcome(t, sh(t, h, fmt.Sprintf("exit %d", code)), execution.Exited, code, "")
	}
	for _, signal := range []string{"SEGV", "KILL", "TERM", "ABRT", "PIPE"} {
		wantOutcome(t, sh(t, h, "kill -"+signal+" $$"), execution.Signaled, 0, signal)
	}
}

// TestOutcomesAreDistinct: timeout, cancel, and a signal that was sent do not look alike, and
// the reason is told even where the command takes it well or badly.
func TestOutcomesAreDistinct(t *testing.T) {
	t.Parallel() // it waits most of the time
	trees(t, func(t *testing.T, opts execution.Options) {
		t.Parallel() // it waits most of the time
		h := newHost(t, opts)
		const polite = `trap 'echo bye; exit 7' TERM INT; echo up; while :; do sleep 0.01; done`
		const stubborn = `trap '' TERM INT; echo up; while :; do sleep 0.01; done`
		const plain = `echo up; exec sleep 100`
		const short = execution.Duration(100 * time.Millisecond) // for who does not take it well
		up := func(req execution.Request) string {
			t.Helper()
			x := start(t, h, req)
			await(t, h, x.ID, "up")
			return x.ID
		}
		end := func(req execution.Request, how func(id string) error) execution.Execution {
			t.Helper()
			id := up(req)
			if err := how(id); err != nil {
				t.Fatal(err)
			}
			return finish(t, h, id)
		}
		cancel := func(id string) error { return h.Cancel(within(t), tenant, id) }
		signal := func(name string) func(string) error {
			return func(id string) error { return h.Signal(within(t), tenant, id, name) }
		}
		timeout := execution.Duration(8 * time.Second) // within which each is up
		first := up(execution.Request{Command: plain, Timeout: timeout})
		second := up(execution.Request{Command: polite, Timeout: timeout})
		third := up(execution.Request{Command: stubborn, Timeout: timeout, Grace: short})
		wantOutcome(t, end(execution.Request{Command: plain}, cancel), execution.Cancelled, 0, "TERM")
		wantOutcome(t, end(execution.Request{Command: polite}, cancel), execution.Cancelled, 7, "")
		wantOutcome(t, end(execution.Request{Command: stubborn, Grace: short}, cancel), execution.Cancelled, 0, "KILL")
		wantOutcome(t, end(execution.Request{Command: plain}, signal("SIGTERM")), execution.Signaled, 0, "TERM")
		wantOutcome(t, end(execution.Request{Command: polite}, signal("int")), execution.Exited, 7, "")
		wantOutcome(t, end(execution.Request{Command: plain}, signal("KILL")), execution.Signaled, 0, "KILL")
		wantOutcome(t, finish(t, h, first), execution.TimedOut, 0, "TERM")
		wantOutcome(t, finish(t, h, second), execution.TimedOut, 7, "")
		wantOutcome(t, finish(t, h, third), execution.TimedOut, 0, "KILL")
	})
}

func TestFailedStartGivesItsReason(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	plain := write("plain", "#!/bin/sh\n", 0o600)
	noInterpreter := write("script", "#!/no/such/interpreter\n", 0o700)
	opts := execution.Options{Dir: dir, StateDir: t.TempDir()}
	h := newHost(t, opts)
	for name, c := range map[string]struct {
		req  execution.Request
		says string
	}{
		"no program":     {execution.Request{Argv: []string{"no-such-program"}}, "not found in PATH"},
		"no file":        {execution.Request{Argv: []string{"/no/such/program"}}, "no such program"},
		"not executable": {execution.Request{Argv: []string{plain}}, "no permission"},
		"no interpreter": {execution.Request{Argv: []string{noInterpreter}}, "interpreter"},
		"no cwd":         {execution.Request{Argv: []string{"true"}, Cwd: "nowhere"}, "does not exist"},
		"cwd is a file":  {execution.Request{Argv: []string{"true"}, Cwd: "plain"}, "not a directory"},
		"no language": {
			execution.Request{Language: "python", Code: "1", Env: map[string]string{"PATH": "/nowhere"}}, "python3",
		},
		"too long": {execution.Request{Argv: []string{"echo", strings.Repeat("x", 200<<10)}}, "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			x := finish(t, h, start(t, h, c.req).ID)
			wantOutcome(t, x, execution.FailedToStart, -1, "")
			if !strings.Contains(x.Error, c.says) {
				t.Errorf("it says %q", x.Error)
			}
			if !x.Started.IsZero() {
				t.Error("it has a start")
			}
		})
	}
	until(t, "the code is removed", func() bool {
		left, err := filepath.Glob(filepath.Join(opts.StateDir, "reprise-code-*"))
		return err == nil && len(left) == 0
	})
}

// TestCancelKillsWholeTree cancels a command whose children kill(-pgid) does not reach: some are in sessions of their
// own, some are children of init after a double fork.
func TestCancelKillsWholeTree(t *testing.T) {
	t.Parallel() // it waits most of the time
	trees(t, func(t *testing.T, opts execution.Options) {
		t.Parallel()
		h := newHost(t, opts)
		x := start(t, h, execution.Request{Command: `
			sleep 1001 & echo "child $!"
			setsid sh -c 'echo "child $$"; exec sleep 1002' &
			(setsid sh -c '(trap "" TERM HUP; exec sleep 1003) & echo "child $!"; (sleep 1004 & echo "child $!")' &)
			wait; sleep 1005`, Grace: execution.Duration(3 * time.Second)})
		var pids []int
		until(t, "all children are up", func() bool {
			pids = children(string(output(t, h, x.ID, execution.Stdout)))
			return len(pids) == 4
		})
		if err := h.Cancel(within(t), tenant, x.ID); err != nil {
			t.Fatal(err)
		}
		wantOutcome(t, finish(t, h, x.ID), execution.Cancelled, 0, "TERM")
		for _, pid := range pids {
			if alive(pid) {
				t.Errorf("process %d survived", pid)
			}
		}
	})
}

// children are the numbers after the word child.
func children(text string) (pids []int) {
	for line := range strings.Lines(text) {
		if number, ok := strings.CutPrefix(line, "child "); ok {
			if pid, err := strconv.Atoi(strings.TrimSpace(number)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// alive reports whether a process is there and no zombie. One whose first thread has ended looks like a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	state, threads := fields[0], fields[20-3]
	return state != "Z" && state != "X" || threads != "0" && threads != "1"
}

// TestOpenPipeDoesNotHoldTheEnd: a grandchild in a session of its own keeps stdout open.
func TestOpenPipeDoesNotHoldTheEnd(t *testing.T) {
	t.Parallel() // it waits most of the time
	trees(t, func(t *testing.T, opts execution.Options) {
		t.Parallel()
		const drain = 700 * time.Millisecond
		opts.DrainTimeout, opts.Dir = drain, t.TempDir()
		h := newHost(t, opts)
		began := time.Now()
		x := start(t, h, execution.Request{Command: `setsid sh -c 'echo "child $$"; >up; exec sleep 1000' &
			while [ ! -e up ]; do sleep 0.01; done; exit 5`})
		pids := children(await(t, h, x.ID, "child"))
		x = finish(t, h, x.ID)
		wantOutcome(t, x, execution.Exited, 5, "")
		if !x.OutputTruncated {
			t.Error("not said to be truncated")
		}
		if len(pids) != 1 || alive(pids[0]) {
			t.Errorf("left behind: %v", pids)
		}
		if d := time.Duration(*x.DurationMS) * time.Millisecond; d > time.Since(began)-drain {
			t.Errorf("the command is said to have run for %s, with the wait for its output", d)
		}
	})
}

// TestBackgroundChildrenEndWithTheCommand: a background child that holds no pipe neither delays the end nor survives
// it.
func TestBackgroundChildrenEndWithTheCommand(t *testing.T) {
	t.Parallel() // it waits most of the time
	trees(t, func(t *testing.T, opts execution.Options) {
		t.Parallel()
		h := newHost(t, opts)
		x := start(t, h, execution.Request{Command: `setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo "child $!"`})
		x = finish(t, h, x.ID)
		wantOutcome(t, x, execution.Exited, 0, "")
		if x.OutputTruncated {
			t.Error("said to be truncated")
		}
		pids := children(string(output(t, h, x.ID, execution.Stdout)))
		if len(pids) != 1 || alive(pids[0]) {
			t.Errorf("left behind: %v", pids)
		}
	})
}

func TestEnvironmentIsClean(t *testing.T) {
	t.Setenv("REPRISE_TOKEN", "secret-token")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret-key")
	t.Setenv("PASSED_ON", "yes")
	// A descriptor that we were started with and that is not closed on exec.
	leak, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	keepOnExec(t, leak)
	h := newHost(t, execution.Options{PassEnv: []string{"PASSED_ON"}})
	x := start(t, h, execution.Request{
		Command: `env; ls -l /proc/self/fd | sed 's/^/fd /'`, Env: map[string]string{"MINE": "a=b", "LANG": "C.UTF-8"},
	})
	x = finish(t, h, x.ID)
	got := string(output(t, h, x.ID, execution.Stdout))
	for _, want := range []string{
		"PATH=", "MINE=a=b\n", "LANG=C.UTF-8\n", "PASSED_ON=yes\n", "REPRISE_EXECUTION=" + x.ID + "\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	for _, leaked := range []string{"secret-token", "secret-key", "/dev/zero"} {
		if strings.Contains(got, leaked) {
			t.Errorf("%q reached the command", leaked)
		}
	}
}

func TestTerminalIsStdinStdoutAndStderr(t *testing.T) {
	h := newHost(t, execution.Options{})
	x := start(t, h, execution.Request{
		Command: `test -t 0 && test -t 1 && test -t 2 && stty size; echo err >&2; read line; echo "got $line"; cat; echo end`,
		TTY:     &execution.TTY{Cols: 123, Rows: 45}, StdinOpen: true,
	})
	await(t, h, x.ID, "err")
	if _, err := h.WriteStdin(within(t), tenant, x.ID, execution.StdinWrite{
		Data: strings.NewReader("typed\nmore"),
		EOF:  true,
	}); err != nil {
		t.Fatal(err)
	}
	x = finish(t, h, x.ID)
	wantOutcome(t, x, execution.Exited, 0, "")
	got := string(output(t, h, x.ID, execution.Stdout))
	for _, want := range []string{"45 123\r\n", "err\r\n", "got typed\r\n", "more", "end\r\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if x.Bytes.Stderr != 0 {
		t.Errorf("%d bytes of stderr from a terminal", x.Bytes.Stderr)
	}
	// Nobody types into a terminal that was not opened.
	x = finish(t, h, start(t, h, execution.Request{Command: "cat; echo over", TTY: &execution.TTY{}}).ID)
	wantOutcome(t, x, execution.Exited, 0, "")
}

func TestLanguagesRunCode(t *testing.T) {
	opts := execution.Options{StateDir: t.TempDir()}
	h := newHost(t, opts)
	for language, code := range map[string]string{
		"sh": "echo hi", "bash": "set -o pipefail; echo hi", "perl": `print "hi\n";`,
		"python": "import sys\nprint('hi')", "javascript": "console.log('hi')",
		"go": "package main\nfunc main() { println(\"to stderr\"); print() ; println() ; os() }\nfunc os() {}\n",
	} {
		t.Run(language, func(t *testing.T) {
			x := finish(t, h, start(t, h, execution.Request{Language: language, Code: code}).ID)
			if x.Outcome == execution.FailedToStart {
				if !strings.Contains(x.Error, "not found in PATH") {
					t.Errorf("it says %q", x.Error)
				}
				return
			}
			wantOutcome(t, x, execution.Exited, 0, "")
			if got := output(t, h, x.ID, execution.Stdout); language != "go" && string(got) != "hi\n" {
				t.Errorf("got %q", got)
			}
		})
	}
	x := finish(t, h,
		start(t, h, execution.Request{Language: "python", Code: "def f():\n    raise ValueError('x')\nf()"}).ID)
	if x.Outcome != execution.FailedToStart {
		wantOutcome(t, x, execution.Exited, 1, "")
		if got := string(output(t, h, x.ID, execution.Stderr)); !strings.Contains(got, `main.py", line 2`) {
			t.Errorf("the traceback is %s", got)
		}
	}
	until(t, "the code is removed", func() bool {
		left, err := filepath.Glob(filepath.Join(opts.StateDir, "reprise-code-*"))
		return err == nil && len(left) == 0
	})
}

// TestCancelledTreeHasItsGrace: the first process goes at once, one below it takes its time
// and still says what it has to say.
func TestCancelledTreeHasItsGrace(t *testing.T) {
	t.Parallel() // it waits most of the time
	trees(t, func(t *testing.T, opts execution.Options) {
		t.Parallel()
		h := newHost(t, opts)
		x := start(t, h, execution.Request{Command: `
			setsid sh -c 'trap "sleep 0.2; echo last words; exit" TERM; echo up; while :; do sleep 0.01; done' &
			wait`})
		await(t, h, x.ID, "up")
		for range 2 { // a second time makes no difference
			if err := h.Cancel(within(t), tenant, x.ID); err != nil {
				t.Fatal(err)
			}
		}
		x = finish(t, h, x.ID)
		wantOutcome(t, x, execution.Cancelled, 0, "TERM")
		if got := string(output(t, h, x.ID, execution.Stdout)); got != "up\nlast words\n" || x.OutputTruncated {
			t.Errorf("output %q, truncated %t", got, x.OutputTruncated)
		}
	})
}

// TestCancelWhileOutputIsAwaited: the command has ended by itself, and that stays its
// outcome; what it left behind is ended.
func TestCancelWhileOutputIsAwaited(t *testing.T) {
	t.Parallel() // it waits most of the time
	trees(t, func(t *testing.T, opts execution.Options) {
		t.Parallel()
		opts.DrainTimeout = time.Hour
		h := newHost(t, opts)
		x := start(t, h, execution.Request{Command: `setsid sleep 1000 & echo "main $$"; exit 6`})
		text := await(t, h, x.ID, "main")
		var main int
		if _, err := fmt.Sscanf(text, "main %d", &main); err != nil {
			t.Fatal(err)
		}
		until(t, "the command has ended", func() bool { return !alive(main) })
		until(t, "that is known", func() bool {
			return errors.Is(h.Signal(within(t), tenant, x.ID, "CONT"), reprise.ErrEnded)
		})
		if err := h.Cancel(within(t), tenant, x.ID); err != nil {
			t.Fatal(err)
		}
		wantOutcome(t, finish(t, h, x.ID), execution.Exited, 6, "")
	})
}

func TestRelativePaths(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub", "hello"), []byte("#!/bin/sh\npwd\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, execution.Options{Dir: dir})
	x := finish(t, h, start(t, h, execution.Request{Argv: []string{"./hello"}, Cwd: "sub"}).ID)
	wantOutcome(t, x, execution.Exited, 0, "")
	if got := string(output(t, h, x.ID, execution.Stdout)); got != filepath.Join(dir, "sub")+"\n" {
		t.Errorf("ran in %q", got)
	}
}

func TestCodeOfADeadServerIsRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	left := filepath.Join(dir, "reprise-code-1")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "keys")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, execution.Options{StateDir: dir})
	x := finish(t, h,
		start(t, h, execution.Request{Language: "sh", Code: `stat -c %a "$0" "$(dirname "$0")"; echo "$0"`}).ID)
	got := strings.Fields(string(output(t, h, x.ID, execution.Stdout)))
	if len(got) != 3 || got[0] != "600" || got[1] != "700" || !strings.HasPrefix(got[2], dir) {
		t.Errorf("modes and place of the code: %v", got)
	}
	until(t, "the code is removed and nothing else", func() bool {
		names, _ := filepath.Glob(filepath.Join(dir, "*"))
		return len(names) == 1 && names[0] == other
	})
}
