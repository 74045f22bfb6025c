package execution_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"reprise/internal/execution"
	"reprise/internal/execution/supervisor"
)

// keepsSilent puts a listener in the place of the supervisor of a run. It accepts connections and answers none of their
// calls. timedOut is closed when the other side has given up a call; back puts the supervisor in its place again.
func keepsSilent(t *testing.T, dir string) (timedOut <-chan struct{}, back func()) {
	t.Helper()
	socket := filepath.Join(dir, "sock")
	if err := os.Rename(socket, socket+".away"); err != nil {
		t.Fatal(err)
	}
	secret, err := supervisor.LoadSecret(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	gaveUp := make(chan struct{}, 100)
	over, end := context.WithCancel(t.Context())
	go func() {
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				conn, err := supervisor.Accept(raw, dir, secret)
				if err != nil {
					return
				}
				defer conn.Close()
				// None outlives back: a server that has one follows it, and is told nothing.
				defer context.AfterFunc(over, func() { _ = conn.Close() })()
				var call struct {
					Op string `json:"op"`
				}
				for conn.Receive(&call) == nil {
				}
				if call.Op == "stop" {
					gaveUp <- struct{}{}
				}
			}()
		}
	}()
	return gaveUp, func() {
		_ = l.Close()
		end()
		if err := os.Rename(socket+".away", socket); err != nil {
			t.Error(err)
		}
	}
}

// TestCancelThatIsNotAnsweredIsRepeated: the supervisor takes the cancel and says nothing for longer than an answer is
// waited for.
func TestCancelThatIsNotAnsweredIsRepeated(t *testing.T) {
	t.Parallel() // it waits most of the time
	opts := execution.Options{RunsDir: t.TempDir()}
	h := newHost(t, opts)
	start(t, h, execution.Request{ID: "x", Command: "echo up; exec sleep 1000"})
	await(t, h, "x", "up")
	timedOut, back := keepsSilent(t, runDirs(t, opts)[0])
	if err := h.Cancel(within(t), tenant, "x"); err != nil {
		t.Fatal(err)
	}
	<-timedOut
	back()
	wantOutcome(t, finish(t, h, "x"), execution.Cancelled, 0, "TERM")
}

// TestRemovedWhileAwayAndStandingStill: the stream of a run was removed while no server was there, and its supervisor
// does not answer the server that ends its command.
func TestRemovedWhileAwayAndStandingStill(t *testing.T) {
	t.Parallel() // it waits most of the time
	log, opts, pids := removedWhileAway(t)
	timedOut, back := keepsSilent(t, runDirs(t, opts)[0])
	openHost(t, log, opts)
	<-timedOut
	back()
	for _, pid := range pids {
		until(t, "the processes are gone", func() bool { return !alive(pid) })
	}
	until(t, "the directory is removed", func() bool { return len(runDirs(t, opts)) == 0 })
}
