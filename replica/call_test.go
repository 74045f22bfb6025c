package replica_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"reprise"
	"reprise/internal/problem"
	"reprise/replica"
)

// pair joins two replicas that know each other.
func pair(t *testing.T, log *reprise.Log) (a, b *replica.Member) {
	t.Helper()
	a, _ = join(t, log, "a")
	b, _ = join(t, log, "b")
	if err := a.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func echo(_ context.Context, from string, body []byte) ([]byte, error) {
	return append([]byte(from+" "), body...), nil
}

func TestCallIsAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, log *reprise.Log, _ *faulty) {
		a, b := pair(t, log)
		defer closeAll(t, a, b)
		a.Serve("echo", echo)
		b.Serve("echo", echo)
		for _, callee := range []*replica.Member{a, b} {
			for _, body := range []string{"", "hello", string(bytes.Repeat([]byte("0123456789"), 100_000))} {
				answer, err := a.Call(t.Context(), callee.Name(), "echo", []byte(body))
				if want := a.Name() + " " + body; err != nil || string(answer) != want {
					t.Errorf("%d bytes: %.40q, %v", len(body), answer, err)
				}
			}
		}
		var calls sync.WaitGroup
		for i := range 100 {
			calls.Go(func() {
				answer, err := b.Call(t.Context(), a.Name(), "echo", fmt.Append(nil, i))
				if want := fmt.Sprint(b.Name(), " ", i); err != nil || string(answer) != want {
					t.Errorf("%q, want %q, %v", answer, want, err)
				}
			})
		}
		calls.Wait()
	})
}

