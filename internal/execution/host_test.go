package execution_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/internal/headless"
	"reprise/store/memstore"
)

const tenant = reprise.DefaultTenant

// patience is how long a test waits for what must happen, on a machine that does much else besides.
const patience = 2 * time.Minute

// soaking: the long and random form of the tests; see "make soak".
var soaking = os.Getenv("REPRISE_TEST_SOAK") != ""

func TestMain(m *testing.M) {
	execution.Supervise()
	if os.Getenv("GORACE") == "" { // of the processes that tests start, which otherwise sleep a second at their end
		_ = os.Setenv("GORACE", "atexit_sleep_ms=20")
	}
	headless.Run()
	if dir := os.Getenv(envServe); dir != "" {
		serveUntilKilled(dir)
	}
	if url := os.Getenv(envReplica); url != "" {
		replicaUntilKilled(url)
	}
	// A Host uses package signal where this process was started with SIGINT or SIGHUP ignored. The first use starts
	// goroutines, which must not belong to the bubble of a test.
	first := make(chan os.Signal, 1)
	signal.Notify(first, syscall.SIGTERM)
	signal.Stop(first)
	goleak.VerifyTestMain(m)
}

// trees runs a test with every way to find the processes of a run, in our own process and in a supervisor's.
func trees(t *testing.T, test func(t *testing.T, opts execution.Options)) {
	t.Run("tree=cgroup", func(t *testing.T) { test(t, execution.Options{}) })
	t.Run("tree=scan", func(t *testing.T) { test(t, execution.Options{DisableCgroups: true}) })
	t.Run("tree=supervised", func(t *testing.T) { test(t, execution.Options{RunsDir: t.TempDir()}) })
	t.Run("tree=subreaper", func(t *testing.T) {
		test(t, execution.Options{RunsDir: t.TempDir(), DisableCgroups: true})
	})
}

