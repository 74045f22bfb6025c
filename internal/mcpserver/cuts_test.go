package mcpserver_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/mcpserver"
)

// runOf returns the id and the state of the only execution of a session.
func (w *fixture) runOf(session string) execution.Execution {
	w.t.Helper()
	page, err := w.host.List(w.t.Context(), reprise.DefaultTenant, execution.ListQuery{Session: session, Limit: 10})
	if err != nil || len(page.Executions) != 1 {
		w.t.Fatalf("%+v, %v", page, err)
	}
	return page.Executions[0]
}

// TestCallThatWasCutOffIsNamed: the next answer to the sender, and to no other, says which run a call has left behind.
func TestCallThatWasCutOffIsNamed(t *testing.T) {
	w := newFixture(t, nil)
	c, other := w.caller("2026-07-28", ""), w.caller("2026-07-28", "bob")
	g := newGate(t)
	c.cutOff(args{"command": g.wait(), "session": "s"})
	run := w.runOf("s")
	until(t, "it is cancelled", func() bool { return w.runOf("s").Outcome != "" })
	if text := other.call("list_executions", nil, nil); strings.Contains(text, run.ID) {
		t.Errorf("another is told: %s", text)
	}
	text := c.call("execute_code", args{"command": "echo next"}, nil)
	if !strings.HasPrefix(text, "next\n") || !strings.Contains(text, "a call of execute_code was cut off") ||
		!strings.Contains(text, "its run "+run.ID+" has ended (cancelled)") {
		t.Errorf("told: %s", text)
	}
	text = c.call("get_execution_output", args{"execution_id": run.ID}, nil)
	if !strings.Contains(text, "[ended: cancelled") || strings.Contains(text, "cut off") {
		t.Errorf("told twice: %s", text)
	}
}

// TestRunStaysForSenderWhoComesBack within the grace, and otherwise is cancelled.
func TestRunStaysForSenderWhoComesBack(t *testing.T) {
	w := newFixture(t, &mcpserver.Options{CallGrace: time.Hour})
	c := w.caller("2026-07-28", "")
	g := newGate(t)
	c.cutOff(args{"command": g.wait() + "; echo done", "session": "s"})
	id := w.runOf("s").ID
	until(t, "it is told", func() bool {
		text := c.call("list_executions", nil, nil)
		return strings.Contains(text, "its run "+id+" still runs, and cancel_execution cancels it")
	})
	if n := w.server.CutsForTest(); n != 0 {
		t.Errorf("%d runs are still to be cancelled", n)
	}
	g.open(t)
	text := c.call("get_execution_output", args{"execution_id": id, "until": "end"}, nil)
	if !strings.Contains(text, "done\n") {
		t.Errorf("after the cut: %s", text)
	}
	if x := w.runOf("s"); x.Outcome == "" || x.Outcome != execution.Exited {
		t.Errorf("it was ended: %+v", x)
	}
}

// TestGraceIsOver, by its time or because the server stops.
func TestGraceIsOver(t *testing.T) {
	for _, grace := range []time.Duration{time.Millisecond, time.Hour} {
		t.Run(fmt.Sprint(grace), func(t *testing.T) {
			w := newFixture(t, &mcpserver.Options{CallGrace: grace})
			c := w.caller("2026-07-28", "")
			c.cutOff(args{"command": "sleep 600", "session": "s"})
			if grace == time.Hour {
				until(t, "the cut is known", func() bool { return w.server.CutsForTest() == 1 })
				w.server.Close()
			}
			until(t, "it is cancelled", func() bool {
				x := w.runOf("s")
				return x.Outcome != "" && x.Outcome == execution.Cancelled
			})
		})
	}
}

// TestCancelledCallHasNoGrace on a version with sessions, where the client says that it cancels.
func TestCancelledCallHasNoGrace(t *testing.T) {
	w := newFixture(t, &mcpserver.Options{CallGrace: time.Hour})
	c := w.caller("2025-11-25", "")
	c.cutOff(args{"command": "sleep 600", "session": "s"})
	until(t, "it is cancelled", func() bool { return w.runOf("s").Outcome != "" })
	if text := c.call("list_executions", nil, nil); strings.Contains(text, "cut off") {
		t.Errorf("told of a call that it has cancelled itself: %s", text)
	}
}
