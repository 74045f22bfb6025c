package execution_test

import (
	"testing"

	"reprise/internal/execution"
	"reprise/store/memstore"
)

// TestAdoptedRunsKeepTheirTurns: runs that supervisors have are running, also where a later server lets fewer run, and
// a start waits for all of them.
func TestAdoptedRunsKeepTheirTurns(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	opts := execution.Options{RunsDir: t.TempDir()}
	ids := []string{"a", "b"}
	leave(t, log, opts, func(h *execution.Host) {
		for _, id := range ids {
			start(t, h, execution.Request{ID: id, Command: "echo up; read -r x", StdinOpen: true})
			await(t, h, id, "up")
		}
	})
	opts.MaxRunning = 1
	h := openHost(t, log, opts)
	start(t, h, execution.Request{ID: "later", Command: "true"})
	if got, want := h.Counts(), (execution.Counts{Running: 2, Queued: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, id := range ids {
		if x, err := h.Show(within(t), tenant, id); err != nil || x.Status != execution.StatusRunning {
			t.Errorf("%s is %s, %v", id, x.Status, err)
		}
		if err := h.Cancel(within(t), tenant, id); err != nil {
			t.Error(err)
		}
	}
	wantOutcome(t, finish(t, h, "later"), execution.Exited, 0, "")
}
