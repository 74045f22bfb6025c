package execution_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/store/memstore"
)

// TestStartIsOnce starts the same request from many goroutines, over and over, and
// counts in a file how often it ran (G9).
func TestStartIsOnce(t *testing.T) {
	for name, req := range map[string]execution.Request{
		"id":  {ID: "once"},
		"key": {IdempotencyKey: "a key of any form: /\x00é"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, execution.Options{})
			file := filepath.Join(t.TempDir(), "runs")
			req.Command = "echo run >>" + file
			var mu sync.Mutex
			ids, made := map[string]bool{}, 0
			var all sync.WaitGroup
			for range 16 {
				all.Go(func() {
					for range 4 {
						x, created, err := h.Start(t.Context(), tenant, req)
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						ids[x.ID] = true
						if created {
							made++
						}
						mu.Unlock()
					}
				})
			}
			all.Wait()
			if len(ids) != 1 || made != 1 {
				t.Fatalf("ids %v, created %d times", ids, made)
			}
			for id := range ids {
				finish(t, h, id)
				if _, created, err := h.Start(within(t), tenant, req); created || err != nil {
					t.Errorf("after the end: created %t, %v", created, err)
				}
			}
			if runs, _ := os.ReadFile(file); string(runs) != "run\n" {
				t.Errorf("ran %d times", strings.Count(string(runs), "run"))
			}
		})
	}
}

