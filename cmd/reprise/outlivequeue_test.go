package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"reprise/client"
)

// TestServerIsKilledWhileCommandsWait ends the server at random moments, by KILL and by TERM, while sixty commands wait
// for three places. Each is started once, and has its output and its end. (G1, G4, G9)
func TestServerIsKilledWhileCommandsWait(t *testing.T) {
	t.Parallel()
	commands, ends := 60, 10
	if soaking() {
		commands, ends = 600, 100
	}
	o := &outliving{t: t, flags: []string{"--max-running", "3"}}
	o.open()
	started := filepath.Join(o.dir, "started")
	for i := range commands {
		id := fmt.Sprint("w", i)
		o.run(id, fmt.Sprintf(`echo %s >> %s; sleep 0.05; echo "$V"`, id, started), func(r *client.StartRequest) {
			r.Env = map[string]string{"V": "value of " + id}
		})
	}
	for i := range 3 { // whose turn came at once; a server that is killed before it has started them ends them as lost
		o.await(fmt.Sprint("w", i), "value")
	}
	for i := range ends {
		<-time.After(rand.N(300 * time.Millisecond)) // a moment like any other
		if i%3 == 2 {
			stop(t, o.daemon)
			o.start()
			continue
		}
		o.restart(0)
	}
	var want []string
	for i := range commands {
		id := fmt.Sprint("w", i)
		output, end := o.follow(id)
		if o.wantEnd(id, end, client.Exited, 0); output != "value of "+id+"\n" {
			t.Errorf("%s: output %q, %+v", id, output, end)
		}
		want = append(want, id)
	}
	text, err := os.ReadFile(started)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(text)) // commands that run at the same time may write in another order
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("started %v", got)
	}
	if !eventually(func() bool { return len(o.runs("*")) == 0 }) {
		t.Errorf("directories are left: %v", o.runs("*"))
	}
}

// TestQueuedCommandIsCancelledAfterARestart is what a person does who has waited for long enough.
func TestQueuedCommandIsCancelledAfterARestart(t *testing.T) {
	o := &outliving{t: t, flags: []string{"--max-running", "1"}}
	o.open()
	o.run("first", "echo up; exec sleep 600", nil)
	o.await("first", "up")
	o.run("cancelled", "echo never", nil)
	o.run("waits", "echo at last; exit 3", nil)
	o.restart(0)
	if x, err := o.client.Show(t.Context(), "waits"); err != nil || x.Status != client.StatusQueued {
		t.Errorf("%+v, %v", x, err)
	}
	if err := o.client.Cancel(t.Context(), "cancelled"); err != nil {
		t.Fatal(err)
	}
	o.restart(0) // at once
	output, end := o.follow("cancelled")
	if o.wantEnd("cancelled", end, client.Cancelled, -1); output != "" {
		t.Errorf("output %q", output)
	}
	if err := o.client.Cancel(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	output, end = o.follow("waits")
	if o.wantEnd("waits", end, client.Exited, 3); output != "at last\n" {
		t.Errorf("output %q", output)
	}
}
