package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/identity"
	"reprise/internal/schedule"
	"reprise/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tenant = reprise.DefaultTenant

// fixture is a Log with schedules, in a bubble with a clock of its own, and what was started by when.
type fixture struct {
	t         *testing.T
	log       *reprise.Log
	schedules *schedule.Schedules

	mu      sync.Mutex
	started []string
	known   map[string]int // how often each was asked for
	running map[string]bool
	reasons []string // why schedules were disabled
	err     error    // of Start
	revoked bool
}

func inBubble(t *testing.T, f func(*fixture)) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		log, err := reprise.Open(t.Context(), store, nil)
		if err != nil {
			t.Fatal(err)
		}
		x := &fixture{t: t, log: log, known: map[string]int{}, running: map[string]bool{}}
		x.open()
		f(x)
		x.schedules.Close()
		if err := errors.Join(log.Close(), store.Close()); err != nil {
			t.Fatal(err)
		}
	})
}

func (f *fixture) open() {
	f.t.Helper()
	if f.schedules != nil {
		f.schedules.Close()
	}
	var err error
	f.schedules, err = schedule.Open(f.t.Context(), f.log, &schedule.Options{
		Start: func(_ context.Context, who *identity.Principal, q execution.Request) (
			execution.Execution, bool, error,
		) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if who.Name != "ci" || who.Tenant != tenant {
				f.t.Errorf("started for %+v", who)
			}
			if f.err != nil {
				return execution.Execution{}, false, f.err
			}
			f.known[q.ID]++
			if f.known[q.ID] == 1 {
				slot := q.ID[strings.LastIndexByte(q.ID, 'T')+1:]
				f.started = append(f.started, slot+time.Now().UTC().Format(" 150405"))
			}
			return shown(q.ID, execution.StatusRunning), f.known[q.ID] == 1, nil
		},
		Show: func(_ context.Context, _ reprise.Tenant, id string) (execution.Execution, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.running[id] {
				return shown(id, execution.StatusRunning), nil
			}
			return shown(id, execution.StatusEnded), nil
		},
		Disabled: func(_ *schedule.Schedule, reason string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.reasons = append(f.reasons, reason)
		},
		Principal: func(context.Context, reprise.Tenant, string) (identity.Principal, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.revoked {
				return identity.Principal{}, identity.ErrRevoked
			}
			return identity.Principal{Name: "ci", Tenant: tenant, Grants: identity.AllGrants()}, nil
		},
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// run runs the schedules until stop is called, which returns why they ended.
func (f *fixture) run(fence uint64) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	schedules := f.schedules
	go func() { done <- schedules.Run(ctx, fence) }()
	return func() error {
		cancel()
		return <-done
	}
}

func (f *fixture) add(q schedule.Request) schedule.Schedule {
	f.t.Helper()
	q.Tenant, q.Principal, q.Execution.Argv = tenant, "ci", []string{"true"}
	s, err := f.schedules.Add(f.t.Context(), q)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// sleep lets time pass, and what is due happen.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// wants compares the slots that were started with the times at which they were, and forgets them.
func (f *fixture) wants(want ...string) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.started, want) {
		f.t.Errorf("started %q, want %q", f.started, want)
	}
	f.started = nil
}

// outcomes are what became of the slots of a schedule.
func (f *fixture) outcomes(id string) (list []string) {
	f.t.Helper()
	s, err := f.schedules.Find(tenant, id)
	if err != nil {
		f.t.Fatal(err)
	}
	history, err := f.schedules.History(f.t.Context(), &s)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, slot := range history {
		list = append(list, fmt.Sprint(slot.At.UTC().Format("15:04"), " ", slot.Outcome, " ", slot.Count))
	}
	return list
}

// The bubble's clock begins at midnight UTC on 2000-01-01.

// Each slot is started once, at its time, also when another runs the schedules in between, and by nobody who was
func shown(id, status string) (x execution.Execution) {
	x.ID, x.Status = id, status
	return x
}

// overtaken.
func TestEachSlotStartsOnce(t *testing.T) {
	inBubble(t, func(f *fixture) {
		s := f.add(schedule.Request{Cron: "*/5 * * * *"})
		first := f.run(1)
		sleep(11 * time.Minute)
		f.wants("000500Z 000500", "001000Z 001000")
		second := f.run(2)
		sleep(10 * time.Minute)
		f.wants("001500Z 001500", "002000Z 002000")
		if err := first(); !errors.Is(err, reprise.ErrFenced) {
			f.t.Errorf("the first ends with %v", err)
		}
		if err := second(); !errors.Is(err, context.Canceled) {
			f.t.Errorf("the second ends with %v", err)
		}
		f.open()
		third := f.run(3)
		sleep(5 * time.Minute)
		f.wants("002500Z 002500")
		if got := f.outcomes(s.ID); len(got) != 5 || got[4] != "00:25 started 0" {
			f.t.Errorf("history %q", got)
		}
		if err := f.schedules.Remove(f.t.Context(), tenant, s.ID); err != nil {
			f.t.Error(err)
		}
		sleep(time.Hour)
		f.wants()
		_ = third()
	})
}

