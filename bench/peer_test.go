package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"reprise/internal/testserver"
)

func TestPeerIsFoundInItsFolderThenByPath(t *testing.T) {
	const program = "a-peer-for-this-test"
	folder, path := t.TempDir(), t.TempDir()
	t.Setenv(PeersEnv, folder)
	t.Setenv("PATH", path)
	if found, err := findPeer(program); !errors.Is(err, errNoPeer) {
		t.Errorf("in neither: %q, %v", found, err)
	}
	for _, dir := range []string{path, folder} {
		want := filepath.Join(dir, program)
		if err := os.WriteFile(want, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if found, err := findPeer(program); err != nil || found != want {
			t.Errorf("%q, %v; want %q", found, err, want)
		}
	}
}

func TestRaceRunsWithoutAnOptionalServerOutsideCI(t *testing.T) {
	start := func(err error) func(context.Context, Scale) (Runner, error) {
		return func(context.Context, Scale) (Runner, error) {
			return lapFunc(func(context.Context) (Sample, error) { return Sample{"ns": 1}, nil }), err
		}
	}
	missing := fmt.Errorf("start redis: %w", testserver.ErrMissing)
	race := Race{Name: "R", Contenders: []Contender{
		{"ours", start(nil), false},
		optional(Contender{"peer=here", start(nil), false}),
		optional(Contender{"peer=missing", start(missing), false}),
	}}
	t.Setenv("CI", "")
	results, err := race.Run(t.Context(), Quick)
	if err != nil {
		t.Fatal(err)
	}
	for i, laps := range []int{1, 1, 0} {
		if r := results[i]; len(r.Samples) != laps || r.Missing != (laps == 0) {
			t.Errorf("%s: %d laps, missing: %t", r.Contender, len(r.Samples), r.Missing)
		}
	}
	t.Setenv("CI", "true")
	if _, err := race.Run(t.Context(), Quick); !IsMissing(err) {
		t.Errorf("with CI set: %v", err)
	}
}

func TestPublishingToCentrifugoFailsIfItAnswersWithAnError(t *testing.T) {
	for _, c := range []struct {
		answer  string
		refused bool
	}{
		{`{"result":{"offset":1,"epoch":"a"}}`, false},
		{`{"error":{"code":102,"message":"unknown channel"}}`, true},
		{`{"replies":[{"publish":{}},{"publish":{}}]}`, false},
		{`{"replies":[{"publish":{}},{"error":{"code":102,"message":"unknown channel"}}]}`, true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(c.answer))
		}))
		post := func(i int) []byte { return centrifugoPost(i, 1, newPayload()) }
		released := 0
		to := publication{
			addr: server.Listener.Addr().String(), post: post, accepted: centrifugoAccepted,
			release: func() error { released++; return nil },
		}
		runner, err := publishTo(Quick, to, 2, 1)
		if err == nil {
			err = runner.Close()
		}
		if (err != nil) != c.refused || released != 1 {
			t.Errorf("%s: %v, released %d times", c.answer, err, released)
		}
		server.Close()
	}
}

func TestServerThatIgnoresTheSignalIsKilled(t *testing.T) {
	cmd := exec.Command("sh", "-c", "trap '' TERM; echo ready; exec sleep 60")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	start := time.Now()
	if err := endServer(cmd, 50*time.Millisecond); err != nil {
		t.Error(err)
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || status.Signal() != syscall.SIGKILL {
		t.Errorf("ended by %v after %v", cmd.ProcessState, time.Since(start))
	}
}

func TestCPUTimeOfAProcessIsThatWhichItMeasures(t *testing.T) {
	// The two clocks may differ by a tick of the kernel for each thread that runs meanwhile.
	tick := 10 * time.Millisecond * time.Duration(1+runtime.GOMAXPROCS(0))
	for start := cpuTime(); cpuTime()-start < 2*tick; { // so that no time at all is too little
	}
	before := cpuTime()
	got, err := cpuTimeOf(os.Getpid())
	after := cpuTime()
	if err != nil || got < before-tick || got > after+tick {
		t.Errorf("%v, %v; want %v to %v", got, err, before, after)
	}
	if _, err := cpuTimeOf(1 << 22); err == nil { // Linux has no id as large
		t.Error("of no process: no error")
	}
}
