package execution_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/store/memstore"
)

// failing is a store whose appends fail on demand, every other time after the batch was
// stored, as when an answer is lost, where lossy is set.
type failing struct {
	*memstore.Store
	lossy atomic.Bool
	err   atomic.Pointer[error]
	tries atomic.Int64
}

func (f *failing) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	err := f.err.Load()
	if err == nil {
		return f.Store.Append(ctx, reqs)
	}
	if f.tries.Add(1)%2 == 0 && f.lossy.Load() {
		_ = f.Store.Append(ctx, reqs)
	}
	errs := make([]error, len(reqs))
	for i := range errs {
		errs[i] = fmt.Errorf("injected: %w", *err)
	}
	return errs
}

// TestStoreFailsForAWhile: a chatty command is held up and loses nothing.
func TestStoreFailsForAWhile(t *testing.T) {
	t.Parallel()
	const lines, early = 1_000_000, 250_000 // 6.9 MB, of which 1.6 MB fit in memory
	for _, cause := range []error{reprise.ErrUnavailable, reprise.ErrQuota} {
		t.Run(cause.Error(), func(t *testing.T) {
			store := &failing{Store: memstore.New(nil)}
			var stalled atomic.Int64
			dir := t.TempDir()
			h := openHost(t, newLog(t, store, nil), execution.Options{Dir: dir, Hooks: &execution.Hooks{
				Stalled: func(_ reprise.Tenant, d time.Duration) { stalled.Add(int64(d)) },
			}})
			x := start(t, h, execution.Request{
				Command:   fmt.Sprintf("echo up; read go; seq %d; : >early; seq %d %d", early, early+1, lines),
				StdinOpen: true,
			})
			await(t, h, x.ID, "up")
			// the first time nothing is stored, so that the command has to wait
			for i, tries := range []int64{8, 4, 4} {
				store.err.Store(&cause)
				if i == 0 {
					_, err := h.WriteStdin(within(t), tenant, x.ID, execution.StdinWrite{Data: strings.NewReader("\n")})
					if err != nil {
						t.Fatal(err)
					}
					until(t, "the command has printed as much as fits in memory", func() bool {
						_, err := os.Stat(filepath.Join(dir, "early"))
						return err == nil
					})
				}
				before := store.tries.Load()
				until(t, "appends fail", func() bool {
					return store.tries.Load() >= before+tries || h.Counts() == execution.Counts{}
				})
				store.lossy.Store(true)
				store.err.Store(nil)
			}
			x = finish(t, h, x.ID)
			wantOutcome(t, x, execution.Exited, 0, "")
			var want bytes.Buffer
			want.WriteString("up\n")
			for i := range int64(lines) {
				want.Write(append(strconv.AppendInt(want.AvailableBuffer(), i+1, 10), '\n'))
			}
			if got := output(t, h, x.ID, execution.Stdout); !bytes.Equal(got, want.Bytes()) {
				t.Errorf("%d bytes, want %d", len(got), want.Len())
			}
			if stalled.Load() == 0 {
				t.Error("the wait was not measured")
			}
		})
	}
}

// TestStoreFailsAtTheEnd: the end is kept when the store is back, and once.
func TestStoreFailsAtTheEnd(t *testing.T) {
	store := &failing{Store: memstore.New(nil)}
	store.lossy.Store(true)
	h := openHost(t, newLog(t, store, nil), execution.Options{})
	x := start(t, h, execution.Request{Command: "echo up; read x", StdinOpen: true})
	await(t, h, x.ID, "up")
	cause := reprise.ErrUnavailable
	store.err.Store(&cause)
	if _, err := h.WriteStdin(within(t), tenant, x.ID, execution.StdinWrite{EOF: true}); err != nil {
		t.Fatal(err)
	}
	until(t, "appends fail", func() bool { return store.tries.Load() >= 2 })
	if got := status(t, h, x.ID); got != execution.StatusRunning && got != execution.StatusEnded {
		t.Errorf("status %s", got)
	}
	store.err.Store(nil)
	wantOutcome(t, finish(t, h, x.ID), execution.Exited, 1, "")
}

// TestStreamIsRemovedUnderACommand: there is nowhere to put its output, so it is killed.
func TestStreamIsRemovedUnderACommand(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	h := openHost(t, log, execution.Options{})
	x := start(t, h, execution.Request{Command: `echo "child $$"; while :; do echo more; sleep 0.01; done`})
	pids := children(await(t, h, x.ID, "more"))
	s, err := h.Stream(within(t), tenant, x.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Remove(within(t), s.Key()); err != nil {
		t.Fatal(err)
	}
	until(t, "the run is over", func() bool { return h.Counts() == execution.Counts{} })
	if len(pids) != 1 || alive(pids[0]) {
		t.Errorf("left behind: %v", pids)
	}
}

// TestStartIsToldOfAFailingStore: nothing is run that is not kept, and the same start
// succeeds later.
func TestStartIsToldOfAFailingStore(t *testing.T) {
	store := &lostCreate{Store: memstore.New(nil)}
	h := openHost(t, newLog(t, store, nil), execution.Options{})
	req := execution.Request{ID: "x", Command: "echo once"}
	if _, _, err := h.Start(within(t), tenant, req); !errors.Is(err, reprise.ErrUnavailable) {
		t.Fatalf("start: %v", err)
	}
	if got := h.Counts(); got != (execution.Counts{}) {
		t.Errorf("counts %+v", got)
	}
	start(t, h, req)
	x := finish(t, h, "x")
	if got := output(t, h, x.ID, execution.Stdout); string(got) != "once\n" {
		t.Errorf("output %q", got)
	}
}

// lostCreate is a store of which one Create of an execution succeeds and is not answered: the first, or the one after
// calls was set to 0.
type lostCreate struct {
	*memstore.Store
	calls atomic.Int64
}

func (l *lostCreate) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	created, err := l.Store.Create(ctx, info)
	if info.Key.Namespace() == "execution:" && l.calls.Add(1) == 1 {
		return reprise.StreamInfo{}, fmt.Errorf("the answer was lost: %w", reprise.ErrUnavailable)
	}
	return created, err
}

