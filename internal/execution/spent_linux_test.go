package execution_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reprise/internal/execution"
)

// traced lets this thread trace a process. It is killed like any other then, but its parent does not hear of its end
// before release.
func traced(t *testing.T, pid int) (release func()) {
	t.Helper()
	attached, free, freed := make(chan error), make(chan struct{}), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(freed)
		attached <- unix.PtraceSeize(pid)
		<-free
		_, _ = unix.Wait4(pid, nil, unix.WALL|unix.WNOHANG, nil)
	}()
	if err := <-attached; err != nil {
		close(free)
		if errors.Is(err, unix.EPERM) && os.Getenv("CI") == "" {
			t.Skip("this machine lets nobody trace a process: ", err)
		}
		t.Fatal("trace a process: ", err)
	}
	return func() {
		close(free)
		<-freed
	}
}

// TestSupervisorThatCouldNotEndAllTakesNoOtherRun: what is left would be taken for processes of the next run.
func TestSupervisorThatCouldNotEndAllTakesNoOtherRun(t *testing.T) {
	t.Parallel() // the supervisor tries for ten seconds
	dir := t.TempDir()
	opts := execution.Options{RunsDir: t.TempDir(), MaxIdle: 1}
	h := newHost(t, opts)
	x := start(t, h, execution.Request{
		Command: `setsid sleep 1000 >/dev/null 2>&1 & echo "child $!"; until [ -e go ]; do sleep 0.01; done`,
		Cwd:     dir, Isolation: "none",
	})
	pids := children(await(t, h, x.ID, "child"))
	if len(pids) != 1 {
		t.Fatalf("processes %v", pids)
	}
	release := traced(t, pids[0])
	stuck := "/proc/" + strconv.Itoa(parentOf(t, pids[0])) // the shell, until it has ended
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	x = finish(t, h, x.ID)
	wantOutcome(t, x, execution.Exited, 0, "")
	if !x.ProcessesLeft {
		t.Error("it is not said that a process is left")
	}
	until(t, "the command is gone", func() bool {
		_, err := os.Stat(stuck)
		return errors.Is(err, os.ErrNotExist)
	})
	supervisor := parentOf(t, pids[0])
	for range 3 {
		next := finish(t, h, start(t, h, execution.Request{Command: `echo "child $PPID"`}).ID)
		wantOutcome(t, next, execution.Exited, 0, "")
		got := children(string(output(t, h, next.ID, execution.Stdout)))
		if next.ProcessesLeft || len(got) != 1 || got[0] == supervisor {
			t.Errorf("processes left %t, supervisors %v", next.ProcessesLeft, got)
		}
	}
	release()
	until(t, "the supervisor has ended", func() bool { return !alive(supervisor) })
}

// parentOf is the parent of a process.
func parentOf(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	parent, err := strconv.Atoi(strings.Fields(after)[1])
	if err != nil {
		t.Fatal(err)
	}
	return parent
}
