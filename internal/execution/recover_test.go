package execution_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"reprise"
	"reprise/internal/execution"
	"reprise/store/memstore"
	"reprise/store/sqlitestore"
)

// envServe makes the test binary a server, in the folder that it names, until it is killed.
const envServe = "REPRISE_TEST_SERVE"

// treeCommand leaves a child that kill(-pgid) and the death of its parent do not reach.
const treeCommand = `echo kept; echo "child $$"; setsid sh -c 'echo "child $$"; echo up; exec sleep 1000' & exec sleep 1000`

func serveUntilKilled(dir string) {
	ctx := context.Background()
	fail := func(err error) {
		if err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
	}
	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "reprise.db"), nil)
	fail(err)
	log, err := reprise.Open(ctx, store, nil)
	fail(err)
	h, err := execution.Open(ctx, log, &execution.Options{DisableCgroups: os.Getenv("REPRISE_TEST_SCAN") != ""})
	fail(err)
	for _, req := range []execution.Request{
		{ID: "done", Command: "echo done; exit 4"},
		{ID: "going", Command: treeCommand, Env: map[string]string{"SHELL": "x"}},
	} {
		_, _, err = h.Start(ctx, tenant, req)
		fail(err)
	}
	s, err := h.Stream(ctx, tenant, "done")
	fail(err)
	r, err := s.Reader(ctx, reprise.Earliest())
	fail(err)
	for _, err := range r.Events(ctx) {
		fail(err)
	}
	s, err = h.Stream(ctx, tenant, "going")
	fail(err)
	r, err = s.Reader(ctx, reprise.Earliest())
	fail(err)
	for e, err := range r.Events(ctx) {
		fail(err)
		if e.Type == execution.Stdout {
			fmt.Print(string(e.Data))
		}
	}
}

// TestServerDies kills a server that runs a command, and opens its executions again. What
// was acknowledged is there, the run is lost, once, and nothing of it is left running.
func TestServerDies(t *testing.T) {
	trees(t, func(t *testing.T, opts execution.Options) {
		dir := t.TempDir()
		pids := runServer(t, dir, opts.DisableCgroups)
		if len(pids) != 2 {
			t.Fatalf("processes %v", pids)
		}
		until(t, "the command dies with its server", func() bool { return !alive(pids[0]) })
		if !alive(pids[1]) {
			t.Error("there is nothing left to clean up")
		}
		for range 2 { // the second time there is nothing to recover
			store, err := sqlitestore.Open(t.Context(), filepath.Join(dir, "reprise.db"), nil)
			if err != nil {
				t.Fatal(err)
			}
			log, err := reprise.Open(t.Context(), store, nil)
			if err != nil {
				t.Fatal(err)
			}
			h := openHost(t, log, opts)
			for _, pid := range pids {
				until(t, "the processes are gone", func() bool { return !alive(pid) })
			}
			wantOutcome(t, finish(t, h, "done"), execution.Exited, 4, "")
			x := finish(t, h, "going")
			wantOutcome(t, x, execution.Lost, -1, "")
			if x.Error == "" || x.Started.IsZero() {
				t.Errorf("error %q, started %v", x.Error, x.Started)
			}
			if got := output(t, h, "going", execution.Stdout); !strings.HasPrefix(string(got), "kept\n") ||
				int64(len(got)) != x.Bytes.Stdout {
				t.Errorf("output %q, said to be %d bytes", got, x.Bytes.Stdout)
			}
			if err := errors.Join(h.Close(), log.Close(), store.Close()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// runServer runs a server until its command is up and kills it. It returns the processes of the command.
func runServer(t *testing.T, dir string, scan bool) []int {
	t.Helper()
	server := exec.CommandContext(within(t), os.Args[0])
	server.Env = append(os.Environ(), envServe+"="+dir)
	if scan {
		server.Env = append(server.Env, "REPRISE_TEST_SCAN=1")
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Wait() }()
	var said strings.Builder
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if lines.Text() == "up" {
			if err := server.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			return children(said.String())
		}
	}
	t.Fatalf("the server said %q", said.String())
	return nil
}

// TestRecoveredOutputWithoutBeginningIsExpired: once the window has lost the beginning of the output, the offsets of
// the rest are unknown, and reading by offset returns ErrExpired.
func TestRecoveredOutputWithoutBeginningIsExpired(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	s, _, err := log.Create(t.Context(),
		reprise.StreamKey{Tenant: tenant, Name: "execution:cut"}, reprise.StreamConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if _, err := s.Append(t.Context(), reprise.Event{
			Type: execution.Stdout,
			Data: []byte(strconv.Itoa(i)),
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Trim(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	h := openHost(t, log, execution.Options{})
	x, err := h.Show(within(t), tenant, "cut")
	if err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, x, execution.Lost, -1, "")
	if _, err := h.Output(within(t), tenant, "cut", execution.Stdout); !errors.Is(err, reprise.ErrExpired) {
		t.Errorf("output: %v", err)
	}
}
