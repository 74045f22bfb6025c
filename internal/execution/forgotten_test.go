package execution_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/shared"
	"reprise/replica"
	"reprise/store/memstore"
)

// TestUnacknowledgedExecutionEndsByItself: an execution whose creation was stored but reported as failed ends by itself
// if its client does not try again.
func TestUnacknowledgedExecutionEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := shared.New(&lostCreate{Store: memstore.New(nil)}).Store()
		log := newLog(t, store, nil)
		member, err := replica.Join(t.Context(), log, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer member.Close()
		h, err := execution.Open(t.Context(), log, &execution.Options{Replica: member, DisableCgroups: true, Dir: "/"})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		if _, _, err := h.Start(t.Context(), tenant, execution.Request{
			ID:      "x",
			Command: "true",
		}); !errors.Is(err, reprise.ErrUnavailable) {
			t.Fatal(err)
		}
		x, err := h.Show(t.Context(), tenant, "x")
		if err != nil || x.Status == execution.StatusEnded {
			t.Fatalf("at first it is %s, %v", x.Status, err)
		}
		time.Sleep(6 * time.Minute)
		if x, err = h.Show(t.Context(), tenant, "x"); err != nil {
			t.Fatal(err)
		}
		wantOutcome(t, x, execution.Lost, -1, "")
	})
}
