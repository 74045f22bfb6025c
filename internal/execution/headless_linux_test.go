package execution_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"reprise/internal/execution"
)

// envHeadless makes this program one whose first thread has ended: "quiet", or "loud" if it prints without end.
const envHeadless = "REPRISE_TEST_HEADLESS"

func init() { // here the goroutine is on the first thread
	mode := os.Getenv(envHeadless)
	if mode == "" {
		return
	}
	runtime.LockOSThread()
	go func() {
		pause := time.NewTicker(time.Millisecond)
		for first := fmt.Sprintf("/proc/self/task/%d/stat", os.Getpid()); ; <-pause.C {
			if stat, err := os.ReadFile(first); err == nil && bytes.Contains(stat, []byte(") Z ")) {
				break
			}
		}
		fmt.Printf("child %d\n", os.Getpid())
		for range pause.C {
			if mode == "loud" {
				fmt.Println("still here")
			}
		}
	}()
	_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0) // ends the thread alone
}

// headless is a request of such a process. Its number is in its output.
func headless(t *testing.T, mode string) execution.Request {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return execution.Request{Argv: []string{program}, Env: map[string]string{envHeadless: mode}}
}

// TestCommandWhoseFirstThreadHasEnded is no zombie: it can be cancelled, and is measured.
func TestCommandWhoseFirstThreadHasEnded(t *testing.T) {
	trees(t, func(t *testing.T, opts execution.Options) {
		h := newHost(t, opts)
		cancelled := headless(t, "quiet")
		x := start(t, h, cancelled)
		await(t, h, x.ID, "child")
		if err := h.Cancel(within(t), tenant, x.ID); err != nil {
			t.Fatal(err)
		}
		wantOutcome(t, finish(t, h, x.ID), execution.Cancelled, 0, "TERM")

		slow := headless(t, "loud")
		slow.Timeout = execution.Duration(500 * time.Millisecond)
		wantOutcome(t, finish(t, h, start(t, h, slow).ID), execution.TimedOut, 0, "TERM")

		big := headless(t, "quiet")
		big.Limits.MemoryBytes = 1 << 20
		x = finish(t, h, start(t, h, big).ID)
		if *x.Outcome != execution.LimitExceeded || x.Limit != "memory_bytes" || x.ProcessesLeft {
			t.Errorf("with a limit: %s %q, %+v", *x.Outcome, x.Limit, x)
		}
	})
}

// TestChildWhoseFirstThreadHasEnded outlives its parent, in a session of its own, and not the execution.
func TestChildWhoseFirstThreadHasEnded(t *testing.T) {
	trees(t, func(t *testing.T, opts execution.Options) {
		opts.DrainTimeout = 300 * time.Millisecond
		h := newHost(t, opts)
		for _, mode := range []string{"quiet", "loud", "silent"} {
			up := filepath.Join(t.TempDir(), "up")
			to := `>"$1" 2>&1` // it holds no pipe
			if mode != "silent" {
				to = `| tee "$1"` // it holds that of tee, which holds ours
			}
			req := headless(t, mode)
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
