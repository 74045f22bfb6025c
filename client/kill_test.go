package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"reprise/client"
)

// childEnv makes the test binary a client process: its value is the URL, the file of the
// cursor and the file of what was handled, with spaces between.
const childEnv = "REPRISE_TEST_CHILD"

func TestMain(m *testing.M) {
	if args := os.Getenv(childEnv); args != "" {
		if err := child(strings.Fields(args)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child follows the stream "killed" and writes down each seq as it handles it.
func child(args []string) error {
	handled, err := os.OpenFile(args[2], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	c, err := client.New(&client.Options{URL: args[0], Token: liveToken})
	if err != nil {
		return err
	}
	ctx := context.Background()
	for event, err := range c.FollowStream(ctx, "killed", &client.FollowOptions{
		Cursors:   client.FileCursor(args[1]),
		SaveEvery: -1,
	}) {
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(handled, event.Seq); err != nil {
			return err
		}
	}
	return nil
}

// R9.4: a client process that is killed, at any moment, goes on where it was: nothing
// is left out, and of what was handled only the very last event can come again.
func TestKilledClientGoesOn(t *testing.T) {
	t.Parallel()
	const total, kills = 400, 6
	url, dir := liveServer(t), t.TempDir()
	c := liveClient(t, url, &cutter{after: -1})
	if _, err := c.CreateStream(t.Context(), "killed", client.StreamConfig{}); err != nil {
		t.Fatal(err)
	}
	batch := make([]client.NewEvent, total-1)
	for i := range batch {
		batch[i].Data = json.RawMessage(fmt.Sprint(i))
	}
	p := c.Producer("killed")
	if _, err := p.Publish(t.Context(), batch...); err != nil {
		t.Fatal(err)
	}
	if _, err := p.End(t.Context(), "completed", nil); err != nil {
		t.Fatal(err)
	}
	handled := filepath.Join(dir, "handled")
	killed := 0
	for kill := range kills + 1 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(),
			childEnv+"="+strings.Join([]string{url, filepath.Join(dir, "cursor"), handled}, " "))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if kill < kills {
			waitForLines(t, handled, (kill+1)*total/(kills+2))
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if cmd.ProcessState.ExitCode() < 0 { // by the signal, in the middle
				killed++
			}
		} else if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if killed == 0 {
		t.Error("every process had ended before it was killed")
	}
	checkHandled(t, handled, total, killed)
}

func waitForLines(t *testing.T, name string, n int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(2 * time.Minute)
	for {
		text, _ := os.ReadFile(name)
		if bytes.Count(text, []byte("\n")) >= n {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d events were not handled in time", n)
		}
	}
}

// checkHandled reads what the processes wrote down: 1 to total, each once, but for the
// event in which a process was killed.
func checkHandled(t *testing.T, name string, total, kills int) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	last, again := 0, 0
	for line := range strings.Lines(string(text)) {
		var seq int
		if _, err := fmt.Sscan(line, &seq); err != nil {
			t.Fatal(err)
		}
		switch seq {
		case last + 1:
			last = seq
		case last:
			again++
		default:
			t.Fatalf("event %d was handled after %d", seq, last)
		}
	}
	if last != total || again > kills {
		t.Errorf("handled up to %d of %d, %d of them again after %d kills", last, total, again, kills)
	}
}
