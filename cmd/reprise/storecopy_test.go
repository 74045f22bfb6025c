package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/store/sqlitestore"
)

// fillFile makes a store of streams with batches of one event each.
func fillFile(t *testing.T, path string, streams, batches int) {
	t.Helper()
	store, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Sync: sqlitestore.SyncNormal})
	if err != nil {
		t.Fatal(err)
	}
	for i := range streams {
		key := reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: fmt.Sprint("s", i)}
		info, err := store.Create(t.Context(),
			reprise.StreamInfo{Key: key, Epoch: reprise.NewEpoch(), Created: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		var kept int64
		for seq := range batches {
			record, err := reprise.AppendRecord(nil, &reprise.Event{Data: bytes.Repeat([]byte{'x'}, 100)})
			if err != nil {
				t.Fatal(err)
			}
			kept += int64(len(record))
			for _, err := range store.Append(t.Context(), []reprise.AppendRequest{{
				Key: key, Epoch: info.Epoch, First: uint64(seq + 1), Count: 1, Bytes: record, Earliest: 1, Kept: kept,
			}}) {
				t.Fatal(err)
			}
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// killedUntilDone runs a verb and kills it again and again, each time a little later, until it comes to its end.
func killedUntilDone(t *testing.T, dir string, args ...string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for patience := time.Millisecond; ; patience += max(patience/4, min(patience, 30*time.Millisecond)) {
		var out bytes.Buffer
		cmd := &exec.Cmd{
			Path: program, Args: append([]string{"reprise"}, args...),
			Env: append(os.Environ(), "XDG_STATE_HOME="+dir), Stdout: &out, Stderr: t.Output(),
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		timer.Stop()
		if err == nil {
			t.Logf("after %d kills: %s", killed, &out)
			break
		}
		if cmd.ProcessState.Exited() {
			t.Fatal(err)
		}
		killed++
	}
	if killed == 0 {
		t.Fatal("none was killed")
	}
}

// TestCopyThatIsKilled kills a copy again and again.
func TestCopyThatIsKilled(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from.db"), filepath.Join(dir, "to.db")
	fillFile(t, from, 50, 100)
	killedUntilDone(t, dir, "store", "copy", "sqlite:"+from, "sqlite:"+to, "--parallel", "2")
	if out, err := runReprise(t, "store", "check", "sqlite:"+to); err != nil ||
		!strings.HasPrefix(out, "nothing is wrong: 50 streams, 5000 events") {
		t.Fatal(out, err)
	}
	if out, err := runReprise(t, "store", "copy", "sqlite:"+from, "sqlite:"+to); err != nil ||
		!strings.Contains(out, "50 were there already") {
		t.Fatal(out, err)
	}
}

// TestMoveThatIsKilled kills moves there and back again and again.
func TestMoveThatIsKilled(t *testing.T) {
	data := t.TempDir()
	fillFile(t, filepath.Join(data, "reprise.db"), 50, 100)
	for _, ends := range [][2]string{{"sqlite:", "log:"}, {"log:", "sqlite:"}} {
		killedUntilDone(t, data, "store", "move", ends[0], ends[1], "--data", data)
		if out, err := runReprise(t, "store", "check", ends[1], "--data", data); err != nil ||
			!strings.HasPrefix(out, "nothing is wrong: 50 streams, 5000 events") {
			t.Fatal(out, err)
		}
		if left, err := filepath.Glob(filepath.Join(data, "*.moving*")); err != nil || len(left) > 0 {
			t.Error(left, err)
		}
		if out, err := runReprise(t, "store", "stats", ends[0], "--data", data); err == nil {
			t.Error(out)
		}
	}
}
