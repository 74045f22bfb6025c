package execution_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"reprise/internal/execution"
	"reprise/internal/execution/supervisor"
	"reprise/store/memstore"
)

// spares are the directories that supervisors keep for the next runs.
func spares(t *testing.T, opts execution.Options) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(opts.RunsDir, "spare-*"))
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// TestSpareDirectoryServesRunAfterRun: runs have one directory after the other, with the same files and none of the
// contents of the run before. A run that leaves other files there gets a directory of its own.
func TestSpareDirectoryServesRunAfterRun(t *testing.T) {
	opts := execution.Options{RunsDir: t.TempDir(), MaxIdle: 1}
	h := newHost(t, opts)
	lockOf := func(dir string) os.FileInfo {
		info, err := os.Stat(filepath.Join(dir, "lock"))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	spare := func() string {
		until(t, "there is one supervisor, with a spare directory", func() bool {
			busy, idle := h.Supervisors()
			return busy == 0 && idle == 1 && len(spares(t, opts)) == 1
		})
		return spares(t, opts)[0]
	}
	for i, word := range []string{"one, which is longer", "two", ""} {
		before := lockOf(spare())
		goOn := filepath.Join(t.TempDir(), strconv.Itoa(i))
		x := start(t, h, execution.Request{
			Argv: []string{"sh", "-c", `printf %s "$0"; until [ -e "$1" ]; do sleep 0.01; done`, word, goOn},
		})
		var dirs []string
		until(t, "it has the directory", func() bool {
			dirs = runDirs(t, opts)
			return len(dirs) == 1
		})
		if during := lockOf(dirs[0]); !os.SameFile(before, during) {
			t.Errorf("%q has another directory", word)
		}
		until(t, "a supervisor for the next command is idle", func() bool {
			busy, idle := h.Supervisors()
			return busy == 1 && idle == 1
		})
		if err := os.WriteFile(goOn, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		wantOutcome(t, finish(t, h, x.ID), execution.Exited, 0, "")
		if got := string(output(t, h, x.ID, execution.Stdout)); got != word {
			t.Errorf("output %q, want %q", got, word)
		}
		until(t, "the directory is spare again", func() bool { return len(runDirs(t, opts)) == 0 })
		if info := lockOf(spare()); info.Size() != 0 {
			t.Errorf("the lock of a spare directory says that a command has begun")
		}
	}
	spare()
	x := start(t, h, execution.Request{Language: "sh", Code: "echo code"})
	wantOutcome(t, finish(t, h, x.ID), execution.Exited, 0, "")
	until(t, "its directory is gone", func() bool { return len(runDirs(t, opts)) == 0 })
	if left, err := filepath.Glob(filepath.Join(opts.RunsDir, "spare-*", "*")); err != nil || len(left) > 3 {
		t.Errorf("files %v are left, %v", left, err)
	}
}

// TestIdleSupervisorIsKilled: its directory is removed, also if the server was killed too, and the next command runs.
func TestIdleSupervisorIsKilled(t *testing.T) {
	opts := execution.Options{RunsDir: t.TempDir(), MaxIdle: 1}
	dead := filepath.Join(opts.RunsDir, "spare-of-a-dead-one")
	if err := supervisor.Create(dead); err != nil {
		t.Fatal(err)
	}
	log := newLog(t, memstore.New(nil), nil)
	h := openHost(t, log, opts)
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of a dead supervisor: %v", err)
	}
	for range 3 {
		until(t, "a supervisor is idle", func() bool { return len(spares(t, opts)) == 1 })
		pid, err := strconv.Atoi(strings.Split(supervisorsOf(os.Getpid())[0], "/")[2])
		if err = errors.Join(err, syscall.Kill(pid, syscall.SIGKILL)); err != nil {
			t.Fatal(err)
		}
		x := start(t, h, execution.Request{Argv: []string{"echo", "up"}})
		wantOutcome(t, finish(t, h, x.ID), execution.Exited, 0, "")
		if got := string(output(t, h, x.ID, execution.Stdout)); got != "up\n" {
			t.Errorf("output %q", got)
		}
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	// A supervisor that was about to be idle removes its directory when it sees that the server has gone.
	until(t, "no directory is left", func() bool { return len(spares(t, opts)) == 0 })
}

// TestTimerSlackOfCommandIsThatOfServer: see TestTimerSlackIsForSupervisorsOnly for the parts.
func TestTimerSlackOfCommandIsThatOfServer(t *testing.T) {
	const file = "timerslack_ns"
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours := strconv.Itoa(slack) + "\n"
	h := newHost(t, execution.Options{RunsDir: t.TempDir()})
	x := finish(t, h, start(t, h, execution.Request{Argv: []string{"cat", "/proc/self/" + file}}).ID)
	if got := output(t, h, x.ID, execution.Stdout); string(got) != ours {
		t.Errorf("the command has a timer slack of %q, not %q", got, ours)
	}
	for _, stat := range supervisorsOf(os.Getpid()) {
		// The slack of a process is that of its first thread, which may be the one that starts commands.
		env, err := os.ReadFile(filepath.Join(filepath.Dir(stat), "environ"))
		if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) {
			continue // this needs CAP_SYS_PTRACE
		}
		if err != nil || !strings.Contains(string(env), "REPRISE_TIMER_SLACK="+strconv.Itoa(slack)+"\x00") {
			t.Errorf("a supervisor was started without a longer timer slack: %q, %v", env, err)
		}
	}
}
