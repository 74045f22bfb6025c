package execution_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reprise/internal/execution"
	"reprise/internal/shared"
	"reprise/replica"
	"reprise/store/memstore"
)

// TestFullDiskOfReplica: a replica whose commands have filled the disk while it was away comes back and takes them
// over, and nothing is missing.
func TestFullDiskOfReplica(t *testing.T) {
	dir := smallDisk(t)
	hub := shared.New(memstore.New(nil))
	opts := execution.Options{RunsDir: filepath.Join(dir, "runs"), Dir: t.TempDir()}
	incarnation := func() *node {
		nd := &node{store: newCuttable(hub.Store())}
		nd.open(t, &replica.Options{Name: "back", Beat: testBeat, TTL: 5 * time.Minute}, opts)
		return nd
	}
	const lines = 3_000_000 // 20 MB
	nd := incarnation()
	start(t, nd.Host, execution.Request{
		ID: "x", Retention: execution.Retention{MaxBytes: 1 << 30, MaxEvents: 1 << 20},
		Command: fmt.Sprintf("echo up; while [ ! -e go ]; do sleep 0.01; done; seq 1 %d; exit 3", lines),
	})
	await(t, nd.Host, "x", "up")
	if left, err := nd.Leave(); err != nil || left != 1 {
		t.Fatalf("%d runs are left, %v", left, err)
	}
	nd.member.Vanish()
	if err := os.WriteFile(filepath.Join(opts.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var free unix.Statfs_t
	until(t, "the disk is full", func() bool { return unix.Statfs(dir, &free) == nil && free.Bavail == 0 })
	nd = incarnation()
	x := finish(t, nd.Host, "x")
	wantOutcome(t, x, execution.Exited, 3, "")
	got := output(t, nd.Host, "x", execution.Stdout)
	if bytes.Count(got, []byte("\n")) != lines+1 || !bytes.HasSuffix(got, fmt.Appendf(nil, "\n%d\n", lines)) ||
		x.OutputTruncated || x.Bytes.Stdout != int64(len(got)) {
		t.Errorf("%d bytes, %+v", len(got), x)
	}
}
