package execution_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/store/memstore"
)

// commits records how many events each commit has.
type commits struct {
	mu     sync.Mutex
	events []int
}

func (c *commits) hooks() *reprise.Hooks {
	return &reprise.Hooks{Committed: func(info reprise.CommitInfo) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.events = append(c.events, info.Events)
	}}
}

// with returns the number of commits that have so many events.
func (c *commits) with(events int) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, had := range c.events {
		if had == events {
			n++
		}
	}
	return n
}

// all returns the number of events of all commits.
func (c *commits) all() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, had := range c.events {
		n += had
	}
	return n
}

// TestShortCommandIsOneCommit: the events of a command that prints nothing and ends at once are appended together.
// Events that are not may share a commit by chance, but those of most commands do not.
func TestShortCommandIsOneCommit(t *testing.T) {
	var seen commits
	log := newLog(t, memstore.New(nil), &reprise.Options{Hooks: seen.hooks()})
	h, err := execution.Open(t.Context(), log, &execution.Options{RunsDir: t.TempDir(), Remember: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	const enough = 30
	deadline := time.Now().Add(patience / 2)
	n, quick, together := 0, 0, 0
	for quick < enough && time.Now().Before(deadline) {
		n++
		before := seen.with(2)
		x := finish(t, h, start(t, h, execution.Request{Argv: []string{"true"}}).ID)
		wantOutcome(t, x, execution.Exited, 0, "")
		until(t, "both events are committed", func() bool { return seen.all() == 2*n })
		if *x.DurationMS <= 1 { // on a busy machine many take longer than their start is held back
			quick++
			together += seen.with(2) - before
		}
	}
	if together*2 <= quick {
		t.Fatalf("%d of %d commands were quick, and %d of them had their events in one commit", quick, n, together)
	}
}

// endAway runs a command that ends while there is no server, and returns it once the next server has ended it. So that
// server hears of the last output and of the end at once.
func endAway(t *testing.T, log *reprise.Log, last string) execution.Execution {
	t.Helper()
	dir := t.TempDir()
	opts := execution.Options{RunsDir: t.TempDir(), Dir: dir}
	leave(t, log, opts, func(h *execution.Host) {
		start(t, h, execution.Request{
			ID: "x", Command: "echo one; while [ ! -e go ]; do sleep 0.01; done; " + last + "; exit 3",
		})
		await(t, h, "x", "one")
	})
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "the end is on disk", func() bool {
		ends, _ := filepath.Glob(filepath.Join(opts.RunsDir, "*", "end.json"))
		return len(ends) == 1
	})
	h, err := execution.Open(t.Context(), log, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	x := finish(t, h, "x")
	wantOutcome(t, x, execution.Exited, 3, "")
	return x
}

// TestLastOutputIsAppendedWithEnd: the last output and the end are one commit, and the end counts that output.
func TestLastOutputIsAppendedWithEnd(t *testing.T) {
	var seen commits
	log := newLog(t, memstore.New(nil), &reprise.Options{Hooks: seen.hooks()})
	x := endAway(t, log, "echo two; echo three >&2")
	if x.Bytes != (execution.Bytes{Stdout: 8, Stderr: 6}) || x.OutputTruncated {
		t.Errorf("%+v are counted, truncated: %t", x.Bytes, x.OutputTruncated)
	}
	until(t, "two chunks and the end are one commit", func() bool { return seen.with(3) == 1 })
}

// TestRefusedLastOutputLosesNoEnd: output that the stream does not accept does not take the end along.
func TestRefusedLastOutputLosesNoEnd(t *testing.T) {
	log := newLog(t, memstore.New(nil), &reprise.Options{MaxEventBytes: 1000})
	x := endAway(t, log, "head -c 2000 /dev/zero")
	if x.Bytes != (execution.Bytes{Stdout: 4}) || !x.OutputTruncated {
		t.Errorf("%+v are counted, truncated: %t", x.Bytes, x.OutputTruncated)
	}
}
