package execution_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"reprise/internal/execution"
)

// TestCommandsHeedSignalsThatTheServerIgnores: a server that was started by nohup, or in the background of a script,
// ignores signals that its commands do not.
func TestCommandsHeedSignalsThatTheServerIgnores(t *testing.T) {
	t.Parallel() // it waits most of the time
	const ignoring = "EXECUTION_TEST_IGNORES"
	const heeds = execution.Duration(30 * time.Second) // is when a command that heeds no signal has failed
	if os.Getenv(ignoring) == "" {
		cmd := exec.Command("sh", "-c", `trap '' INT HUP; exec "$0" "$@"`, os.Args[0],
			"-test.v", "-test.failfast", "-test.run=^TestCommandsHeedSignalsThatTheServerIgnores$")
		cmd.Env = append(os.Environ(), ignoring+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	trees(t, func(t *testing.T, opts execution.Options) {
		t.Parallel()
		h := newHost(t, opts)
		for _, signal := range []string{"INT", "HUP"} {
			x := start(t, h, execution.Request{Command: "echo up; exec sleep 1000", Timeout: heeds})
			await(t, h, x.ID, "up")
			if err := h.Signal(within(t), tenant, x.ID, signal); err != nil {
				t.Fatal(err)
			}
			if wantOutcome(t, finish(t, h, x.ID), execution.Signaled, 0, signal); t.Failed() {
				return
			}
		}
	})
}