func newLog(t *testing.T, store reprise.Store, opts *reprise.Options) *reprise.Log {
	t.Helper()
	log, err := reprise.Open(t.Context(), store, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(log.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return log
}

func newHost(t *testing.T, opts execution.Options) *execution.Host {
	t.Helper()
	return openHost(t, newLog(t, memstore.New(nil), nil), opts)
}

func openHost(t *testing.T, log *reprise.Log, opts execution.Options) *execution.Host {
	t.Helper()
	if opts.Dir == "" {
		opts.Dir = t.TempDir()
	}
	if opts.Grace == 0 {
		opts.Grace = patience // who takes a signal well has the time for it
	}
	opts.Drive = interpreter.Drive
	h, err := execution.Open(t.Context(), log, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, h *execution.Host, req execution.Request) execution.Execution {
	t.Helper()
	x, created, err := h.Start(within(t), tenant, req)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	if !created {
		t.Fatalf("start found execution %s", x.ID)
	}
	return x
}

// sh starts a command and waits for its end.
func sh(t *testing.T, h *execution.Host, command string) execution.Execution {
	t.Helper()
	return finish(t, h, start(t, h, execution.Request{Command: command}).ID)
}

// finish waits for the end of an execution and returns it as it then is.
func finish(t *testing.T, h *execution.Host, id string) execution.Execution {
	t.Helper()
	events := follow(t, h, id)
	if last := events[len(events)-1]; last.Type != reprise.TypeEnd {
		t.Fatalf("the last event is %q", last.Type)
	}
	x, err := h.Show(within(t), tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	if x.Status != execution.StatusEnded || x.Outcome == "" {
		t.Fatalf("after the end event the status is %s", x.Status)
	}
	return x
}

// follow returns all events of an execution. It checks that seqs are contiguous and that there is one end.
func follow(t *testing.T, h *execution.Host, id string) []reprise.Event {
	t.Helper()
	ctx := within(t)
	r := reader(t, h, id)
	defer r.Close()
	var events []reprise.Event
	for e, err := range r.Events(ctx) {
		if err != nil {
			t.Fatalf("follow: %v", err)
		}
		if e.Seq != uint64(len(events))+1 {
			t.Fatalf("event %d after %d", e.Seq, len(events))
		}
		events = append(events, e)
	}
	ends := 0
	for _, e := range events {
		if e.Type == reprise.TypeEnd {
			ends++
		}
	}
	if ends != 1 {
		t.Fatalf("%d end events", ends)
	}
	return events
}

func reader(t *testing.T, h *execution.Host, id string) *reprise.Reader {
	t.Helper()
	s, err := h.Stream(within(t), tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Reader(within(t), reprise.Earliest())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// await reads until the output of a channel holds text.
func await(t *testing.T, h *execution.Host, id, text string) string {
	t.Helper()
	r := reader(t, h, id)
	defer r.Close()
	var got []byte
	for e, err := range r.Events(within(t)) {
		if err != nil {
			t.Fatalf("waiting for %q after %.200q: %v", text, got, err)
		}
		if e.Type == execution.Stdout || e.Type == execution.Stderr {
			got = append(got, e.Data...)
		}
		if bytes.Contains(got, []byte(text)) {
			return string(got)
		}
	}
	t.Fatalf("no %q in %.200q", text, got)
	return ""
}

// until waits until holds reports true.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("condition not met: %s", what)
		}
	}
}

// output is all of a channel.
func output(t *testing.T, h *execution.Host, id, channel string) []byte {
	t.Helper()
	o, err := h.Output(within(t), tenant, id, channel)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := o.Copy(within(t), &b, o.First(), -1, false); err != nil {
		t.Fatal(err)
	}
	if int64(b.Len()) != o.Size()-o.First() {
		t.Fatalf("%d bytes of %s, size %d, first %d", b.Len(), channel, o.Size(), o.First())
	}
	return b.Bytes()
}

func wantOutcome(t *testing.T, x execution.Execution, want execution.Outcome, code int, signal string) {
	t.Helper()
	if x.Outcome != want {
		t.Errorf("outcome %s, want %s (error %q, limit %q)", x.Outcome, want, x.Error, x.Limit)
	}
	switch {
	case signal != "":
		if x.Signal == nil || *x.Signal != signal || x.ExitCode != nil {
			t.Errorf("signal %v code %v, want signal %s", deref(x.Signal), deref(x.ExitCode), signal)
		}
	case code < 0:
		if x.ExitCode != nil || x.Signal != nil {
			t.Errorf("signal %v code %v, want neither", deref(x.Signal), deref(x.ExitCode))
		}
	default:
		if x.ExitCode == nil || *x.ExitCode != code || x.Signal != nil {
			t.Errorf("signal %v code %v, want code %d", deref(x.Signal), deref(x.ExitCode), code)
		}
	}
}

func deref[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

func TestExecutionIsShownAsAsked(t *testing.T) {
	t.Parallel() // it waits most of the time
	trees(t, func(t *testing.T, opts execution.Options) {
		t.Parallel()
		h := newHost(t, opts)
		x := start(t, h, execution.Request{
			ID: "build-1", Session: "s1", Argv: []string{"sh", "-c", "echo out; echo err >&2; exit 3"},
			Labels: map[string]string{"branch": "main"}, Env: map[string]string{"SECRET": "hush"},
		})
		if x.ID != "build-1" || x.Session != "s1" || x.Labels["branch"] != "main" ||
			x.Status == execution.StatusQueued {
			t.Errorf("started as %+v", x)
		}
		x = finish(t, h, x.ID)
		wantOutcome(t, x, execution.Exited, 3, "")
		if x.Bytes != (execution.Bytes{Stdout: 4, Stderr: 4}) {
			t.Errorf("bytes %+v", x.Bytes)
		}
		if x.Started.IsZero() || x.Ended.IsZero() || x.Usage == nil || x.DurationMS == nil || x.Window.Tail == "" {
			t.Errorf("incomplete: %+v", x)
		}
		if len(x.EnvNames) != 1 || x.EnvNames[0] != "SECRET" {
			t.Errorf("env names %v", x.EnvNames)
		}
		text, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("hush")) {
			t.Errorf("the value of a variable is shown: %s", text)
		}
		if got := output(t, h, x.ID, execution.Stdout); string(got) != "out\n" {
			t.Errorf("stdout %q", got)
		}
	})
}

func TestEndEventTellsEverything(t *testing.T) {
	h := newHost(t, execution.Options{})
	x := start(t, h, execution.Request{Command: "printf hello"})
	events := follow(t, h, x.ID)
	if events[0].Type != "started" {
		t.Errorf("the first event is %s", events[0].Type)
	}
	var end map[string]any
	if err := json.Unmarshal(events[len(events)-1].Data, &end); err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{"outcome", "exit_code", "signal", "duration_ms", "usage", "bytes"} {
		if _, ok := end[member]; !ok {
			t.Errorf("the end has no %s: %v", member, end)
		}
	}
	if end["outcome"] != "exited" || end["exit_code"] != 0.0 || end["signal"] != nil {
		t.Errorf("end %v", end)
	}
}

func TestOthersExecutionsDoNotExist(t *testing.T) {
	h := newHost(t, execution.Options{})
	x := sh(t, h, "true")
	ctx := within(t)
	const other = reprise.Tenant("other")
	if _, err := h.Show(ctx, other, x.ID); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("show: %v", err)
	}
	if err := h.Cancel(ctx, other, x.ID); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("cancel: %v", err)
	}
	if err := h.Signal(ctx, other, x.ID, "INT"); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("signal: %v", err)
	}
	if _, err := h.WriteStdin(ctx, other, x.ID, execution.StdinWrite{}); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("stdin: %v", err)
	}
	if _, err := h.Output(ctx, other, x.ID, execution.Stdout); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("output: %v", err)
	}
	if err := h.Remove(ctx, other, x.ID); err != nil {
		t.Errorf("remove: %v", err)
	}
	if _, err := h.Show(ctx, tenant, x.ID); err != nil {
		t.Errorf("gone after another tenant removed it: %v", err)
	}
}

