package execution_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"reprise/internal/execution"
)

// leavesCgroup is the beginning of a command that moves itself to the cgroup at the root, where it may.
const leavesCgroup = `for root in /sys/fs/cgroup/unified /sys/fs/cgroup; do
		{ echo $$ >$root/cgroup.procs; } 2>/dev/null
	done
	echo "child $$"; `

// hasLeft returns the process of a command that has left its cgroup.
func hasLeft(t *testing.T, h *execution.Host, id string) (pid int) {
	t.Helper()
	pids := children(await(t, h, id, "child"))
	if len(pids) != 1 {
		t.Fatalf("processes %v", pids)
	}
	group, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pids[0]))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(group), "/reprise-") {
		t.Logf("a process cannot leave its cgroup here: %s", group)
	}
	return pids[0]
}

// TestCommandThatLeavesItsCgroup ends with its execution all the same.
func TestCommandThatLeavesItsCgroup(t *testing.T) {
	t.Parallel() // it waits most of the time
	h := newHost(t, execution.Options{RunsDir: t.TempDir(), DrainTimeout: 300 * time.Millisecond})
	request := func(command string) execution.Request {
		return execution.Request{Command: command, Isolation: "none"}
	}
	t.Run("cancel", func(t *testing.T) {
		x := start(t, h, request(leavesCgroup+"exec sleep 1000"))
		pid := hasLeft(t, h, x.ID)
		if err := h.Cancel(within(t), tenant, x.ID); err != nil {
			t.Fatal(err)
		}
		wantOutcome(t, finish(t, h, x.ID), execution.Cancelled, 0, "TERM")
		if alive(pid) {
			t.Error("it is left behind")
		}
	})
	t.Run("timeout", func(t *testing.T) {
		req := request(leavesCgroup + "trap '' TERM; while :; do sleep 0.01; done")
		req.Timeout, req.Grace = execution.Duration(time.Second), execution.Duration(100*time.Millisecond)
		x := start(t, h, req)
		pid := hasLeft(t, h, x.ID)
		wantOutcome(t, finish(t, h, x.ID), execution.TimedOut, 0, "KILL")
		if alive(pid) {
			t.Error("it is left behind")
		}
	})
	t.Run("child", func(t *testing.T) {
		const chatty = leavesCgroup + `rm "$1"; while :; do echo y; sleep 0.01; done`
		x := start(t, h, request(`up=$(mktemp); sh -c '`+chatty+`' sh "$up" &
			while [ -e "$up" ]; do sleep 0.01; done; exit 3`))
		pid := hasLeft(t, h, x.ID)
		x = finish(t, h, x.ID)
		wantOutcome(t, x, execution.Exited, 3, "")
		if !x.OutputTruncated || alive(pid) {
			t.Errorf("truncated %t, left behind %t", x.OutputTruncated, alive(pid))
		}
	})
}

// TestProcessesLeftByKilledSupervisor may be there if they can leave their cgroup.
func TestProcessesLeftByKilledSupervisor(t *testing.T) {
	h := newHost(t, execution.Options{RunsDir: t.TempDir()})
	for _, level := range []string{"none", "limits"} {
		x := start(t, h, execution.Request{
			Command: leavesCgroup + `exec env -i "PATH=$PATH" sleep 1000`, Isolation: level,
		})
		pid := hasLeft(t, h, x.ID)
		if err := syscall.Kill(parentOf(t, pid), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		x = finish(t, h, x.ID)
		wantOutcome(t, x, execution.Lost, -1, "")
		sealed := x.Isolation != nil && x.Isolation.Kill == "cgroup" && x.Isolation.Layers.Cgroups == "read_only"
		if x.ProcessesLeft == sealed {
			t.Errorf("%s: processes left %t, isolation %+v", level, x.ProcessesLeft, x.Isolation)
		}
		if !x.OutputTruncated {
			t.Errorf("%s: output that the supervisor had in memory is not told to be missing", level)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL) // it is the child of another process now
	}
}

// TestOrphansCountInCPUTime after their end, which the supervisor alone hears of.
func TestOrphansCountInCPUTime(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, scan := range []bool{false, true} {
		h := newHost(t, execution.Options{RunsDir: t.TempDir(), DisableCgroups: scan})
		x := finish(t, h, start(t, h, execution.Request{
			Command: `for i in 1 2 3 4 5 6 7 8 9 10; do
					: "$( (perl -e '1 while (times)[0] < 0.1' &) )" # waits for its output
				done; exec sleep 1000`,
			Limits:  execution.Limits{CPUTime: execution.Duration(500 * time.Millisecond)},
			Timeout: execution.Duration(patience / 4),
		}).ID)
		wantOutcome(t, x, execution.LimitExceeded, 0, "KILL")
		if x.Limit != "cpu_time" {
			t.Errorf("cgroups %t: limit %s", !scan, x.Limit)
		}
	}
}

// TestKilledProcessesAreNamed: what a command has left running is killed with it, and the end says what that was. Where
// somebody has ended the command, nothing is said: all of it was to end.
func TestKilledProcessesAreNamed(t *testing.T) {
	h := newHost(t, execution.Options{})
	const leaves = `sleep "$1" 1000 >/dev/null 2>&1 & while [ "$(cat /proc/$!/comm)" != sleep ]; do :; done; `
	request := func(then string) execution.Request {
		return execution.Request{Argv: []string{"sh", "-c", leaves + then, "sh", "1" + strings.Repeat("0", 200)}}
	}
	x := finish(t, h, start(t, h, request("exit 3")).ID)
	wantOutcome(t, x, execution.Exited, 3, "")
	if x.KilledProcesses != 1 || len(x.KilledCommands) != 1 || !strings.HasPrefix(x.KilledCommands[0], "sleep 1000") ||
		len(x.KilledCommands[0]) > 110 {
		t.Errorf("%d killed: %q", x.KilledProcesses, x.KilledCommands)
	}

	for _, level := range []string{"none", "limits", "landlock", "bubblewrap"} {
		x = finish(t, h, start(t, h, execution.Request{Command: "seq 1 9 | cat >/dev/null", Isolation: level}).ID)
		wantOutcome(t, x, execution.Exited, 0, "")
		if x.KilledProcesses != 0 || x.KilledCommands != nil {
			t.Errorf("%s: nothing was left: %d, %q", level, x.KilledProcesses, x.KilledCommands)
		}
	}

	held := start(t, h, request("echo up; wait"))
	await(t, h, held.ID, "up")
	if err := h.Cancel(within(t), tenant, held.ID); err != nil {
		t.Fatal(err)
	}
	if x = finish(t, h, held.ID); x.KilledProcesses != 0 {
		t.Errorf("cancelled: %d, %q", x.KilledProcesses, x.KilledCommands)
	}
}
