package execution_test

import (
	"testing"
	"time"

	"reprise/internal/execution"
	"reprise/internal/isolation"
)

// TestCommandWithProcessTable: a command with a process table of its own is signalled, measured and ended like any
// other, and the first process of the table is none of its processes.
func TestCommandWithProcessTable(t *testing.T) {
	given(t, isolation.Bubblewrap)
	trees(t, func(t *testing.T, opts execution.Options) {
		t.Parallel() // it waits most of the time
		h := newHost(t, opts)
		run := func(command string, limits execution.Limits) execution.Request {
			return execution.Request{Command: command, Isolation: "bubblewrap", Limits: limits}
		}
		x := finish(t, h, start(t, h, run("kill -HUP $$", execution.Limits{})).ID)
		wantOutcome(t, x, execution.Signaled, 0, "HUP")

		x = finish(t, h, start(t, h, run("setsid sleep 1000 & exit 3", execution.Limits{})).ID)
		wantOutcome(t, x, execution.Exited, 3, "")

		// Two processes, while the tree is measured.
		x = finish(t, h, start(t, h, run("sleep 0.4 & wait", execution.Limits{Processes: 2})).ID)
		wantOutcome(t, x, execution.Exited, 0, "")
		x = finish(t, h, start(t, h, run("sleep 100 & sleep 100 & wait", execution.Limits{Processes: 2})).ID)
		wantOutcome(t, x, execution.LimitExceeded, 0, "KILL")

		id := start(t, h, run("trap 'exit 5' INT; echo up; while :; do sleep 0.01; done", execution.Limits{})).ID
		await(t, h, id, "up")
		if err := h.Signal(within(t), tenant, id, "INT"); err != nil {
			t.Fatal(err)
		}
		wantOutcome(t, finish(t, h, id), execution.Exited, 5, "")

		id = start(t, h, run("setsid sleep 1000 & echo up; wait", execution.Limits{})).ID
		await(t, h, id, "up")
		if err := h.Cancel(within(t), tenant, id); err != nil {
			t.Fatal(err)
		}
		x = finish(t, h, id)
		wantOutcome(t, x, execution.Cancelled, 0, "TERM")

		if x.Isolation.Kill == "scan" {
			return // the time of processes that have ended is not known
		}
		const orphans = `spin() { i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; }
			for n in $(seq 40); do (spin &); sleep 0.03; done`
		x = finish(t, h, start(t, h, run(orphans, execution.Limits{CPUTime: execution.Duration(time.Second)})).ID)
		wantOutcome(t, x, execution.LimitExceeded, 0, "KILL")
	})
}
