package mcptask_test

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/internal/shared"
	"reprise/mcp/mcptask"
	"reprise/replica"
	"reprise/store/memstore"
	"reprise/store/sqlitestore"
)

func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	open := func() (*sqlitestore.Store, *fixture) {
		store, err := sqlitestore.Open(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return store, newFixtureOn(t, newLog(t, store), nil)
	}
	store, w := open()
	done, running := w.task("slow_compute", `{"label":"kept"}`), w.task("slow_compute", `{"seconds":60}`)
	w.until(done, mcptask.Completed)
	w.close()
	w.log.Close()
	store.Close()

	store, w = open()
	defer func() { w.close(); w.log.Close(); store.Close() }()
	if a := w.get(done); a.Result.Status != mcptask.Completed || a.Result.Result.Content[0]["text"] != "computed kept" {
		t.Errorf("what had ended: %+v", a)
	}
	a := w.until(running, mcptask.Failed)
	if !strings.Contains(string(a.Result.Error.Data), "server_lost") {
		t.Errorf("what was running: %+v", a.Result.Error)
	}
}

// TestServerDies: the process goes without a word. What is left of it does no harm.
func TestServerDies(t *testing.T) {
	store := memstore.New(nil)
	log := newLog(t, store)
	defer log.Close()
	dead := newFixtureOn(t, log, nil)
	defer dead.close()
	id := dead.task("slow_compute", `{"seconds":60}`)
	asking := dead.task("confirm_delete", `{}`)
	dead.until(asking, mcptask.InputRequired)

	var lost atomic.Int64
	w := newFixtureOn(t, log, &mcptask.Options{Hooks: &mcptask.Hooks{Lost: func(reprise.Tenant) { lost.Add(1) }}})
	defer w.close()
	w.until(id, mcptask.Failed)
	if a := w.until(asking, mcptask.Failed); a.Result.InputRequests != nil {
		t.Errorf("it asks still: %+v", a)
	}
	if lost.Load() != 2 {
		t.Errorf("%d are lost, want 2", lost.Load())
	}
}

func TestReplicas(t *testing.T) {
	hub := shared.New(memstore.New(nil))
	join := func() (*fixture, *replica.Member) {
		log := newLog(t, hub.Store())
		member, err := replica.Join(t.Context(), log,
			&replica.Options{Beat: 50 * time.Millisecond, TTL: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return newFixtureOn(t, log, &mcptask.Options{Replica: member}), member
	}
	a, inA := join()
	b, inB := join()
	// Started on one, seen, answered and cancelled on the other.
	id := a.task("confirm_delete", `{}`)
	b.until(id, mcptask.InputRequired)
	b.update(id, `{"confirm":{"action":"accept"}}`)
	b.until(id, mcptask.Completed)
	id = a.task("slow_compute", `{"seconds":60}`)
	ctx, stop := context.WithCancel(t.Context())
	heard := b.listen(ctx, "", `{"taskIds":["`+id+`"]}`, withTasks)
	next(t, heard)
	b.send("", "tasks/cancel", `{"taskId":"`+id+`"}`, withTasks)
	for next(t, heard).Params.Status != mcptask.Cancelled {
	}
	stop()
	// One dies.
	id = a.task("slow_compute", `{"seconds":60}`)
	inA.Close()
	b.until(id, mcptask.Failed)
	for _, w := range []*fixture{a, b} {
		w.close()
	}
	inB.Close()
	a.log.Close()
	b.log.Close()
	http.DefaultClient.CloseIdleConnections()
}