// TestAnotherRequestIsAConflict changes one thing at a time, what is not shown included.
func TestAnotherRequestIsAConflict(t *testing.T) {
	h := newHost(t, execution.Options{})
	stdin := func(s string) *string { return &s }
	base := func() execution.Request {
		return execution.Request{
			ID: "one", Command: "true", Env: map[string]string{"A": "1"}, Stdin: stdin("x"),
			Labels: map[string]string{"l": "1"},
		}
	}
	start(t, h, base())
	for name, change := range map[string]func(*execution.Request){
		"command": func(r *execution.Request) { r.Command = "false" },
		"argv":    func(r *execution.Request) { r.Command, r.Argv = "", []string{"true"} },
		"env":     func(r *execution.Request) { r.Env = map[string]string{"A": "2"} },
		"stdin":   func(r *execution.Request) { r.Stdin = stdin("y") },
		"session": func(r *execution.Request) { r.Session = "s" },
		"labels":  func(r *execution.Request) { r.Labels = nil },
		"timeout": func(r *execution.Request) { r.Timeout = 1e9 },
		"limits":  func(r *execution.Request) { r.Limits.OutputBytes = 1 },
		"key":     func(r *execution.Request) { r.IdempotencyKey = "k" },
	} {
		req := base()
		change(&req)
		if _, _, err := h.Start(within(t), tenant, req); !errors.Is(err, reprise.ErrConflict) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if _, created, err := h.Start(within(t), tenant, base()); created || err != nil {
		t.Errorf("the same: created %t, %v", created, err)
	}
	if _, created, err := h.Start(within(t), "other", base()); !created || err != nil {
		t.Errorf("the same for another tenant: created %t, %v", created, err)
	}
}

func TestKeysGiveUnguessableIDs(t *testing.T) {
	store := memstore.New(nil)
	log := newLog(t, store, nil)
	secret := []byte("0123456789abcdef0123456789abcdef")
	req := execution.Request{IdempotencyKey: "k", Command: "true"}
	h := openHost(t, log, execution.Options{Secret: secret})
	first := finish(t, h, start(t, h, req).ID)
	other, _, err := h.Start(within(t), "other", req)
	if err != nil || other.ID == first.ID {
		t.Errorf("another tenant's is %s, %v", other.ID, err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	again := openHost(t, log, execution.Options{Secret: secret, MaxRunning: 3})
	if x, created, err := again.Start(within(t), tenant, req); err != nil || created || x.ID != first.ID {
		t.Errorf("after a restart: %s, created %t, %v", x.ID, created, err)
	}
}

func TestInvalidRequests(t *testing.T) {
	h := newHost(t, execution.Options{})
	for _, c := range []struct{ field, body string }{
		{"argv", `{}`},
		{"argv", `{"argv":["a"],"command":"b"}`},
		{"argv", `{"argv":[""]}`},
		{"argv", `{"argv":["a","b\u0000"]}`},
		{"command", `{"command":"a\u0000"}`},
		{"code", `{"command":"a","code":"b"}`},
		{"language", `{"language":"cobol","code":"b"}`},
		{"shell", `{"command":"a","shell":"/bin/evil"}`},
		{"shell", `{"argv":["a"],"shell":"bash"}`},
		{"shell", `{"interpreter":"i","code":"a","shell":"bash"}`},
		{"id", `{"command":"a","id":"a/b"}`},
		{"id", `{"command":"a","id":".."}`},
		{"id", `{"command":"a","id":"a\nb"}`},
		{"id", fmt.Sprintf(`{"command":"a","id":%q}`, strings.Repeat("x", 10_000))},
		{"session", `{"command":"a","session":"a b"}`},
		{"env", `{"command":"a","env":{"A=B":"c"}}`},
		{"env", `{"command":"a","env":{"":"c"}}`},
		{"env", `{"command":"a","env":{"A":"\u0000"}}`},
		{"cwd", `{"command":"a","cwd":"\u0000"}`},
		{"stdin_base64", `{"command":"a","stdin":"a","stdin_base64":"YQ=="}`},
		{"tty", `{"command":"a","tty":{"cols":70000}}`},
		{"timeout", `{"command":"a","timeout":"-1s"}`},
		{"grace", `{"command":"a","grace":"-1s"}`},
		{"grace", `{"command":"a","grace":"1m0.001s"}`},
		{"limits.memory_bytes", `{"command":"a","limits":{"memory_bytes":-1}}`},
		{"limits.cpu_time", `{"command":"a","limits":{"cpu_time":"-1s"}}`},
		{"retention.max_age", `{"command":"a","retention":{"max_age":"-1s"}}`},
		{"labels", `{"command":"a","labels":{"":"x"}}`},
		{"isolation", `{"command":"a","isolation":"none","access":{"network":"off"}}`},
		{"access.network", `{"command":"a","access":{"network":"maybe"}}`},
		{"access.writable", `{"command":"a","access":{"writable":["src"]}}`},
		{"access.hidden", `{"command":"a","access":{"hidden":["/a\u0000"]}}`},
		{"access", `{"command":"a","access":{"hidden":["/no-such-directory"]}}`},
		{"isolation", `{"command":"a","isolation":"magic"}`},
		{"isolation", `{"command":"a","isolation":"none","limits":{"processes":3}}`},
	} {
		var req execution.Request
		if err := json.Unmarshal([]byte(c.body), &req); err != nil {
			t.Fatalf("%s: %v", c.body, err)
		}
		_, _, err := h.Start(within(t), tenant, req)
		field, ok := errors.AsType[*execution.FieldError](err)
		if !ok || field.Field != c.field || !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%.60s: %v, want field %s", c.body, err, c.field)
		}
	}
	if err := (&execution.Request{Command: "a", Grace: execution.Duration(time.Minute)}).Validate(); err != nil {
		t.Errorf("the longest grace: %v", err)
	}
	var d execution.Duration
	if err := json.Unmarshal([]byte(`"soon"`), &d); !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("duration: %v", err)
	}
	if _, err := h.Show(within(t), tenant, "../secret"); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("a hostile id: %v", err)
	}
	if err := h.Signal(within(t), tenant, sh(t, h, "true").ID, "NOPE"); !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("a signal that is none: %v", err)
	}
}

func TestRequestsKeepTheirJSONForm(t *testing.T) {
	const body = `{"id":"a","session":"s","argv":["x","y"],"cwd":"/d","env":{"A":"b"},"stdin_base64":"AAH/",` +
		`"stdin_open":true,"tty":{"cols":80,"rows":24},"timeout":"1m30s","grace":"5s","kill_on_disconnect":true,` +
		`"labels":{"k":"v"},"limits":{"output_bytes":1,"memory_bytes":2,"processes":3,"cpu_time":"4s"},` +
		`"retention":{"max_events":5,"max_bytes":6,"max_age":"1h0m0s"},"isolation":"limits"}`
	var req execution.Request
	if err := json.Unmarshal([]byte(body), &req); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(req); err != nil || string(again) != body {
		t.Errorf("got  %s, %v\nwant %s", again, err, body)
	}
}

