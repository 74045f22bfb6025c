package mcpserver_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/shared"
	"reprise/store/memstore"
)

// failover is a server on a store of which a promotion can lose the newest events.
type failover struct {
	*fixture
	hub *shared.Hub
}

func newFailover(t *testing.T) *failover {
	t.Helper()
	hub := shared.New(memstore.New(nil))
	log, err := reprise.Open(t.Context(), hub.Store(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w := newFixtureOn(t, log, nil)
	t.Cleanup(func() { log.Close() })
	t.Cleanup(w.close)
	return &failover{w, hub}
}

// loseAfter waits until the stream of a run has more than keep events, and loses those.
func (f *failover) loseAfter(ctx context.Context, id string, keep uint64) error {
	key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "execution:" + id}
	for ; ; time.Sleep(10 * time.Millisecond) {
		stream, err := f.log.Stream(ctx, key)
		if err != nil {
			return err
		}
		if info, err := stream.Info(ctx); err != nil || info.Tail > keep {
			time.Sleep(100 * time.Millisecond) // so that whoever follows has got them
			return f.hub.Lose(ctx, key, keep)
		}
	}
}

// TestOutputAfterFork: a cursor beyond the fork is told how many events before it were lost, and reads on from the
// fork.
func TestOutputAfterFork(t *testing.T) {
	f := newFailover(t)
	c := f.caller("2025-11-25", "")
	var run executed
	c.call("execute_code", args{"command": "echo old"}, &run)
	if err := f.loseAfter(t.Context(), run.ID, 0); err != nil {
		t.Fatal(err)
	}
	var page read
	text := c.call("get_execution_output", args{"execution_id": run.ID, "cursor": run.Cursor}, &page)
	if tr := page.Truncated; tr == nil || tr.TakenBack != 3 || tr.Missed != 0 || len(page.Events) != 0 ||
		!strings.HasPrefix(page.Cursor, "0.") {
		t.Errorf("%+v, truncated %+v", page, tr)
	}
	if !strings.Contains(text, "has lost the last 3 events") {
		t.Errorf("the text is %q", text)
	}
}

// TestExecuteShowsNoOutputThatWasTakenBack: output that a promotion lost in mid-run is not in the result.
func TestExecuteShowsNoOutputThatWasTakenBack(t *testing.T) {
	f := newFailover(t)
	c, g := f.caller("2025-11-25", ""), newGate(t)
	lost := make(chan error, 1)
	go func() {
		for {
			page, err := f.log.List(
				t.Context(),
				reprise.ListQuery{Tenant: reprise.DefaultTenant, Namespace: "execution:", Limit: 1},
			)
			if err == nil && len(page.Streams) == 0 {
				time.Sleep(10 * time.Millisecond)
				continue
			}
			if err == nil {
				err = f.loseAfter(t.Context(), strings.TrimPrefix(page.Streams[0].Key.Name, "execution:"), 1)
			}
			g.open(t)
			lost <- err
			return
		}
	}()
	var run executed
	c.call("execute_code", args{"command": "printf old; " + g.wait() + "; printf new"}, &run)
	if err := <-lost; err != nil {
		t.Fatal(err)
	}
	if run.Stdout.Text != "new" {
		t.Errorf("the output is %q, want what is kept of it", run.Stdout.Text)
	}
}
