package mcptask_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/mcp/mcptask"
	"reprise/store/memstore"
)

// flaky is a store that can be away.
type flaky struct {
	reprise.Store
	away    atomic.Bool
	refused atomic.Int64 // appends
}

func (f *flaky) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	if !f.away.Load() {
		return f.Store.Append(ctx, reqs)
	}
	f.refused.Add(1)
	errs := make([]error, len(reqs))
	for i := range errs {
		errs[i] = fmt.Errorf("away: %w", reprise.ErrUnavailable)
	}
	return errs
}

func (f *flaky) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	if f.away.Load() {
		return reprise.StreamInfo{}, reprise.ErrUnavailable
	}
	return f.Store.Create(ctx, info)
}

func TestStoreFails(t *testing.T) {
	store := &flaky{Store: memstore.New(nil)}
	log := newLog(t, store)
	release := make(chan struct{})
	w := newFixtureWith(t, log, nil, addHeld(release))
	defer log.Close()
	defer w.close()
	id := w.task("held", `{"label":"x"}`)
	asking := w.task("confirm_delete", `{}`)
	w.until(asking, mcptask.InputRequired)
	store.away.Store(true)
	close(release)
	for deadline := time.Now().Add(patience); store.refused.Load() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the result is not appended")
		}
	}
	if got := w.get(id).Result.Status; got != mcptask.Working {
		t.Errorf("what is not kept is shown: %s", got)
	}
	if a := w.update(asking, `{"confirm":{"action":"accept"}}`); a.Error == nil {
		t.Error("what is not kept is acknowledged")
	}
	if a := w.call("slow_compute", `{}`); a.Error == nil {
		t.Errorf("a task that is not kept: %+v", a)
	}
	if a := w.call("maybe_slow", `{"seconds":0.1,"label":"late"}`); a.Error != nil ||
		a.Result.ResultType != "complete" {
		t.Errorf("a call that need not be a task: %+v", a)
	}
	store.away.Store(false)
	w.until(id, mcptask.Completed)
	w.update(asking, `{"confirm":{"action":"accept"}}`)
	w.until(asking, mcptask.Completed)
}

func TestTooManyTasks(t *testing.T) {
	w := newFixture(t, &mcptask.Options{MaxRunning: 1})
	id := w.task("slow_compute", `{"seconds":60}`)
	if a := w.call("slow_compute", `{}`); a.Error == nil {
		t.Errorf("one more: %+v", a)
	}
	w.send("", "tasks/cancel", fmt.Sprintf(`{"taskId":%q}`, id), withTasks)
	w.until(id, mcptask.Cancelled)
	deadline := time.Now().Add(patience)
	for ; w.call("slow_compute", `{}`).Error != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("there is no place again")
		}
	}
}

func TestExpiredTaskIsUnknown(t *testing.T) {
	w := newFixture(t, &mcptask.Options{Keep: 50 * time.Millisecond})
	id := w.task("slow_compute", `{}`)
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if a := w.get(id); a.Error != nil {
			if a.Error.Code != -32602 || a.Error.Message != "task has expired" {
				t.Errorf("then %+v", a.Error)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it is kept for ever")
		}
	}
	if _, err := w.log.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := w.get(id); a.Error == nil || a.Error.Code != -32602 {
		t.Errorf("after the sweep: %+v", a)
	}
}

// TestHooksCountEachTaskOnce: each task is counted once, also where many are made, asked for and cancelled at a time.
func TestHooksCountEachTaskOnce(t *testing.T) {
	var created, ended, cancelled atomic.Int64
	w := newFixture(t, &mcptask.Options{Hooks: &mcptask.Hooks{
		Created: func(reprise.Tenant) { created.Add(1) },
		Ended: func(_ reprise.Tenant, s mcptask.Status) {
			ended.Add(1)
			if s == mcptask.Cancelled {
				cancelled.Add(1)
			}
		},
	}})
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			id := w.task("slow_compute", fmt.Sprintf(`{"seconds":%g}`, []float64{0, 0.05, 60, 0.2}[i%4]))
			if i%4 == 2 {
				w.send("", "tasks/cancel", fmt.Sprintf(`{"taskId":%q}`, id), withTasks)
			}
			for !w.get(id).Result.Status.Ended() {
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	all.Wait()
	for deadline := time.Now().Add(patience); ended.Load() != 40 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	if created.Load() != 40 || ended.Load() != 40 || cancelled.Load() != 10 {
		t.Errorf("%d created, %d ended, %d cancelled", created.Load(), ended.Load(), cancelled.Load())
	}
}

// TestOptionsThatMakeNoSenseAreRefused: what makes no sense is refused.
func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	log := newLog(t, memstore.New(nil))
	defer log.Close()
	for _, bad := range []*mcptask.Options{
		{Name: "a/b"}, {Name: "012345678901234567890123456789012"}, {Keep: -1}, {Poll: -1}, {MaxRunning: -1},
	} {
		if _, err := mcptask.New(log, bad); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