func TestShellOfCommand(t *testing.T) {
	h := newHost(t, execution.Options{})
	for shell, want := range map[string]string{"": "sh\n", "sh": "sh\n", "bash": "bash\n"} {
		x := finish(t, h, start(t, h, execution.Request{Command: "echo ${0##*/}", Shell: shell}).ID)
		wantOutcome(t, x, execution.Exited, 0, "")
		if got := output(t, h, x.ID, execution.Stdout); string(got) != want {
			t.Errorf("%q: %q", shell, got)
		}
	}
}

// TestLongRequestsAreShownShort: what is shown is bounded, what is run is not.
func TestLongRequestsAreShownShort(t *testing.T) {
	h := newHost(t, execution.Options{})
	env := map[string]string{}
	for i := range 3000 {
		env[fmt.Sprintf("A_RATHER_LONG_NAME_OF_A_VARIABLE_%d", i)] = "v"
	}
	args := []string{"sh", "-c", `echo $#`, "sh"}
	for range 5000 {
		args = append(args, strings.Repeat("€\x01\"", 10))
	}
	x := finish(t, h, start(t, h, execution.Request{Argv: args, Env: env, Cwd: strings.Repeat("./", 2000)}).ID)
	wantOutcome(t, x, execution.Exited, 0, "")
	if got := output(t, h, x.ID, execution.Stdout); string(got) != "5000\n" {
		t.Errorf("got %q", got)
	}
	x = finish(t, h, start(t, h,
		execution.Request{Command: ": " + strings.Repeat("\x01", 100_000), Cwd: strings.Repeat("\x01", 20_000)}).ID)
	wantOutcome(t, x, execution.FailedToStart, -1, "")
}

// halfMade is a shared store whose first Create is done and answers that it failed. The first read after that waits.
type halfMade struct {
	*memstore.Store
	failed, read  atomic.Bool
	reading, goOn chan struct{}
}

func (*halfMade) Watch(reprise.StreamKey, func()) (func(), error) { return func() {}, nil }

func (s *halfMade) Create(ctx context.Context, want reprise.StreamInfo) (reprise.StreamInfo, error) {
	info, err := s.Store.Create(ctx, want)
	if err == nil && s.failed.CompareAndSwap(false, true) {
		return reprise.StreamInfo{}, reprise.ErrUnavailable
	}
	return info, err
}

func (s *halfMade) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	if strings.HasPrefix(key.Name, "execution:") && s.failed.Load() && s.read.CompareAndSwap(false, true) {
		close(s.reading)
		<-s.goOn
	}
	return s.Store.Read(ctx, key, after, maxBytes)
}

// TestCancelDuringStartIsRetried: a cancel between the creation of the stream and that of the execution waits and is
// not acknowledged. The next cancel ends the execution. The store blocks the start at that point.
func TestCancelDuringStartIsRetried(t *testing.T) {
	store := &halfMade{Store: memstore.New(nil), reading: make(chan struct{}), goOn: make(chan struct{})}
	h := openHost(t, newLog(t, store, nil), execution.Options{})
	req := execution.Request{ID: "x", Command: "exec sleep 1000"}
	if _, _, err := h.Start(within(t), tenant, req); !errors.Is(err, reprise.ErrUnavailable) {
		t.Fatalf("the first start: %v", err)
	}
	var starting sync.WaitGroup
	starting.Go(func() {
		if _, created, err := h.Start(within(t), tenant, req); err != nil || !created {
			t.Errorf("the second start: created %v, %v", created, err)
		}
	})
	<-store.reading
	soon, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	early := h.Cancel(soon, tenant, req.ID)
	close(store.goOn)
	starting.Wait()
	if !errors.Is(early, context.DeadlineExceeded) {
		t.Fatalf("a cancel before there is a run: %v", early)
	}
	if err := h.Cancel(within(t), tenant, req.ID); err != nil {
		t.Fatal(err)
	}
	if x := finish(t, h, req.ID); x.Outcome != execution.Cancelled {
		t.Errorf("the outcome is %s", x.Outcome)
	}
}
