package execution_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
)

func status(t *testing.T, h *execution.Host, id string) string {
	t.Helper()
	x, err := h.Show(within(t), tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	return x.Status
}

func TestQueueStartsInOrderAndHasABound(t *testing.T) {
	h := newHost(t, execution.Options{MaxRunning: 2, MaxQueued: 2})
	hold := execution.Request{Command: "read x", StdinOpen: true}
	a, b := start(t, h, hold), start(t, h, hold)
	c := start(t, h, execution.Request{ID: "c", Command: "true"})
	d := start(t, h, execution.Request{Command: "true"})
	if c.Status != execution.StatusQueued || d.Status != execution.StatusQueued {
		t.Errorf("c is %s, d is %s", c.Status, d.Status)
	}
	if got := h.Counts(); got != (execution.Counts{Running: 2, Queued: 2}) {
		t.Errorf("counts %+v", got)
	}
	if _, _, err := h.Start(within(t), tenant, execution.Request{Command: "true"}); !errors.Is(err, reprise.ErrQuota) {
		t.Errorf("one too many: %v", err)
	}
	if _, created, err := h.Start(within(t), tenant, execution.Request{ID: "c", Command: "true"}); created ||
		err != nil {
		t.Errorf("the same again while the queue is full: created %t, %v", created, err)
	}
	if err := h.Signal(within(t), tenant, c.ID, "INT"); !errors.Is(err, reprise.ErrConflict) {
		t.Errorf("signal to one that waits: %v", err)
	}
	if err := h.Cancel(within(t), tenant, d.ID); err != nil {
		t.Fatal(err)
	}
	x := finish(t, h, d.ID)
	wantOutcome(t, x, execution.Cancelled, -1, "")
	if !x.Started.IsZero() || status(t, h, c.ID) != execution.StatusQueued {
		t.Errorf("d started %v, c is %s", x.Started, status(t, h, c.ID))
	}
	for _, id := range []string{a.ID, b.ID} {
		if _, err := h.WriteStdin(within(t), tenant, id, execution.StdinWrite{EOF: true}); err != nil {
			t.Fatal(err)
		}
	}
	wantOutcome(t, finish(t, h, c.ID), execution.Exited, 0, "")
}

func TestQueueOfASession(t *testing.T) {
	h := newHost(t, execution.Options{MaxRunningPerSession: 1})
	hold := execution.Request{Command: "read x", StdinOpen: true, Session: "s"}
	first, second := start(t, h, hold), start(t, h, hold)
	hold.Session = "t"
	other := start(t, h, hold)
	hold.Session = ""
	one, two := start(t, h, hold), start(t, h, hold)
	want := map[string]string{
		first.ID: execution.StatusRunning, second.ID: execution.StatusQueued, other.ID: execution.StatusRunning,
		one.ID: execution.StatusRunning, two.ID: execution.StatusRunning,
	}
	for id, want := range want {
		if got := status(t, h, id); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if err := h.Cancel(within(t), tenant, first.ID); err != nil {
		t.Fatal(err)
	}
	until(t, "the second has its turn", func() bool { return status(t, h, second.ID) == execution.StatusRunning })
}

func TestKillOnDisconnect(t *testing.T) {
	t.Parallel() // it waits most of the time
	const grace = 3 * time.Second
	h := newHost(t, execution.Options{DisconnectGrace: grace})
	x := start(t, h, execution.Request{Command: "exec sleep 100", KillOnDisconnect: true})
	kept := start(t, h, execution.Request{Command: "exec sleep 100"})
	h.Follow(tenant, kept.ID)()
	one, two := h.Follow(tenant, x.ID), h.Follow(tenant, x.ID)
	one()
	one() // once is enough
	three := h.Follow(tenant, x.ID)
	two()
	three()
	four := h.Follow(tenant, x.ID) // back in time
	<-time.After(grace + grace/4)  // real processes, real time
	if got := status(t, h, x.ID); got != execution.StatusRunning {
		t.Errorf("%s while it was followed", got)
	}
	four()
	x = finish(t, h, x.ID)
	wantOutcome(t, x, execution.Cancelled, 0, "TERM")
	if x.Error == "" {
		t.Error("it does not say why")
	}
	if got := status(t, h, kept.ID); got != execution.StatusRunning {
		t.Errorf("the one that did not ask for it: %s", got)
	}
	h.Follow(tenant, x.ID)() // over: to no effect
}

// TestDrain: what was accepted runs, in its turn, and nothing else is taken; an interpreter that waits for code does
// not count.
func TestDrain(t *testing.T) {
	h := newHost(t, execution.Options{MaxRunning: 2})
	if _, _, err := interpreter.Open(within(t), h, anybody, interpreter.Request{Language: "bash"}); err != nil {
		t.Fatal(err)
	}
	running := start(t, h, execution.Request{Command: "read x", StdinOpen: true})
	queued := start(t, h, execution.Request{Command: "true"})
	brief, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Drain(brief); !errors.Is(err, context.Canceled) || !h.IsDraining() {
		t.Errorf("%v, draining %t", err, h.IsDraining())
	}
	_, _, err := h.Start(within(t), tenant, execution.Request{ID: "new", Command: "true"})
	if !errors.Is(err, reprise.ErrClosed) {
		t.Errorf("a new one: %v", err)
	}
	if _, err := h.Show(within(t), tenant, "new"); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("a refused start has left something: %v", err)
	}
	drained := make(chan error, 1)
	go func() { drained <- h.Drain(within(t)) }()
	if _, err := h.WriteStdin(within(t), tenant, running.ID, execution.StdinWrite{EOF: true}); err != nil {
		t.Fatal(err)
	}
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{running.ID, queued.ID} {
		if got := status(t, h, id); got != execution.StatusEnded {
			t.Errorf("%s is %s after the drain", id, got)
		}
	}
}
