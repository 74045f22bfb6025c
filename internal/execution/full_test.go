package execution_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/store/memstore"
	"reprise/store/sqlitestore"
)

// fullBound is what the logs of these tests keep.
const fullBound = 2 << 20

// fullLog is a Log with fullBound, most of which is kept by an open stream.
func fullLog(t *testing.T, store reprise.Store) (log *reprise.Log, open *reprise.Stream) {
	t.Helper()
	log = newLog(t, store, &reprise.Options{MaxTotalBytes: fullBound})
	open, _, err := log.Create(t.Context(), reprise.StreamKey{Tenant: tenant, Name: "open"}, reprise.StreamConfig{})
	for range 2 { // each can be trimmed
		if err == nil {
			_, err = open.Append(t.Context(), reprise.Event{Data: make([]byte, 900<<10)})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return log, open
}

// awaitFull waits until the output of an execution waits for room.
func awaitFull(t *testing.T, h *execution.Host, id string) {
	t.Helper()
	until(t, "the output waits for room", func() bool {
		x, err := h.Show(within(t), tenant, id)
		if err == nil && x.Status == execution.StatusEnded {
			t.Fatalf("it has ended: %+v", x)
		}
		return err == nil && x.Waiting == execution.WaitingStorage && !x.WaitingSince.IsZero()
	})
}

// printsMuch prints 4 MB, which do not fit.
const printsMuch = "seq 1 600000"

// TestOldRunsMakeRoom: as many runs end as are started, however little is kept.
func TestOldRunsMakeRoom(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) reprise.Store{
		"memory": func(*testing.T) reprise.Store { return memstore.New(nil) },
		"sqlite": func(t *testing.T) reprise.Store {
			store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "s.db"), nil)
			if err != nil {
				t.Fatal(err)
			}
			return store
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := newLog(t, open(t), &reprise.Options{MaxTotalBytes: fullBound})
			h := openHost(t, log, execution.Options{RunsDir: t.TempDir()})
			for i := range 12 {
				x := finish(t, h, start(t, h, execution.Request{
					ID: fmt.Sprint("r", i), Command: "head -c 500000 /dev/zero",
				}).ID)
				wantOutcome(t, x, execution.Exited, 0, "")
				if n := len(output(t, h, x.ID, execution.Stdout)); n != 500_000 {
					t.Errorf("%d bytes of output", n)
				}
			}
			if bytes := log.Usage().Bytes; bytes > fullBound {
				t.Errorf("%d bytes are kept", bytes)
			}
		})
	}
}

