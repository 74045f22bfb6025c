package execution_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/execution/interpreter"
	"reprise/internal/quota"
)

// TestReaderOfCodeDelaysNobody: while the output of code waits for its reader, its interpreter is listed, and refuses
// other code at once.
func TestReaderOfCodeDelaysNobody(t *testing.T) {
	h := newHost(t, execution.Options{})
	i := openInterpreter(t, h, interpreter.Request{Language: "bash"})
	x := start(t, h, execution.Request{
		Interpreter: i.ID, Code: printMuch, Retention: smallWindow, Hold: execution.Duration(time.Hour),
	})
	standsStill(t, h, x.ID)
	ctx := within(t)
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		if list, err := interpreter.List(ctx, h, tenant, nil); err != nil || len(list) != 1 || list[0].Running != x.ID {
			t.Errorf("%+v, %v", list, err)
		}
		if _, err := h.List(ctx, tenant, execution.ListQuery{}); err != nil {
			t.Error(err)
		}
		_, _, err := h.Start(ctx, tenant, execution.Request{Interpreter: i.ID, Code: "true"})
		if !errors.Is(err, reprise.ErrConflict) {
			t.Errorf("other code: %v", err)
		}
	}()
	select {
	case <-seen:
	case <-time.After(patience / 4):
		t.Error("they wait for the reader")
	}
	if err := h.Cancel(ctx, tenant, x.ID); err != nil {
		t.Error(err)
	}
	<-seen
}

// TestInterpreterWithoutCodeExpires: the idle timeout begins with the interpreter.
func TestInterpreterWithoutCodeExpires(t *testing.T) {
	for name, opts := range map[string]execution.Options{"here": {}, "supervised": {RunsDir: t.TempDir()}} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, opts)
			i := openInterpreter(t, h, interpreter.Request{
				Language: "bash", IdleTimeout: execution.Duration(300 * time.Millisecond),
			})
			if x := finish(t, h, i.ID); x.Outcome != execution.Cancelled || !strings.Contains(x.Error, "idle") {
				t.Errorf("%+v", x)
			}
		})
	}
}

// TestCodeIsOnTheAccountOfItsSender: code in an interpreter that another principal has opened is kept on the account of
// its sender, and finds itself again when it is sent twice.
func TestCodeIsOnTheAccountOfItsSender(t *testing.T) {
	h := newHost(t, execution.Options{})
	owner, sender := someone("owner"), someone("sender")
	i, _, err := interpreter.Open(longWithin(t), h, owner, interpreter.Request{Language: "bash"})
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []string{"true", "true", "exit 0", "exit 0"} {
		x, _, err := h.StartFor(longWithin(t), sender, execution.Request{ID: code[:4], Interpreter: i.ID, Code: code})
		if err != nil {
			t.Fatal(err)
		}
		finish(t, h, x.ID)
		stream, err := h.Stream(t.Context(), tenant, x.ID)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := stream.Info(t.Context()); err != nil || info.Config.Account() != "sender" {
			t.Errorf("code is on the account of %q, %v", info.Config.Account(), err)
		}
	}
}

// TestInterpretersAreShared: one of several principals does not get all interpreters, also if it opens them together.
func TestInterpretersAreShared(t *testing.T) {
	h := newHost(t, execution.Options{
		MaxInterpreters: 8, MaxRunning: 100, Quotas: quota.New(&quota.Options{Several: func() bool { return true }}),
	})
	open := func(principal string) error {
		who := &quota.Holder{Account: quota.Account{Tenant: tenant, Principal: principal}}
		_, _, err := interpreter.Open(longWithin(t), h, who, interpreter.Request{Language: "bash"})
		if err != nil && !errors.Is(err, reprise.ErrQuota) {
			t.Error(err)
		}
		return err
	}
	var opened atomic.Int64
	var opening sync.WaitGroup
	for range 16 {
		opening.Go(func() {
			if open("greedy") == nil {
				opened.Add(1)
			}
		})
	}
	opening.Wait()
	if opened.Load() != 6 {
		t.Errorf("%d of 8 interpreters are of one principal, want 6", opened.Load())
	}
	if err := open("other"); err != nil {
		t.Error(err)
	}
}
