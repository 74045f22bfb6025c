package execution_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reprise/internal/execution"
	"reprise/internal/headless"
)

// headlessRequest asks for a process whose first thread has ended. Its number is in its output.
func headlessRequest(t *testing.T, mode string) execution.Request {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return execution.Request{Argv: []string{program}, Env: map[string]string{headless.Env: mode}}
}

// TestCommandWhoseFirstThreadHasEnded is no zombie: it can be cancelled, and is measured.
func TestCommandWhoseFirstThreadHasEnded(t *testing.T) {
	t.Parallel() // it waits most of the time
	trees(t, func(t *testing.T, opts execution.Options) {
		t.Parallel()
		h := newHost(t, opts)
		cancelled := headlessRequest(t, headless.Quiet)
		x := start(t, h, cancelled)
		await(t, h, x.ID, "child")
		if err := h.Cancel(within(t), tenant, x.ID); err != nil {
			t.Fatal(err)
		}
		wantOutcome(t, finish(t, h, x.ID), execution.Cancelled, 0, "TERM")

		slow := headlessRequest(t, headless.Loud)
		slow.Timeout = execution.Duration(500 * time.Millisecond)
		wantOutcome(t, finish(t, h, start(t, h, slow).ID), execution.TimedOut, 0, "TERM")

		big := headlessRequest(t, headless.Quiet)
		big.Limits.MemoryBytes = 1 << 20
		x = finish(t, h, start(t, h, big).ID)
		if x.Outcome != execution.LimitExceeded || x.Limit != "memory_bytes" || x.ProcessesLeft {
			t.Errorf("with a limit: %s %q, %+v", x.Outcome, x.Limit, x)
		}
	})
}

// TestChildWhoseFirstThreadHasEnded outlives its parent, in a session of its own, and not the execution.
func TestChildWhoseFirstThreadHasEnded(t *testing.T) {
	t.Parallel() // it waits most of the time
	trees(t, func(t *testing.T, opts execution.Options) {
		t.Parallel()
		opts.DrainTimeout = time.Second
		h := newHost(t, opts)
		for _, mode := range []string{headless.Quiet, headless.Loud, "silent"} {
			up := filepath.Join(t.TempDir(), "up")
			to := `>"$1" 2>&1` // it holds no pipe
			if mode != "silent" {
				to = `| tee "$1"` // it holds that of tee, which holds ours
			}
			req := headlessRequest(t, mode)
			req.Argv = []string{
				"sh", "-c", `(setsid "$0" ` + to + ` &); until grep -qs child "$1"; do sleep 0.01; done; exit 3`,
				req.Argv[0], up,
			}
			x := finish(t, h, start(t, h, req).ID)
			wantOutcome(t, x, execution.Exited, 3, "")
			if x.OutputTruncated != (mode != "silent") || x.ProcessesLeft {
				t.Errorf("%s: truncated %t, processes left %t", mode, x.OutputTruncated, x.ProcessesLeft)
			}
			text, err := os.ReadFile(up)
			if pids := children(string(text)); err != nil || len(pids) != 1 || alive(pids[0]) {
				t.Errorf("%s: left behind: %v, %v of %q", mode, pids, err, strings.TrimSpace(string(text)))
			}
		}
	})
}
