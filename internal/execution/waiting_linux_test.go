package execution_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/internal/execution/supervisor"
	"reprise/internal/shared"
	"reprise/replica"
	"reprise/store/memstore"
)

// waitingFiles are the files of the runs that wait, or whose turn has come.
func waitingFiles(t *testing.T, opts execution.Options) []string {
	t.Helper()
	waiting, err := filepath.Glob(filepath.Join(opts.RunsDir, "*.waiting"))
	begun, err2 := filepath.Glob(filepath.Join(opts.RunsDir, "*.begun"))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return append(waiting, begun...)
}

// blocked starts an execution that takes the only place until open is called.
func blocked(t *testing.T, h *execution.Host) {
	t.Helper()
	start(t, h, execution.Request{ID: "blocker", Command: "echo up; read x", StdinOpen: true})
	await(t, h, "blocker", "up")
}

func open(t *testing.T, h *execution.Host) {
	t.Helper()
	if _, err := h.WriteStdin(within(t), tenant, "blocker", execution.StdinWrite{EOF: true}); err != nil {
		t.Fatal(err)
	}
}

// TestQueueOutlivesTheServer: what was accepted and waits is started by a later server, once, in its order, with all
// that its request says. (G9)
func TestQueueOutlivesTheServer(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	work := t.TempDir()
	opts := execution.Options{
		RunsDir: t.TempDir(), Dir: work, MaxRunning: 1, Secret: []byte("0123456789abcdef"),
		Secrets: named(t, tenant, map[string]string{"token": theSecret}),
	}
	const queued = 5
	keyed := execution.Request{Key: "k", Command: "echo keyed >> order"}
	hold := execution.Request{
		ID: "held", Command: "echo held >> order; echo out", Hold: execution.Duration(time.Minute),
	}
	var token, key string
	leave(t, log, opts, func(h *execution.Host) {
		blocked(t, h)
		for i := range queued {
			id := fmt.Sprint("q", i)
			start(t, h, execution.Request{
				ID: id, Command: `echo "$REPRISE_EXECUTION $V $TOKEN $TRACEPARENT" >> order; cat; ulimit -v >/dev/null`,
				Env:     map[string]string{"V": "value" + id},
				Secrets: map[string]string{"TOKEN": "token"}, MaskSecrets: true,
				StdinBase64: []byte("in " + id), Limits: execution.Limits{OutputBytes: 5},
				TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			})
		}
		key = start(t, h, keyed).ID
		start(t, h, hold)
		token = h.Hold(tenant, "held").Token()
		start(t, h, execution.Request{ID: "gone", Command: "echo never >> order"})
		if err := h.Cancel(within(t), tenant, "gone"); err != nil {
			t.Fatal(err)
		}
		if got := len(waitingFiles(t, opts)); got != queued+2 {
			t.Errorf("%d files of runs that wait", got)
		}
		for _, file := range waitingFiles(t, opts) {
			info, err := os.Stat(file)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
			if text, err := os.ReadFile(file); err != nil || bytes.Contains(text, []byte(theSecret)) {
				t.Errorf("the file holds the secret, or %v", err)
			}
		}
	})
	leave(t, log, opts, func(h *execution.Host) { // and once more, without anything being started
		if got := h.Counts(); got != (execution.Counts{Running: 1, Queued: queued + 2}) {
			t.Errorf("counts %+v", got)
		}
		if err := h.Cancel(within(t), tenant, "q1"); err != nil {
			t.Fatal(err)
		}
		if got := status(t, h, "q2"); got != execution.StatusQueued {
			t.Errorf("q2 is %s", got)
		}
	})
	h := openHost(t, log, opts)
	wantOutcome(t, finish(t, h, "q1"), execution.Cancelled, -1, "")
	if x, created, err := h.Start(within(t), tenant, keyed); err != nil || created || x.ID != key {
		t.Errorf("the key stands for %s, created %t, %v", x.ID, created, err)
	}
	if h.Held(tenant, "held", token) == nil {
		t.Error("the follower who held the output back is not known any more")
	}
	start(t, h, execution.Request{ID: "new", Command: "echo new >> order"})
	open(t, h)
	want := ""
	for _, id := range []string{"q0", "q2", "q3", "q4"} {
		x := finish(t, h, id)
		if x.Outcome != execution.LimitExceeded && x.Outcome != execution.Exited || x.Started.IsZero() {
			t.Errorf("%+v", x)
		}
		if got := string(output(t, h, id, execution.Stdout)); got != "in "+id {
			t.Errorf("output %q", got)
		}
		want += id + " value" + id + " " + theSecret + " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n"
	}
	want += "keyed\nheld\nnew\n"
	for _, id := range []string{key, "held", "new"} {
		wantOutcome(t, finish(t, h, id), execution.Exited, 0, "")
	}
	if got, err := os.ReadFile(filepath.Join(work, "order")); err != nil || string(got) != want {
		t.Errorf("got\n%s%v, want\n%s", got, err, want)
	}
	until(t, "nothing is left of the queue", func() bool {
		return len(waitingFiles(t, opts))+len(runDirs(t, opts)) == 0
	})
}

