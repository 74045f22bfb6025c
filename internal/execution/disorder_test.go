package execution_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"reprise"
	"reprise/internal/execution"
)

// TestDisorderEndsEachCommandOnce starts many commands of all kinds and does things to them at any moment. Each must
// come to exactly one end, and nothing may be left.
func TestDisorderEndsEachCommandOnce(t *testing.T) {
	trees(t, func(t *testing.T, opts execution.Options) {
		opts.MaxRunning = 8
		opts.Grace, opts.DrainTimeout = 1, 1
		h := newHost(t, opts)
		commands := []execution.Request{
			{Command: "true"},
			{Command: "seq 1 20000; exit 2"},
			{Command: "cat", StdinOpen: true},
			{Command: "trap '' TERM; while :; do sleep 0.01; done", Timeout: 1e8},
			{Command: "setsid sleep 100 & echo started"},
			{Command: "yes", Limits: execution.Limits{OutputBytes: 100_000}},
			{Command: "cat; exit 3", TTY: &execution.TTY{}},
			{Argv: []string{"/no/such/program"}},
		}
		seed := uint64(1)
		if soaking {
			seed = rand.Uint64()
		}
		t.Logf("seed %d", seed)
		var all sync.WaitGroup
		for worker := range 16 {
			rnd := rand.New(rand.NewPCG(seed, uint64(worker)))
			all.Go(func() {
				for i := range 12 {
					req := commands[rnd.IntN(len(commands))]
					req.ID = fmt.Sprintf("%d-%d", worker, i)
					if _, _, err := h.Start(t.Context(), tenant, req); err != nil {
						t.Error(err)
						return
					}
					disturb(t, h, rnd, req)
				}
			})
		}
		all.Wait()
		until(t, "nothing runs", func() bool { return h.Counts() == execution.Counts{} })
		page, err := h.List(within(t), tenant, execution.ListQuery{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range page.Executions {
			finish(t, h, x.ID) // what runs no more may have an end that is just being kept
		}
	})
}

// disturb does something to an execution, and in the end makes sure that it ends.
func disturb(t *testing.T, h *execution.Host, rnd *rand.Rand, req execution.Request) {
	ctx, id := t.Context(), req.ID
	for range rnd.IntN(5) {
		switch rnd.IntN(7) {
		case 0:
			_ = h.Cancel(ctx, tenant, id)
		case 1:
			_ = h.Signal(ctx, tenant, id, []string{"INT", "KILL", "STOP", "CONT"}[rnd.IntN(4)])
		case 2:
			_, _ = h.WriteStdin(ctx, tenant, id,
				execution.StdinWrite{Offset: -1, Data: strings.NewReader("some\nlines\n"), EOF: rnd.IntN(2) == 0})
		case 3:
			_, _, _ = h.Start(ctx, tenant, req)
		case 4:
			_, _ = h.Show(ctx, tenant, id)
		case 5:
			if rnd.IntN(4) == 0 {
				_ = h.Remove(ctx, tenant, id)
			}
		case 6:
			if s, err := h.Stream(ctx, tenant, id); err == nil {
				if r, err := s.Reader(ctx, reprise.Earliest()); err == nil {
					_, _ = r.Poll(ctx)
					_ = r.Close()
				}
			}
		}
	}
	_ = h.Cancel(ctx, tenant, id)
}
