package execution_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/storeurl"
	"reprise/store/memstore"
)

// briefly is a retention with which an output expires at once.
var briefly = execution.Retention{MaxAge: execution.Duration(time.Millisecond)}

// counting is a request that appends a line to a file, so that its runs are counted.
func counting(t *testing.T, req execution.Request) (_ execution.Request, runs func() int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "runs")
	req.Command = "echo x >> " + file + "; " + req.Command
	req.Retention = briefly
	return req, func() int {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return strings.Count(string(text), "\n")
	}
}

// expire sweeps until the output of an execution is gone.
func expire(t *testing.T, log *reprise.Log, h *execution.Host, id string) {
	t.Helper()
	until(t, "the output of "+id+" has expired", func() bool {
		if _, err := log.Sweep(within(t)); err != nil {
			t.Fatal(err)
		}
		x, err := h.Show(within(t), tenant, id)
		return err == nil && x.Expired
	})
}

// wantRecorded starts a request that has run, and returns the answer, which must be the recorded outcome.
func wantRecorded(t *testing.T, h *execution.Host, req execution.Request, want execution.Outcome, code int) (
	x execution.Execution,
) {
	t.Helper()
	x, created, err := h.Start(within(t), tenant, req)
	if err != nil || created || !x.Expired || x.Ended.IsZero() || x.Status != execution.StatusEnded {
		t.Fatalf("created %v, %+v, %v", created, x, err)
	}
	wantOutcome(t, x, want, code, "")
	return x
}

// remembers is the promise that a name which was used does not run again, on a log and after it.
func remembers(t *testing.T, log *reprise.Log, reopen func() *reprise.Log) {
	h := openHost(t, log, execution.Options{Secret: []byte("s")})
	one, runs := counting(t, execution.Request{ID: "one", Session: "s", Command: "exit 3"})
	start(t, h, one)
	first := finish(t, h, "one")
	keyed, keyedRuns := counting(t, execution.Request{Key: "k", Command: "true"})
	byKey := finish(t, h, start(t, h, keyed).ID)
	header, headerRuns := counting(t, execution.Request{IdempotencyKey: "i", Command: "true"})
	byHeader := finish(t, h, start(t, h, header).ID)
	expire(t, log, h, "one")
	expire(t, log, h, byKey.ID)
	expire(t, log, h, byHeader.ID)

	check := func(h *execution.Host) {
		t.Helper()
		x := wantRecorded(t, h, one, execution.Exited, 3)
		if x.ID != "one" || x.Session != "s" || !x.Ended.Equal(first.Ended.Time) || x.ExpiredAt.IsZero() {
			t.Errorf("recorded %+v of %+v", x, first)
		}
		if x := wantRecorded(t, h, keyed, execution.Exited, 0); x.ID != byKey.ID {
			t.Errorf("the key stands for %s, not %s", x.ID, byKey.ID)
		}
		if x := wantRecorded(t, h, header, execution.Exited, 0); x.ID != byHeader.ID {
			t.Errorf("the header stands for %s, not %s", x.ID, byHeader.ID)
		}
		for _, req := range []execution.Request{one, keyed, header} {
			req.Command += "; exit 9"
			refused(t, h, req, reprise.ErrConflict)
		}
		if runs() != 1 || keyedRuns() != 1 || headerRuns() != 1 {
			t.Errorf("they ran %d, %d and %d times", runs(), keyedRuns(), headerRuns())
		}
		page, err := h.List(within(t), tenant, execution.ListQuery{Limit: 2})
		more, err2 := h.List(within(t), tenant, execution.ListQuery{Limit: 2, After: page.Next})
		list := append(page.Executions, more.Executions...)
		if err != nil || err2 != nil || len(list) != 3 || more.Next != "" || !list[0].Expired || list[2].ID != "one" {
			t.Errorf("listed %+v, %v, %v", list, err, err2)
		}
		if session, err := h.SessionOf(within(t), tenant, "one"); session != "s" || err != nil {
			t.Errorf("session %q, %v", session, err)
		}
	}
	check(h)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if reopen != nil {
		log = reopen()
	}
	h = openHost(t, log, execution.Options{Secret: []byte("s")})
	check(h)

	// removed by a client, they may run again
	for _, id := range []string{"one", byKey.ID} {
		if err := h.Remove(within(t), tenant, id); err != nil {
			t.Fatal(err)
		}
	}
	_, err := h.Show(within(t), tenant, "one")
	if !errors.Is(err, reprise.ErrExpired) && !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("what was removed is shown: %v", err)
	}
	start(t, h, one)
	finish(t, h, "one")
	finish(t, h, start(t, h, keyed).ID)
	if runs() != 2 || keyedRuns() != 2 {
		t.Errorf("after they were removed they ran %d and %d times", runs(), keyedRuns())
	}
}