// TestFullStoreHoldsCommandUp: a command whose output has no room waits, is shown to wait, and loses nothing.
func TestFullStoreHoldsCommandUp(t *testing.T) {
	trees(t, func(t *testing.T, opts execution.Options) {
		log, open := fullLog(t, memstore.New(nil))
		var logged bytes.Buffer
		opts.Logger = slog.New(slog.NewTextHandler(&logged, nil))
		h := openHost(t, log, opts)
		id := start(t, h, execution.Request{Command: "seq 1 150000"}).ID // 1 MB
		awaitFull(t, h, id)
		if n := h.WaitingForStorage(); n != 1 {
			t.Errorf("%d executions wait for storage", n)
		}
		if err := open.Trim(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		x := finish(t, h, id)
		wantOutcome(t, x, execution.Exited, 0, "")
		lines := bytes.Count(output(t, h, id, execution.Stdout), []byte("\n"))
		if lines != 150_000 || x.OutputTruncated {
			t.Errorf("%d lines, truncated %t", lines, x.OutputTruncated)
		}
		if x.Waiting != "" || !x.WaitingSince.IsZero() || h.WaitingForStorage() != 0 {
			t.Errorf("after the end: %+v", x)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(logged.String(), "commands wait until there is room"); n != 1 {
			t.Errorf("%d warnings: %s", n, logged.String())
		}
	})
}

// TestFullStoreDoesNotKeepRunsAlive: cancel, a timeout, a limit, a removal and the stop of the Host end a command whose
// output has no room, and its end is kept.
func TestFullStoreDoesNotKeepRunsAlive(t *testing.T) {
	const second = execution.Duration(time.Second)
	for name, c := range map[string]struct {
		req     execution.Request
		by      func(t *testing.T, h *execution.Host, id string)
		outcome execution.Outcome
	}{
		"cancel": {
			req: execution.Request{Command: printsMuch + "; sleep 1000"}, outcome: execution.Cancelled,
			by: func(t *testing.T, h *execution.Host, id string) {
				if err := h.Cancel(within(t), tenant, id); err != nil {
					t.Error(err)
				}
			},
		},
		"timeout": {
			req: execution.Request{Command: printsMuch + "; sleep 1000", Timeout: second}, outcome: execution.TimedOut,
		},
		"limit": {
			req: execution.Request{
				Command: printsMuch + "; sleep 1000", Limits: execution.Limits{OutputBytes: 1_000_000},
			}, outcome: execution.LimitExceeded,
		},
		"stop": {
			req: execution.Request{Command: printsMuch + "; sleep 1000"}, outcome: execution.Cancelled,
			by: func(t *testing.T, h *execution.Host, _ string) {
				if err := h.Close(); err != nil {
					t.Error(err)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			trees(t, func(t *testing.T, opts execution.Options) {
				log, _ := fullLog(t, memstore.New(nil))
				opts.DrainTimeout = time.Second
				h := openHost(t, log, opts)
				id := start(t, h, c.req).ID
				if c.by != nil {
					awaitFull(t, h, id)
					c.by(t, h, id)
				}
				x := finish(t, h, id)
				if x.Outcome != c.outcome || !x.OutputTruncated || x.Error == "" {
					t.Errorf("%s, truncated %t, %q", x.Outcome, x.OutputTruncated, x.Error)
				}
			})
		})
	}
}

// TestExecutionIsRemovedFromFullStore: while it waits for room.
func TestExecutionIsRemovedFromFullStore(t *testing.T) {
	trees(t, func(t *testing.T, opts execution.Options) {
		log, _ := fullLog(t, memstore.New(nil))
		h := openHost(t, log, opts)
		id := start(t, h, execution.Request{Command: printsMuch + "; sleep 1000"}).ID
		awaitFull(t, h, id)
		if err := h.Remove(within(t), tenant, id); err != nil {
			t.Fatal(err)
		}
		if c := h.Counts(); c != (execution.Counts{}) {
			t.Errorf("after the removal there are %+v", c)
		}
	})
}

// TestFullSpoolOfFullStoreEndsByTimeout: the supervisor has no room either, so that its news of the end never come.
func TestFullSpoolOfFullStoreEndsByTimeout(t *testing.T) {
	log, _ := fullLog(t, memstore.New(nil))
	h := openHost(t, log, execution.Options{RunsDir: t.TempDir(), SpoolBytes: 1 << 20})
	x := finish(t, h, start(t, h, execution.Request{Command: "yes", Timeout: execution.Duration(time.Second)}).ID)
	if x.Outcome != execution.TimedOut || !x.OutputTruncated {
		t.Errorf("%s, truncated %t, %q", x.Outcome, x.OutputTruncated, x.Error)
	}
}

// TestFullStoreOutlivesServer: a command that waits for room goes on waiting under the next server, and gets there what
// it waits for or is ended. Each has a store of its own, since an ended command makes room for one that waits.
func TestFullStoreOutlivesServer(t *testing.T) {
	t.Run("room", func(t *testing.T) {
		h, open := waitsUnderNextServer(t, "seq 1 90000; exit 3") // 530 kB
		if err := open.Trim(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		x := finish(t, h, "waits")
		wantOutcome(t, x, execution.Exited, 3, "")
		lines := bytes.Count(output(t, h, "waits", execution.Stdout), []byte("\n"))
		if lines != 90_000 || x.OutputTruncated {
			t.Errorf("%d lines, truncated %t", lines, x.OutputTruncated)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		h, _ := waitsUnderNextServer(t, printsMuch)
		if err := h.Cancel(context.WithoutCancel(t.Context()), tenant, "waits"); err != nil {
			t.Fatal(err)
		}
		if x := finish(t, h, "waits"); !x.OutputTruncated {
			t.Errorf("%+v", x)
		}
	})
}

// waitsUnderNextServer starts a command whose output does not fit and returns the Host that has taken it over, and the
// stream that takes up the store.
func waitsUnderNextServer(t *testing.T, command string) (*execution.Host, *reprise.Stream) {
	t.Helper()
	log, open := fullLog(t, memstore.New(nil))
	opts := execution.Options{RunsDir: t.TempDir(), Dir: t.TempDir()}
	h := openHost(t, log, opts)
	start(t, h, execution.Request{ID: "waits", Command: command})
	awaitFull(t, h, "waits")
	if left, err := h.Leave(); err != nil || left != 1 {
		t.Fatalf("%d runs are left, %v", left, err)
	}
	h = openHost(t, log, opts)
	awaitFull(t, h, "waits")
	return h, open
}