func TestRemoveEndsAndForgets(t *testing.T) {
	h := newHost(t, execution.Options{})
	x := start(t, h, execution.Request{Command: "echo up; exec sleep 100"})
	await(t, h, x.ID, "up")
	r := reader(t, h, x.ID)
	defer r.Close()
	if err := h.Remove(within(t), tenant, x.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Show(within(t), tenant, x.ID); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("show after remove: %v", err)
	}
	if err := h.Remove(within(t), tenant, x.ID); err != nil {
		t.Errorf("removing again: %v", err)
	}
	if c := h.Counts(); c != (execution.Counts{}) {
		t.Errorf("counts %+v", c)
	}
	for _, err := range r.Events(within(t)) {
		if err != nil {
			if !errors.Is(err, reprise.ErrNotFound) {
				t.Errorf("reader: %v", err)
			}
			break
		}
	}
}

func TestStopWaitsThenCancels(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	dir := t.TempDir()
	h := openHost(t, log, execution.Options{MaxRunning: 2, Dir: dir})
	short := start(t, h, execution.Request{Command: "while [ ! -e go ]; do sleep 0.01; done"})
	long := start(t, h, execution.Request{Command: "exec sleep 1000"})
	queued := start(t, h, execution.Request{Command: "echo never"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- h.Stop(ctx) }()
	until(t, "no more are started", func() bool {
		_, _, err := h.Start(within(t), tenant, execution.Request{Command: "true"})
		return errors.Is(err, reprise.ErrClosed)
	})
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, finish(t, h, short.ID), execution.Exited, 0, "")
	if got := status(t, h, long.ID); got != execution.StatusRunning {
		t.Errorf("while it waits, the other one is %s", got)
	}
	cancel()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	x := finish(t, h, long.ID)
	wantOutcome(t, x, execution.Cancelled, 0, "TERM")
	if x.Error == "" {
		t.Error("a run that the Host has ended does not say so")
	}
	wantOutcome(t, finish(t, h, queued.ID), execution.Cancelled, -1, "")
	if _, _, err := h.Start(within(t), tenant, execution.Request{Command: "true"}); !errors.Is(err, reprise.ErrClosed) {
		t.Errorf("start after stop: %v", err)
	}
}

func TestFinishedExecutionsLeaveNoDescriptors(t *testing.T) {
	h := newHost(t, execution.Options{MaxRunning: 8})
	finish(t, h, start(t, h, execution.Request{Command: "true"}).ID)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it would close what we forget
	before := descriptors(t)
	var ids []string
	for i := range 200 {
		req := execution.Request{Command: "echo x; echo y >&2"}
		switch i % 4 {
		case 1:
			req.StdinOpen = true
			req.Command = "exit 1"
		case 2:
			req.TTY = &execution.TTY{}
		case 3:
			req = execution.Request{Argv: []string{"/no/such/program"}}
		}
		ids = append(ids, start(t, h, req).ID)
	}
	for _, id := range ids {
		finish(t, h, id)
	}
	until(t, "all runs are forgotten", func() bool { return h.Counts() == execution.Counts{} })
	until(t, "all descriptors are closed", func() bool { return descriptors(t) <= before })
}

func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