// TestUsedNamesDoNotRunAgain (G9): with the output of an execution its name is not forgotten, on stores without and
// with a server, and over a restart.
func TestUsedNamesDoNotRunAgain(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		remembers(t, newLog(t, memstore.New(nil), &reprise.Options{SweepEvery: -1}), nil)
	})
	for _, kind := range []string{"sqlite", "log"} {
		t.Run(kind, func(t *testing.T) {
			url := kind + ":" + filepath.Join(t.TempDir(), "store")
			var store reprise.Store
			open := func() *reprise.Log {
				var err error
				store, err = storeurl.Open(within(t), url, nil)
				if err != nil {
					t.Fatal(err)
				}
				log, err := reprise.Open(within(t), store, &reprise.Options{SweepEvery: -1})
				if err != nil {
					t.Fatal(err)
				}
				return log
			}
			log := open()
			remembers(t, log, func() *reprise.Log {
				if err := errors.Join(log.Close(), store.Close()); err != nil {
					t.Fatal(err)
				}
				again := open()
				t.Cleanup(func() { _ = errors.Join(again.Close(), store.Close()) })
				return again
			})
		})
	}
	for name, serve := range servers {
		t.Run(name, func(t *testing.T) {
			store, err := storeurl.Open(within(t), serve(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			remembers(t, newLog(t, store, &reprise.Options{SweepEvery: -1}), nil)
		})
	}
}

// TestStartInTheMomentOfExpiry: replicas start an execution while its output expires on both. It has run once, and each
// is told how it ended.
func TestStartInTheMomentOfExpiry(t *testing.T) {
	list := nodes(t, 2, execution.Options{})
	for i := range 20 {
		req, runs := counting(t, execution.Request{ID: fmt.Sprint("x", i), Command: "true"})
		start(t, list[0].Host, req)
		finish(t, list[0].Host, req.ID)
		var all sync.WaitGroup
		for _, nd := range list {
			all.Go(func() {
				if _, err := nd.log.Sweep(within(t)); err != nil {
					t.Error(err)
				}
			})
			for range 4 {
				all.Go(func() {
					x, created, err := nd.Start(within(t), tenant, req)
					if err != nil || created || x.Status != execution.StatusEnded {
						t.Errorf("created %v, %+v, %v", created, x, err)
					}
				})
			}
		}
		all.Wait()
		for _, nd := range list {
			expire(t, nd.log, nd.Host, req.ID)
			wantRecorded(t, nd.Host, req, execution.Exited, 0)
		}
		if runs() != 1 {
			t.Fatalf("it ran %d times", runs())
		}
	}
}

// TestEndWaitsForItsRecord: an execution has no end before its name is remembered, so that a server that dies leaves no
// end without a record. The record of an execution that is then lost is that of its process.
func TestEndWaitsForItsRecord(t *testing.T) {
	store := &halfway{Store: memstore.New(nil)}
	log := newLog(t, store, nil)
	opts := execution.Options{Secret: []byte("the same for each Host")}
	h := openHost(t, log, opts)
	req, runs := counting(t, execution.Request{ID: "x", Command: "exit 3"})
	store.fail("ran:")
	start(t, h, req)
	until(t, "it has run", func() bool { return runs() == 1 })
	s, err := h.Stream(within(t), tenant, "x")
	if err != nil {
		t.Fatal(err)
	}
	until(t, "its started event is kept", func() bool {
		info, err := s.Info(within(t))
		return err == nil && info.Tail > 0
	})
	if x, err := h.Show(within(t), tenant, "x"); err != nil || x.Status == execution.StatusEnded {
		t.Fatalf("before its record %+v, %v", x, err)
	}

	// the record is kept, and the server dies before the end is
	store.fail("execution:")
	until(t, "the record is kept", func() bool {
		page, err := log.List(within(t), reprise.ListQuery{Namespace: "ran:", Limit: 10})
		return err == nil && len(page.Streams) == 2
	})
	h.DieForTest()
	_ = h.Close()
	store.fail("")
	h = openHost(t, log, opts)
	expire(t, log, h, "x")
	wantRecorded(t, h, req, execution.Exited, 3)
}

// TestNamesAreForgottenAfterTheirTime: a record counts for Options.Remember by the clock of the server, whatever jumps
// that makes: one of a day in either direction lengthens or shortens the time by a day and does nothing else.
func TestNamesAreForgottenAfterTheirTime(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	h := openHost(t, log, execution.Options{Remember: 30 * time.Hour})
	const day = 24 * time.Hour
	for name, age := range map[string]time.Duration{"now": 0, "forward": day, "back": -day} {
		req := execution.Request{ID: name, Command: "true"}
		if err := h.NoteForTest(within(t), tenant, req, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
		wantRecorded(t, h, req, execution.Exited, 0)
	}
	old := execution.Request{ID: "old", Command: "true"}
	if err := h.NoteForTest(within(t), tenant, old, time.Now().Add(-31*time.Hour)); err != nil {
		t.Fatal(err)
	}
	start(t, h, old)
}

// TestRememberedNamesAreBounded: above the bound of a tenant the oldest names are forgotten, which is told once.
// The names of another tenant stay.
func TestRememberedNamesAreBounded(t *testing.T) {
	var told atomic.Int64
	log := newLog(t, memstore.New(nil), nil)
	h := openHost(t, log, execution.Options{
		RememberNames: 1024, Logger: slog.New(logged(func(r slog.Record) {
			if strings.Contains(r.Message, "before their time") {
				told.Add(1)
			}
		})),
	})
	const other reprise.Tenant = "other"
	req := func(i int) execution.Request { return execution.Request{ID: fmt.Sprint("n", i), Command: "true"} }
	if err := h.NoteForTest(within(t), other, req(0), time.Now()); err != nil {
		t.Fatal(err)
	}
	const names = 8192
	for i := range names {
		if err := h.NoteForTest(within(t), tenant, req(i), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	kept := 0
	for i := range names {
		if x, err := h.Show(within(t), tenant, req(i).ID); err == nil && x.Expired {
			kept++
		} else if i == names-1 {
			t.Errorf("the newest name was forgotten: %v", err)
		}
	}
	if kept < 1024 || kept > 5*1024 {
		t.Errorf("%d names are remembered", kept)
	}
	listed := 0
	for after := ""; ; {
		page, err := h.List(within(t), tenant, execution.ListQuery{Limit: 1000, After: after})
		if err != nil {
			t.Fatal(err)
		}
		if listed += len(page.Executions); page.Next == "" {
			break
		}
		after = page.Next
	}
	if listed > 1024+64 || listed < 512 {
		t.Errorf("%d names are listed", listed)
	}
	if told.Load() != 1 {
		t.Errorf("it was told %d times that names are forgotten", told.Load())
	}
	if x, err := h.Show(within(t), other, req(0).ID); err != nil || !x.Expired {
		t.Errorf("the name of another tenant: %v", err)
	}
}

// logged is a handler that calls a function with each record.
type logged func(slog.Record)

func (logged) Enabled(context.Context, slog.Level) bool { return true }

func (f logged) Handle(_ context.Context, r slog.Record) error {
	f(r)
	return nil
}

func (f logged) WithAttrs([]slog.Attr) slog.Handler { return f }
func (f logged) WithGroup(string) slog.Handler      { return f }

// beforeCreate is a store that calls a function before the first stream of a name is created.
type beforeCreate struct {
	reprise.Store
	name string
	call func()
	once sync.Once
}

func (s *beforeCreate) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	if info.Key.Name == s.name {
		s.once.Do(s.call)
	}
	return s.Store.Create(ctx, info)
}

// TestStartOvertakenByWholeRun: between the two looks of a start for its name, another start has run, and its output
// has gone. The start finds that, runs nothing and leaves nothing.
func TestStartOvertakenByWholeRun(t *testing.T) {
	store := &beforeCreate{Store: memstore.New(nil), name: "execution:x"}
	log := newLog(t, store, nil)
	h := openHost(t, log, execution.Options{})
	req, runs := counting(t, execution.Request{ID: "x", Command: "true"})
	store.call = func() {
		if err := h.NoteForTest(within(t), tenant, req, time.Now()); err != nil {
			t.Error(err)
		}
	}
	wantRecorded(t, h, req, execution.Exited, 0)
	wantRecorded(t, h, req, execution.Exited, 0)
	if runs() != 0 {
		t.Error("it ran")
	}
	if page, err := log.List(within(t), reprise.ListQuery{Namespace: "execution:", Limit: 1}); len(page.Streams) > 0 {
		t.Errorf("left %+v, %v", page.Streams, err)
	}
}