// TestCodeWhoseStartWasNotAnsweredRunsOnce: the same request starts it, once.
func TestCodeWhoseStartWasNotAnsweredRunsOnce(t *testing.T) {
	store := &lostCreate{Store: memstore.New(nil)}
	store.calls.Store(1)
	h := openHost(t, newLog(t, store, nil), execution.Options{})
	i := openInterpreter(t, h, interpreter.Request{Language: "bash"})
	store.calls.Store(0)
	req := execution.Request{ID: "x", Interpreter: i.ID, Code: "echo once"}
	if _, _, err := h.Start(longWithin(t), tenant, req); !errors.Is(err, reprise.ErrUnavailable) {
		t.Fatalf("start: %v", err)
	}
	start(t, h, req)
	if got := ended(t, h, "x"); got.stdout != "once\n" {
		t.Errorf("%+v", got)
	}
}

// TestReadersDoNotHoldACommand leaves a reader that never reads.
func TestReadersDoNotHoldACommand(t *testing.T) {
	h := newHost(t, execution.Options{})
	x := start(t, h, execution.Request{Command: "seq 1 2000000"})
	r := reader(t, h, x.ID) // and never reads
	defer r.Close()
	wantOutcome(t, finish(t, h, x.ID), execution.Exited, 0, "")
}

// TestCloseIsBoundedWhenEndCannotBeStored: an end that cannot be stored does not block Close for ever, and the
// execution ends as lost when it is opened again.
func TestCloseIsBoundedWhenEndCannotBeStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &failing{Store: memstore.New(nil)}
		log := newLog(t, store, nil)
		opts := &execution.Options{DisableCgroups: true, Dir: "/", Grace: time.Second}
		h, err := execution.Open(t.Context(), log, opts)
		if err != nil {
			t.Fatal(err)
		}
		cause := reprise.ErrUnavailable
		store.err.Store(&cause)
		x, _, err := h.Start(t.Context(), tenant, execution.Request{Command: "true", Cwd: "/no/such/directory"})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := h.Close(); !errors.Is(err, reprise.ErrUnavailable) {
			t.Errorf("close: %v", err)
		}
		if d := time.Since(began); d > time.Minute {
			t.Errorf("it took %s", d)
		}
		store.err.Store(nil)
		again, err := execution.Open(t.Context(), log, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if x, err = again.Show(t.Context(), tenant, x.ID); err != nil {
			t.Fatal(err)
		}
		wantOutcome(t, x, execution.Lost, -1, "")
	})
}

// TestOutputThatCannotBeKept: the log takes no event of that size. The command may have
// ended before that is found out; either way its end tells that something is missing.
func TestOutputThatCannotBeKept(t *testing.T) {
	log := newLog(t, memstore.New(nil), &reprise.Options{MaxEventBytes: 1000})
	h := openHost(t, log, execution.Options{})
	for _, after := range []string{"", "; exec sleep 100"} {
		x := sh(t, h, "printf %05000d 1"+after)
		if !x.OutputTruncated || x.Error == "" {
			t.Errorf("outcome %s, truncated %t, error %q", x.Outcome, x.OutputTruncated, x.Error)
		}
	}
}

// TestFencedOutputKillsCommand (G9): output that is refused because another replica owns the stream ends the command at
// once, whatever the heartbeats of the replicas say.
func TestFencedOutputKillsCommand(t *testing.T) {
	store := &failing{Store: memstore.New(nil)}
	var fenced atomic.Int64
	h := openHost(t, newLog(t, store, nil), execution.Options{Hooks: &execution.Hooks{
		Fenced: func(reprise.Tenant) { fenced.Add(1) },
	}})
	x := start(t, h, execution.Request{Command: "while :; do echo more; sleep 0.01; done"})
	await(t, h, x.ID, "more")
	cause := reprise.ErrFenced
	store.err.Store(&cause)
	until(t, "the run is fenced off", func() bool { return fenced.Load() > 0 && h.Counts() == execution.Counts{} })
	if fenced.Load() != 1 {
		t.Errorf("%d runs were fenced off, want 1", fenced.Load())
	}
}
