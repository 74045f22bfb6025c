package execution_test

import (
	"os"
	"os/exec"
	"testing"

	"reprise/internal/execution"
)

// TestCommandsHeedSignalsThatTheServerIgnores: a server that was started by nohup, or in the background of a script,
// ignores signals that its commands do not.
func TestCommandsHeedSignalsThatTheServerIgnores(t *testing.T) {
	const ignoring = "EXECUTION_TEST_IGNORES"
	if os.Getenv(ignoring) == "" {
		cmd := exec.Command("sh", "-c", `trap '' INT HUP; exec "$0" "$@"`, os.Args[0],
			"-test.v", "-test.run=^TestCommandsHeedSignalsThatTheServerIgnores$")
		cmd.Env = append(os.Environ(), ignoring+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	trees(t, func(t *testing.T, opts execution.Options) {
		h := newHost(t, opts)
		for _, signal := range []string{"INT", "HUP"} {
			x := start(t, h, execution.Request{Command: "echo up; exec sleep 100"})
			await(t, h, x.ID, "up")
			if err := h.Signal(within(t), tenant, x.ID, signal); err != nil {
				t.Fatal(err)
			}
			wantOutcome(t, finish(t, h, x.ID), execution.Signaled, 0, signal)
		}
	})
}