// TestQueuedExecutionAfterCrashStartsOnceOrIsLost kills the server at each step between accepted and started. The
// command is started once if it certainly was not started before, and is lost otherwise.
func TestQueuedExecutionAfterCrashStartsOnceOrIsLost(t *testing.T) {
	begun := func(t *testing.T, file string) {
		t.Helper()
		if err := os.Rename(file+".waiting", file+".begun"); err != nil {
			t.Fatal(err)
		}
	}
	dir := func(t *testing.T, file, lock string) {
		t.Helper()
		err := errors.Join(os.Mkdir(file, 0o700), os.WriteFile(filepath.Join(file, "lock"), []byte(lock), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	cut := func(t *testing.T, file string) {
		t.Helper()
		if err := os.Truncate(file+".waiting", 20); err != nil {
			t.Fatal(err)
		}
	}
	const notStarted = "the server died before the command was started"
	const restarted = "the machine or the container was restarted"
	for name, c := range map[string]struct {
		crash func(t *testing.T, file string)
		lost  string // why; "" where it is started
	}{
		"it waits":                   {crash: func(*testing.T, string) {}},
		"its file was being written": {crash: cut, lost: notStarted},
		"its turn has come":          {crash: begun},
		"it has a directory":         {crash: func(t *testing.T, file string) { begun(t, file); dir(t, file, "") }},
		"a supervisor without the command notices late": {crash: func(t *testing.T, file string) {
			begun(t, file)
			dir(t, file, "")
			lock, err := supervisor.Lock(file)
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(200*time.Millisecond, func() { _ = lock.Close() })
		}},
		"a directory without a lock": {
			crash: func(t *testing.T, file string) { begun(t, file); _ = os.Mkdir(file, 0o700) },
		},
		"a supervisor has taken it": {
			crash: func(t *testing.T, file string) { begun(t, file); dir(t, file, "\n") }, lost: restarted,
		},
		"the machine has crashed": {
			crash: func(t *testing.T, file string) { begun(t, file); otherMachine(t, file+".begun") }, lost: restarted,
		},
		"the machine was restarted": {
			crash: func(t *testing.T, file string) { otherMachine(t, file+".waiting") },
		},
		"the next file was being written": {crash: func(t *testing.T, file string) { dirty(t, file+".waiting.new") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := newLog(t, memstore.New(nil), nil)
			work := t.TempDir()
			opts := execution.Options{RunsDir: t.TempDir(), Dir: work, MaxRunning: 1}
			leave(t, log, opts, func(h *execution.Host) {
				blocked(t, h)
				start(t, h, execution.Request{ID: "q", Command: "echo run >> runs"})
			})
			files := waitingFiles(t, opts)
			if len(files) != 1 {
				t.Fatalf("files %v", files)
			}
			c.crash(t, strings.TrimSuffix(files[0], ".waiting"))
			for range 2 {
				leave(t, log, opts, func(*execution.Host) {})
			}
			h := openHost(t, log, opts)
			open(t, h)
			x := finish(t, h, "q")
			runs, err := os.ReadFile(filepath.Join(work, "runs"))
			if c.lost != "" {
				if wantOutcome(t, x, execution.Lost, -1, ""); !errors.Is(err, fs.ErrNotExist) || x.Error != c.lost {
					t.Errorf("%q: it was started: %q, %v", x.Error, runs, err)
				}
			} else if wantOutcome(t, x, execution.Exited, 0, ""); string(runs) != "run\n" {
				t.Errorf("it was started %q, %v", runs, err)
			}
			finish(t, h, "blocker")
			until(t, "nothing is left", func() bool {
				left, err := os.ReadDir(opts.RunsDir)
				return err == nil && len(left) == 1+len(spares(t, opts)) // the secret
			})
		})
	}
}

func dirty(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// otherMachine makes a file that of another boot of the machine.
func otherMachine(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Replace(text, bytes.TrimSpace(boot), []byte("another-boot"), 1)
	if bytes.Equal(other, text) {
		t.Fatal("the file does not name the boot")
	}
	if err := os.WriteFile(file, other, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestQueuedRunCannotBeStarted: what its request needs was there when it was accepted, and is gone when its turn comes.
func TestQueuedRunCannotBeStarted(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	secrets := named(t, tenant, map[string]string{"token": theSecret})
	hidden := t.TempDir()
	opts := execution.Options{RunsDir: t.TempDir(), MaxRunning: 1, Secrets: secrets}
	leave(t, log, opts, func(h *execution.Host) {
		blocked(t, h)
		start(t, h, execution.Request{ID: "secret", Command: "true", Secrets: map[string]string{"T": "token"}})
		away := execution.Access{Hidden: []string{hidden}}
		start(t, h, execution.Request{ID: "access", Command: "true", Access: away})
	})
	err := errors.Join(os.Remove(filepath.Join(secrets, string(tenant), "token")), os.Remove(hidden))
	if err != nil {
		t.Fatal(err)
	}
	h := openHost(t, log, opts)
	open(t, h)
	for _, id := range []string{"secret", "access"} {
		x := finish(t, h, id)
		if wantOutcome(t, x, execution.FailedToStart, -1, ""); x.Error == "" {
			t.Errorf("%s: no error", id)
		}
	}
}

// TestQueuedInterpreterOutlivesTheServer: it is an interpreter when its turn comes.
func TestQueuedInterpreterOutlivesTheServer(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	opts := execution.Options{RunsDir: t.TempDir(), MaxRunning: 1}
	leave(t, log, opts, func(h *execution.Host) {
		blocked(t, h)
		openInterpreter(t, h, interpreter.Request{Language: "bash", ID: "i"})
	})
	h := openHost(t, log, opts)
	open(t, h)
	if r := runCode(t, h, "i", "x=41; echo $((x + 1))"); r.stdout != "42\n" {
		t.Errorf("%+v", r)
	}
}

// TestQueueOfAReplicaThatComesBack: it starts what waited, also when it was away under two names; to others it waits
// all the while. One that comes too late starts nothing.
func TestQueueOfAReplicaThatComesBack(t *testing.T) {
	hub := shared.New(memstore.New(nil))
	other := &node{store: newCuttable(hub.Store())}
	other.open(t, &replica.Options{Name: "other", Beat: testBeat, TTL: longTTL}, execution.Options{})
	work := t.TempDir()
	opts := execution.Options{RunsDir: t.TempDir(), Dir: work, MaxRunning: 1}
	incarnation := func() *node {
		nd := &node{store: newCuttable(hub.Store())}
		nd.open(t, &replica.Options{Name: "back", Beat: testBeat, TTL: longTTL}, opts)
		return nd
	}
	gone := func(nd *node) {
		if left, err := nd.Leave(); err != nil || left == 0 {
			t.Fatalf("%d runs are left, %v", left, err)
		}
		nd.member.Vanish()
	}
	nd := incarnation()
	blocked(t, nd.Host)
	start(t, nd.Host, execution.Request{ID: "q", Command: "echo run | tee -a runs; exit 4"})
	for range 2 {
		name := nd.member.Name()
		gone(nd)
		nd = incarnation()
		other.buries(t, name)
		if got := status(t, other.Host, "q"); got != execution.StatusQueued {
			t.Errorf("to others it is %s", got)
		}
	}
	start(t, nd.Host, execution.Request{ID: "cancelled", Command: "echo cancelled >> runs"})
	if err := other.Cancel(within(t), tenant, "cancelled"); err != nil {
		t.Fatal(err)
	}
	open(t, nd.Host)
	x := finish(t, other.Host, "q")
	wantOutcome(t, x, execution.Exited, 4, "")
	got := string(output(t, other.Host, "q", execution.Stdout))
	if got != "run\n" || x.OutputTruncated || x.Bytes.Stdout != 4 {
		t.Errorf("output %q, %+v", got, x)
	}
	wantOutcome(t, finish(t, other.Host, "cancelled"), execution.Cancelled, -1, "")

	start(t, nd.Host, execution.Request{ID: "blocks", Command: "echo up; exec sleep 1000"})
	await(t, other.Host, "blocks", "up")
	start(t, nd.Host, execution.Request{ID: "late", Command: "echo late >> runs"})
	name := nd.member.Name()
	gone(nd)
	other.buries(t, name)
	for _, id := range []string{"blocks", "late"} {
		wantOutcome(t, finish(t, other.Host, id), execution.Lost, -1, "")
	}
	incarnation()
	until(t, "nothing is left", func() bool { return len(waitingFiles(t, opts))+len(runDirs(t, opts)) == 0 })
	if runs, err := os.ReadFile(filepath.Join(work, "runs")); err != nil || string(runs) != "run\n" {
		t.Errorf("%q, %v", runs, err)
	}
}

// TestQueueThatCannotBeKept: an execution that has to wait where nothing can be written ends at once, and says why.
func TestQueueThatCannotBeKept(t *testing.T) {
	opts := execution.Options{RunsDir: t.TempDir(), MaxRunning: 1}
	h := newHost(t, opts)
	blocked(t, h)
	moved := opts.RunsDir + ".moved"
	if err := os.Rename(opts.RunsDir, moved); err != nil {
		t.Fatal(err)
	}
	x := start(t, h, execution.Request{Command: "true"})
	x = finish(t, h, x.ID)
	if err := os.Rename(moved, opts.RunsDir); err != nil {
		t.Fatal(err)
	}
	if wantOutcome(t, x, execution.FailedToStart, -1, ""); !strings.Contains(x.Error, "it has to wait") {
		t.Errorf("%q", x.Error)
	}
}

// TestStopEndsTheQueue: what is told to end all ends what waits too, and no later server starts it.
func TestStopEndsTheQueue(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	opts := execution.Options{RunsDir: t.TempDir(), MaxRunning: 1}
	h, err := execution.Open(t.Context(), log, &opts)
	if err != nil {
		t.Fatal(err)
	}
	blocked(t, h)
	start(t, h, execution.Request{ID: "q", Command: "true"})
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h = openHost(t, log, opts)
	wantOutcome(t, finish(t, h, "q"), execution.Cancelled, -1, "")
	if files := waitingFiles(t, opts); !slices.Equal(files, nil) {
		t.Errorf("files %v", files)
	}
}

// TestRemovedFromTheQueueWhileAway: its stream is gone, and it is not started.
func TestRemovedFromTheQueueWhileAway(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	work := t.TempDir()
	opts := execution.Options{RunsDir: t.TempDir(), Dir: work, MaxRunning: 1}
	leave(t, log, opts, func(h *execution.Host) {
		blocked(t, h)
		start(t, h, execution.Request{ID: "q", Command: "echo run >> runs"})
	})
	if err := log.Remove(t.Context(), reprise.StreamKey{Tenant: tenant, Name: "execution:q"}); err != nil {
		t.Fatal(err)
	}
	h := openHost(t, log, opts)
	open(t, h)
	finish(t, h, "blocker")
	start(t, h, execution.Request{ID: "q", Command: "echo other >> runs"})
	wantOutcome(t, finish(t, h, "q"), execution.Exited, 0, "")
	if runs, err := os.ReadFile(filepath.Join(work, "runs")); err != nil || string(runs) != "other\n" {
		t.Errorf("%q, %v", runs, err)
	}
	if files := waitingFiles(t, opts); len(files) != 0 {
		t.Errorf("files %v", files)
	}
}

// TestQueuedStartIsRecordedFirst: nothing is started if the record cannot be written, since a later server would start
// it again.
func TestQueuedStartIsRecordedFirst(t *testing.T) {
	work := t.TempDir()
	opts := execution.Options{RunsDir: t.TempDir(), Dir: work, MaxRunning: 1}
	h := newHost(t, opts)
	blocked(t, h)
	start(t, h, execution.Request{ID: "q", Command: "echo run >> runs"})
	file := strings.TrimSuffix(waitingFiles(t, opts)[0], ".waiting") + ".begun"
	if err := os.MkdirAll(filepath.Join(file, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	open(t, h)
	wantOutcome(t, finish(t, h, "q"), execution.FailedToStart, -1, "")
	if _, err := os.Stat(filepath.Join(work, "runs")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was started: %v", err)
	}
}