// What passes while nobody runs the schedules is told, and made up for once if that is asked for. A slot that is less
// than a minute late is started.
func TestMissedSlots(t *testing.T) {
	for _, test := range []struct {
		once    bool
		away    time.Duration
		started []string
		want    []string
	}{
		{false, 33 * time.Minute, nil, []string{"00:30 missed 3"}},
		{
			false, 30*time.Minute + 20*time.Second,
			[]string{"003000Z 003020"},
			[]string{"00:20 missed 2", "00:30 started 0"},
		},
		{true, 33 * time.Minute, []string{"003000Z 003300"}, []string{"00:20 missed 2", "00:30 started 0"}},
		{true, 13 * time.Minute, []string{"001000Z 001300"}, []string{"00:10 started 0"}},
	} {
		inBubble(t, func(f *fixture) {
			s := f.add(schedule.Request{Cron: "*/10 * * * *", Once: test.once})
			sleep(test.away)
			stop := f.run(1)
			sleep(time.Second)
			f.wants(test.started...)
			if got := f.outcomes(s.ID); !slices.Equal(got, test.want) {
				f.t.Errorf("once %v after %v: %q, want %q", test.once, test.away, got, test.want)
			}
			_ = stop()
		})
	}
}

// While what an earlier slot has started runs, a slot is skipped, unless overlap is allowed.
func TestOverlapIsSkippedUnlessAllowed(t *testing.T) {
	inBubble(t, func(f *fixture) {
		one := f.add(schedule.Request{Cron: "@every 1m"})
		stop := f.run(1)
		f.mu.Lock()
		f.running[one.ID+"-20000101T000100Z"] = true
		f.mu.Unlock()
		sleep(3*time.Minute + time.Second)
		f.wants("000100Z 000100")
		f.mu.Lock()
		clear(f.running)
		f.mu.Unlock()
		sleep(time.Minute)
		f.wants("000400Z 000400")
		want := []string{"00:01 started 0", "00:02 skipped 0", "00:03 skipped 0", "00:04 started 0"}
		if got := f.outcomes(one.ID); !slices.Equal(got, want) {
			f.t.Errorf("%q, want %q", got, want)
		}
		if err := f.schedules.Remove(f.t.Context(), tenant, one.ID); err != nil {
			f.t.Error(err)
		}
		two := f.add(schedule.Request{Cron: "@every 1m", Overlap: true})
		f.mu.Lock()
		f.running[two.ID+"-20000101T000500Z"] = true
		f.mu.Unlock()
		sleep(2 * time.Minute)
		f.wants("000500Z 000500", "000600Z 000600")
		_ = stop()
	})
}

// A start that fails for a while is tried until the slot is missed; one that is refused is told. A schedule whose maker
// was revoked is disabled; once enabled it goes on with the next slot.
func TestStartsThatFail(t *testing.T) {
	inBubble(t, func(f *fixture) {
		s := f.add(schedule.Request{Cron: "0 * * * *", Zone: "Europe/Berlin"})
		stop := f.run(1)
		fail := func(err error, revoked bool) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.err, f.revoked = err, revoked
		}
		fail(reprise.ErrUnavailable, false)
		sleep(time.Hour + 30*time.Second)
		fail(nil, false)
		sleep(20 * time.Second)
		if len(f.started) != 1 || !strings.HasPrefix(f.started[0], "010000Z") {
			f.t.Errorf("started %q", f.started)
		}
		f.started = nil
		fail(reprise.ErrUnavailable, false)
		sleep(time.Hour + 5*time.Minute)
		fail(reprise.ErrConflict, false)
		sleep(time.Hour)
		fail(nil, true)
		sleep(time.Hour)
		want := []string{"01:00 started 0", "02:00 missed 1", "03:00 failed 0"}
		if got := f.outcomes(s.ID); !slices.Equal(got, want) {
			f.t.Errorf("%q, want %q", got, want)
		}
		found, err := f.schedules.Find(tenant, s.ID)
		if err != nil || found.Disabled == nil || !found.Next(time.Now()).IsZero() ||
			!slices.Equal(f.reasons, []string{found.Disabled.Reason}) {
			f.t.Errorf("%+v, %v, told %q", found, err, f.reasons)
		}
		fail(nil, false)
		sleep(5 * time.Hour)
		f.wants()
		if _, err := f.schedules.Enable(f.t.Context(), tenant, s.ID, "ci"); err != nil {
			f.t.Error(err)
		}
		sleep(time.Hour)
		f.wants("100000Z 100000")
		_ = stop()
	})
}

func TestRequestsThatAreRefused(t *testing.T) {
	inBubble(t, func(f *fixture) {
		program := execution.Request{Argv: []string{"true"}}
		named := program
		named.ID = "x"
		for field, q := range map[string]schedule.Request{
			"cron":         {Cron: "61 * * * *", Execution: program},
			"zone":         {Cron: "* * * * *", Zone: "Mars/Base", Execution: program},
			"execution.id": {Cron: "* * * * *", Execution: named},
			"argv":         {Cron: "* * * * *"},
		} {
			q.Tenant = tenant
			_, err := f.schedules.Add(f.t.Context(), q)
			wrong, ok := errors.AsType[*execution.FieldError](err)
			if !ok || field != "argv" && wrong.Field != field {
				f.t.Errorf("%s: %v", field, err)
			}
		}
		s := f.add(schedule.Request{Cron: "@daily"})
		if _, err := f.schedules.Find("other", s.ID); !errors.Is(err, reprise.ErrNotFound) {
			f.t.Errorf("another tenant: %v", err)
		}
	})
}