func TestErrorsOfCalls(t *testing.T) {
	bubble(t, func(t *testing.T, log *reprise.Log, _ *faulty) {
		a, b := pair(t, log)
		defer closeAll(t, a, b)
		for _, want := range []error{
			reprise.ErrInvalid, reprise.ErrNotFound, reprise.ErrEnded, reprise.ErrConflict,
			reprise.ErrExpired, reprise.ErrQuota, reprise.ErrUnavailable, reprise.ErrClosed,
		} {
			b.Serve("fail",
				func(context.Context, string, []byte) ([]byte, error) { return nil, fmt.Errorf("it is %w", want) })
			_, err := a.Call(t.Context(), b.Name(), "fail", nil)
			if !errors.Is(err, want) {
				t.Errorf("%v became %v", want, err)
			}
			if local, far := problem.From(fmt.Errorf("it is %w", want)), problem.From(err); local != far {
				t.Errorf("shown as %+v, here it would be %+v", far, local)
			}
		}
		if _, err := a.Call(t.Context(), b.Name(), "nothing", nil); !errors.Is(err, reprise.ErrUnavailable) {
			t.Errorf("an unknown service: %v", err)
		}
		if _, err := a.Call(t.Context(), b.Name(), "fail", make([]byte, replica.MaxBody+1)); !errors.Is(err,
			reprise.ErrInvalid) {
			t.Errorf("a body that is too long: %v", err)
		}
		b.Serve("long", func(context.Context, string, []byte) ([]byte, error) {
			return make([]byte, replica.MaxBody+1),
				nil
		})
		if p, ok := errors.AsType[problem.Problem](second(a.Call(t.Context(), b.Name(), "long", nil))); !ok ||
			p.Code != problem.CodeInternal {
			t.Errorf("an answer that is too long: %+v", p)
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestUnansweredCallsFail(t *testing.T) {
	bubble(t, func(t *testing.T, log *reprise.Log, _ *faulty) {
		a, b := pair(t, log)
		defer closeAll(t, a)
		var began, ended atomic.Int64
		b.Serve("hang", func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
			began.Add(1)
			<-ctx.Done()
			ended.Add(1)
			return nil, context.Cause(ctx)
		})
		since := time.Now()
		if err := second(a.Call(t.Context(), "nobody", "hang", nil)); !errors.Is(err, reprise.ErrUnavailable) ||
			time.Since(since) > 0 {
			t.Errorf("nobody answers %v after %s", err, time.Since(since))
		}
		if err := second(a.Call(t.Context(), b.Name(), "hang", nil)); !errors.Is(err, reprise.ErrUnavailable) ||
			time.Since(since) != 10*time.Second {
			t.Errorf("%v after %s", err, time.Since(since))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		mine := errors.New("mine")
		time.AfterFunc(time.Second, func() { cancel(mine) })
		if err := second(a.Call(ctx, b.Name(), "hang", nil)); !errors.Is(err, mine) {
			t.Errorf("cancelled: %v", err)
		}
		synctest.Wait()
		if began.Load() != 2 || ended.Load() != 2 {
			t.Errorf("%d began, %d ended", began.Load(), ended.Load())
		}
		since = time.Now()
		time.AfterFunc(time.Second, func() { _ = b.Leave(context.WithoutCancel(t.Context())) })
		if err := second(a.Call(t.Context(), b.Name(), "hang", nil)); !errors.Is(err, reprise.ErrUnavailable) ||
			time.Since(since) > 2*beat {
			t.Errorf("the callee leaves: %v after %s", err, time.Since(since))
		}
		time.AfterFunc(time.Second, func() { _ = a.Close() })
		a.Serve("hang", func(ctx context.Context, _ string, _ []byte) ([]byte, error) { <-ctx.Done(); return nil, nil })
		if err := second(a.Call(t.Context(), a.Name(), "hang", nil)); !errors.Is(err, reprise.ErrClosed) {
			t.Errorf("the caller is closed: %v", err)
		}
		if err := second(a.Call(t.Context(), "nobody", "hang", nil)); !errors.Is(err, reprise.ErrClosed) {
			t.Errorf("after that: %v", err)
		}
	})
}

// TestCallsWhileTheStoreFails: a call whose answer of the store is lost is served once, and
// one that was given up while the store was away is not begun when it is back.
func TestCallsWhileTheStoreFails(t *testing.T) {
	bubble(t, func(t *testing.T, log *reprise.Log, store *faulty) {
		a, b := pair(t, log)
		defer closeAll(t, a, b)
		var served atomic.Int64
		b.Serve("count", func(context.Context, string, []byte) ([]byte, error) {
			return fmt.Append(nil, served.Add(1)), nil
		})
		store.loses(true)
		var refused atomic.Int64
		store.breaks(func(op string, key reprise.StreamKey) bool {
			return op == "append" && key.Namespace() == "inbox:" && refused.Add(1)%3 != 0
		})
		for range 5 {
			if _, err := a.Call(t.Context(), b.Name(), "count", nil); err != nil {
				t.Error(err)
			}
		}
		if served.Load() != 5 {
			t.Errorf("5 calls were served %d times", served.Load())
		}
		store.loses(false)
		store.breaks(func(string, reprise.StreamKey) bool { return true })
		since := time.Now()
		if err := second(a.Call(t.Context(), b.Name(), "count", nil)); !errors.Is(err, reprise.ErrUnavailable) ||
			time.Since(since) != 10*time.Second {
			t.Errorf("%v after %s", err, time.Since(since))
		}
		time.Sleep(time.Minute)
		store.breaks(nil)
		time.Sleep(time.Minute)
		if served.Load() != 5 {
			t.Error("a call was served that had been given up")
		}
	})
}

func TestCallsAreServedInBounds(t *testing.T) {
	bubble(t, func(t *testing.T, log *reprise.Log, _ *faulty) {
		a, _ := join(t, log, "a")
		b, err := replica.Join(t.Context(), log, &replica.Options{Name: "b", MaxServing: 3})
		if err != nil {
			t.Fatal(err)
		}
		defer closeAll(t, a, b)
		if err := a.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		b.Serve("wait", func(context.Context, string, []byte) ([]byte, error) { <-release; return nil, nil })
		errs := make(chan error)
		for range 5 {
			go func() { errs <- second(a.Call(t.Context(), b.Name(), "wait", nil)) }()
		}
		for range 2 {
			if err := <-errs; !errors.Is(err, reprise.ErrUnavailable) {
				t.Errorf("one too many: %v", err)
			}
		}
		close(release)
		for range 3 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestInboxSkipsMalformedMessages: malformed messages are skipped, and the calls after them are served.
func TestInboxSkipsMalformedMessages(t *testing.T) {
	bubble(t, func(t *testing.T, log *reprise.Log, _ *faulty) {
		a, b := pair(t, log)
		defer closeAll(t, a, b)
		b.Serve("echo", echo)
		inbox, err := log.Stream(t.Context(), reprise.StreamKey{Tenant: replica.Tenant, Name: "inbox:" + b.Name()})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []reprise.Event{
			{Type: "part", Data: []byte("alone")},
			{Type: "call", Data: []byte("{")},
			{Type: "call", Data: []byte(`{"id":"x","parts":-1}`)},
			{Type: "call", Data: []byte(`{"id":"x","parts":1000000}`)},
			{Type: "answer", Data: []byte(`{"id":"y"}`)},
			{Type: "cancel", Data: []byte(`{"id":"z"}`)},
			{Type: "call", Data: []byte(`{"id":"cut","from":"a","parts":3}`)},
			{Type: "other"},
		} {
			if _, err := inbox.Append(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		if answer, err := a.Call(t.Context(), b.Name(), "echo", []byte("x")); err != nil ||
			!slices.Equal(answer, []byte(a.Name()+" x")) {
			t.Errorf("%q, %v", answer, err)
		}
	})
}
