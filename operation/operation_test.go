package operation_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"reprise"
	"reprise/internal/shared"
	"reprise/operation"
	"reprise/replica"
	"reprise/store/memstore"
)

func TestMain(m *testing.M) {
	workUntilKilled()
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must happen.
const patience = time.Minute

// The times of the replicas in tests. Where no replica is to die, none is taken for dead because the machine is busy.
const (
	testBeat = 100 * time.Millisecond
	shortTTL = 2 * time.Second
	longTTL  = time.Minute
)

var key = reprise.StreamKey{Tenant: reprise.DefaultTenant, Name: "operation:test"}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// await waits until something is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		<-time.After(5 * time.Millisecond) // real stores and processes, real time
	}
}

// receive takes a value from a channel.
func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("not within %s: %s", patience, what)
		panic("unreachable")
	}
}

// node is a process that runs operations.
type node struct {
	*operation.Runner
	log    *reprise.Log
	member *replica.Member
	store  *cuttable
}

// cuttable is a store that can be cut off.
type cuttable struct {
	reprise.Store
	reprise.Watcher
	cut atomic.Bool
}

var errCut = fmt.Errorf("cut off: %w", reprise.ErrUnavailable)

func (c *cuttable) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	if !c.cut.Load() {
		return c.Store.Append(ctx, reqs)
	}
	errs := make([]error, len(reqs))
	for i := range errs {
		errs[i] = errCut
	}
	return errs
}

// nodes opens two replicas that share a store in memory.
func nodes(t *testing.T, ttl time.Duration) []*node {
	t.Helper()
	hub := shared.New(memstore.New(nil))
	list := make([]*node, 2)
	for i := range list {
		store := hub.Store()
		nd := &node{store: &cuttable{Store: store, Watcher: store}}
		nd.log = open(t, nd.store)
		var err error
		nd.member, err = replica.Join(t.Context(), nd.log, &replica.Options{Beat: testBeat, TTL: ttl})
		check(t, err)
		t.Cleanup(func() { nd.member.Close() })
		nd.Runner = newRunner(t, nd.log, &operation.Options{Replica: nd.member})
		list[i] = nd
	}
	return list
}

func open(t *testing.T, store reprise.Store) *reprise.Log {
	t.Helper()
	log, err := reprise.Open(t.Context(), store, nil)
	check(t, err)
	t.Cleanup(func() {
		if err := errors.Join(log.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return log
}

func newRunner(t *testing.T, log *reprise.Log, opts *operation.Options) *operation.Runner {
	t.Helper()
	r, err := operation.New(log, opts)
	check(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// alone is a Runner on a store of its own.
func alone(t *testing.T) *operation.Runner {
	t.Helper()
	return newRunner(t, open(t, memstore.New(nil)), nil)
}

func returns(text string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return []byte(text), nil }
}

// states are the names and states of the steps of a record.
func states(t *testing.T, r *operation.Runner) string {
	t.Helper()
	record, err := r.Show(within(t), key)
	check(t, err)
	var list []string
	for _, s := range record.Steps {
		list = append(list, s.Name+"="+string(s.State))
	}
	return strings.Join(list, " ")
}

var errBroken = errors.New("broken")

// TestRunAfterFailureSkipsFinishedSteps: finished steps return the recorded result, the failed step runs again, and
// after success nothing runs.
func TestRunAfterFailureSkipsFinishedSteps(t *testing.T) {
	r := alone(t)
	called := map[string]int{}
	step := func(name string, err error) func(context.Context) ([]byte, error) {
		return func(context.Context) ([]byte, error) {
			called[name]++
			if err != nil {
				return nil, err
			}
			return fmt.Appendf(nil, "%s %d", name, called[name]), nil
		}
	}
	job := func(failing error) operation.Job {
		return func(ctx context.Context, op *operation.Operation) ([]byte, error) {
			a, err := op.Step(ctx, "a", step("a", nil), nil)
			if err != nil {
				return nil, err
			}
			b, err := op.Step(ctx, "b", step("b", failing), nil)
			return fmt.Appendf(nil, "%s, %s, attempt %d", a, b, op.Fence()), err
		}
	}
	for range 2 {
		if _, err := r.Run(within(t), key, nil, job(errBroken)); !errors.Is(err, errBroken) {
			t.Fatalf("the job fails: %v", err)
		}
	}
	if got := states(t, r); got != "a=done b=failed" {
		t.Errorf("states %s", got)
	}
	for range 2 {
		result, err := r.Run(within(t), key, nil, job(nil))
		if err != nil || string(result) != "a 1, b 3, attempt 3" {
			t.Errorf("result %q, %v", result, err)
		}
	}
	if called["a"] != 1 || called["b"] != 3 {
		t.Errorf("calls %v", called)
	}
	record, err := r.Show(within(t), key)
	check(t, err)
	if record.Attempts != 3 || !record.Done || string(record.Result) != "a 1, b 3, attempt 3" || record.Failure != "" {
		t.Errorf("record %+v", record)
	}
}

// TestStepOfUnknownOutcomeIsNotRepeated: a step whose outcome is unknown is not called again before somebody states
// what happened, unless it is idempotent.
func TestStepOfUnknownOutcomeIsNotRepeated(t *testing.T) {
	unanswered := fmt.Errorf("%w: the connection broke", operation.ErrUnknown)
	for name, failure := range map[string]func(context.Context) ([]byte, error){
		"error":    func(context.Context) ([]byte, error) { return nil, unanswered },
		"deadline": func(context.Context) ([]byte, error) { return nil, context.DeadlineExceeded },
		"panic":    func(context.Context) ([]byte, error) { panic("on purpose") },
		"result":   func(context.Context) ([]byte, error) { return make([]byte, 1<<20), nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := alone(t)
			run := func(job operation.Job) (result []byte, err error) {
				defer func() {
					if p := recover(); p != nil {
						err = fmt.Errorf("panic: %v", p)
					}
				}()
				return r.Run(within(t), key, nil, job)
			}
			charge := func(ctx context.Context, op *operation.Operation) ([]byte, error) {
				return op.Step(ctx, "charge", failure, nil)
			}
			if _, err := run(charge); err == nil {
				t.Fatal("no error")
			}
			for range 2 {
				_, err := run(func(ctx context.Context, op *operation.Operation) ([]byte, error) {
					return op.Step(ctx, "charge", returns("twice"), nil)
				})
				unknown, ok := errors.AsType[*operation.UnknownError](err)
				if !ok || unknown.Step != "charge" || unknown.Attempt != 1 || unknown.Began.IsZero() ||
					!errors.Is(err, operation.ErrUnknown) {
					t.Fatalf("it began and nobody knows: %v", err)
				}
			}
			if got := states(t, r); got != "charge=unknown" {
				t.Errorf("states %s", got)
			}
			result, err := run(func(ctx context.Context, op *operation.Operation) ([]byte, error) {
				return op.Step(ctx, "charge", returns("again"), &operation.StepOptions{Idempotent: true})
			})
			if err != nil || string(result) != "again" {
				t.Errorf("idempotent: %q, %v", result, err)
			}
		})
	}
}

// TestMarkDecidesUnknownStep: what the job has found out of an unknown step is recorded.
func TestMarkDecidesUnknownStep(t *testing.T) {
	r := alone(t)
	doubt := func(context.Context) ([]byte, error) { return nil, operation.ErrUnknown }
	_, err := r.Run(within(t), key, nil, func(ctx context.Context, op *operation.Operation) ([]byte, error) {
		_, err := op.Step(ctx, "happened", doubt, nil)
		_, other := op.Step(ctx, "did not", doubt, nil)
		return nil, errors.Join(err, other)
	})
	if !errors.Is(err, operation.ErrUnknown) {
		t.Fatal(err)
	}
	result, err := r.Run(within(t), key, nil, func(ctx context.Context, op *operation.Operation) ([]byte, error) {
		if err := op.MarkDone("nobody knows it", nil); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("a step that did not begin: %v", err)
		}
		if err := errors.Join(op.MarkDone("happened", []byte("seen")), op.MarkNotDone("did not")); err != nil {
			return nil, err
		}
		if err := op.MarkNotDone("happened"); !errors.Is(err, reprise.ErrInvalid) {
			t.Errorf("a step that is known to be done: %v", err)
		}
		a, err := op.Step(ctx, "happened", returns("called"), nil)
		b, other := op.Step(ctx, "did not", returns("called"), nil)
		return fmt.Appendf(nil, "%s %s", a, b), errors.Join(err, other)
	})
	if err != nil || string(result) != "seen called" {
		t.Errorf("%q, %v", result, err)
	}
}

func TestRefusalsOfInvalidJobs(t *testing.T) {
	r := alone(t)
	_, err := r.Run(within(t), key, []byte("one"), func(ctx context.Context, op *operation.Operation) ([]byte, error) {
		if string(op.Input()) != "one" || op.Key() != key {
			t.Errorf("input %q, key %s", op.Input(), op.Key())
		}
		for _, name := range []string{"", strings.Repeat("n", 256)} {
			if _, err := op.Step(ctx, name, returns(""), nil); !errors.Is(err, reprise.ErrInvalid) {
				t.Errorf("step %.10q: %v", name, err)
			}
		}
		return op.Step(ctx, "outer", func(ctx context.Context) ([]byte, error) {
			if _, err := op.Step(ctx, "outer", returns(""), nil); !errors.Is(err, reprise.ErrInvalid) {
				t.Errorf("a step in itself: %v", err)
			}
			return op.Step(ctx, "inner", returns("nested"), nil)
		}, nil)
	})
	check(t, err)
	job := func(context.Context, *operation.Operation) ([]byte, error) { panic("must not run") }
	if _, err := r.Run(within(t), key, []byte("two"), job); !errors.Is(err, reprise.ErrConflict) {
		t.Errorf("another input: %v", err)
	}
	foreign := reprise.StreamKey{Tenant: "other", Name: key.Name}
	if _, err := r.Show(within(t), foreign); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("of another tenant: %v", err)
	}
	hub := shared.New(memstore.New(nil))
	if _, err := operation.New(open(t, hub.Store()), nil); !errors.Is(err, reprise.ErrInvalid) {
		t.Errorf("a shared store without a replica: %v", err)
	}
	check(t, r.Close())
	check(t, r.Close())
	if _, err := r.Run(within(t), key, []byte("one"), job); !errors.Is(err, reprise.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestCutRecord: a record that a bound of the Log has cut is not taken for a whole one.
func TestCutRecord(t *testing.T) {
	log := open(t, memstore.New(nil))
	r := newRunner(t, log, nil)
	_, err := r.Run(within(t), key, nil, func(ctx context.Context, op *operation.Operation) ([]byte, error) {
		if _, err := op.Step(ctx, "once", returns(""), nil); err != nil {
			return nil, err
		}
		return nil, errBroken
	})
	if !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	s, err := log.Stream(t.Context(), key)
	check(t, err)
	check(t, s.Trim(t.Context(), 3))
	_, err = r.Run(within(t), key, nil, func(context.Context, *operation.Operation) ([]byte, error) {
		panic("must not run")
	})
	if window, ok := errors.AsType[*reprise.WindowError](err); !ok || window.Reason != reprise.CursorExpired {
		t.Errorf("error %v", err)
	}
}

// TestConcurrentCallersRunJobOnce: one of 50 callers on two replicas runs the job, and all receive its result.
func TestConcurrentCallersRunJobOnce(t *testing.T) {
	list := nodes(t, longTTL)
	const callers = 50
	var called, returned atomic.Int64
	entered, leave := make(chan struct{}, callers), make(chan struct{})
	job := func(ctx context.Context, op *operation.Operation) ([]byte, error) {
		return op.Step(ctx, "work", func(context.Context) ([]byte, error) {
			called.Add(1)
			entered <- struct{}{}
			<-leave
			return []byte("the result"), nil
		}, nil)
	}
	var all sync.WaitGroup
	results := make([][]byte, callers)
	errs := make([]error, callers)
	for i := range callers {
		all.Go(func() {
			results[i], errs[i] = list[i%2].Run(within(t), key, nil, job)
			returned.Add(1)
		})
	}
	receive(t, "somebody works", entered)
	await(t, "the others wait", func() bool {
		return list[0].Waiting()+list[1].Waiting() == callers-1 || returned.Load() > 0
	})
	close(leave)
	all.Wait()
	for i := range callers {
		if errs[i] != nil || string(results[i]) != "the result" {
			t.Errorf("caller %d: %q, %v", i, results[i], errs[i])
		}
	}
	record, err := list[0].Show(within(t), key)
	check(t, err)
	if called.Load() != 1 || record.Attempts != 1 {
		t.Errorf("%d calls in %d attempts", called.Load(), record.Attempts)
	}
}

// TestWaitersAreToldOfFailure: those that wait for an attempt get its failure, and do not try again by themselves.
func TestWaitersAreToldOfFailure(t *testing.T) {
	list := nodes(t, longTTL)
	entered, leave := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		_, err := list[0].Run(within(t), key, nil, func(context.Context, *operation.Operation) ([]byte, error) {
			close(entered)
			<-leave
			return nil, errBroken
		})
		if !errors.Is(err, errBroken) {
			t.Errorf("the runner's error: %v", err)
		}
	})
	receive(t, "the job runs", entered)
	for _, r := range list {
		all.Go(func() {
			_, err := r.Run(within(t), key, nil, func(context.Context, *operation.Operation) ([]byte, error) {
				t.Error("a second attempt")
				return nil, nil
			})
			failed, ok := errors.AsType[*operation.FailedError](err)
			if !ok || failed.Attempt != 1 || failed.Reason != errBroken.Error() {
				t.Errorf("a waiter's error: %v", err)
			}
		})
	}
	await(t, "both wait", func() bool { return list[0].Waiting() == 1 && list[1].Waiting() == 1 })
	close(leave)
	all.Wait()
}

// TestReplicaDies: another one goes on with the job, and the first one, which was only slow, can record nothing more.
func TestReplicaDies(t *testing.T) {
	list := nodes(t, shortTTL)
	slow, other := list[0], list[1]
	entered := make(chan struct{})
	fenced := make(chan error, 1)
	var all sync.WaitGroup
	all.Go(func() {
		_, err := slow.Run(within(t), key, nil, func(ctx context.Context, op *operation.Operation) ([]byte, error) {
			if _, err := op.Step(ctx, "first", returns("kept"), nil); err != nil {
				return nil, err
			}
			return op.Step(ctx, "second", func(ctx context.Context) ([]byte, error) {
				close(entered)
				<-ctx.Done()
				fenced <- context.Cause(ctx)
				return []byte("too late"), nil
			}, nil)
		})
		if !errors.Is(err, reprise.ErrFenced) {
			t.Errorf("the slow one's Run: %v", err)
		}
	})
	receive(t, "the slow one works", entered)
	slow.store.cut.Store(true)
	result, err := other.Run(within(t), key, nil, func(ctx context.Context, op *operation.Operation) ([]byte, error) {
		first, err := op.Step(ctx, "first", returns("done again"), nil)
		if err != nil {
			return nil, err
		}
		if _, err := op.Step(ctx, "second", returns("done again"), nil); !errors.Is(err, operation.ErrUnknown) {
			t.Errorf("a step of the slow one: %v", err)
		}
		return fmt.Appendf(nil, "%s, attempt %d", first, op.Fence()), op.MarkDone("second", []byte("looked up"))
	})
	if err != nil || string(result) != "kept, attempt 2" {
		t.Errorf("%q, %v", result, err)
	}
	slow.store.cut.Store(false)
	if cause := receive(t, "the slow one is told", fenced); !errors.Is(cause, reprise.ErrFenced) {
		t.Errorf("cause %v", cause)
	}
	all.Wait()
	if got := states(t, other.Runner); got != "first=done second=done" {
		t.Errorf("states %s", got)
	}
}

// TestCloseHandsAttemptToWaitingProcess: a waiting process takes over the attempt of one that leaves, which is not
// reported as a failure. A step that finishes meanwhile is recorded.
func TestCloseHandsAttemptToWaitingProcess(t *testing.T) {
	list := nodes(t, longTTL)
	entered := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		_, err := list[0].Run(within(t), key, nil, func(ctx context.Context, op *operation.Operation) ([]byte, error) {
			_, err := op.Step(ctx, "a", func(ctx context.Context) ([]byte, error) {
				close(entered)
				<-ctx.Done()
				return []byte("done all the same"), nil
			}, nil)
			if err != nil {
				return nil, err
			}
			return op.Step(ctx, "b", returns("not here"), nil)
		})
		if !errors.Is(err, reprise.ErrClosed) {
			t.Errorf("the one that leaves: %v", err)
		}
	})
	receive(t, "the job runs", entered)
	all.Go(func() {
		resume := func(ctx context.Context, op *operation.Operation) ([]byte, error) {
			a, err := op.Step(ctx, "a", returns("again"), nil)
			if err != nil {
				return nil, err
			}
			b, err := op.Step(ctx, "b", returns("here"), nil)
			return fmt.Appendf(nil, "%s, %s", a, b), err
		}
		result, err := list[1].Run(within(t), key, nil, resume)
		if err != nil || string(result) != "done all the same, here" {
			t.Errorf("the one that waited: %q, %v", result, err)
		}
	})
	await(t, "the other waits", func() bool { return list[1].Waiting() == 1 })
	check(t, list[0].Close())
	all.Wait()
}

// TestCancelledWaiterLeaves does not disturb the job.
func TestCancelledWaiterLeaves(t *testing.T) {
	r := alone(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := r.Run(within(t), key, nil, func(ctx context.Context, op *operation.Operation) ([]byte, error) {
			close(entered)
			<-leave
			return nil, ctx.Err()
		})
		done <- err
	}()
	receive(t, "the job runs", entered)
	ctx, cancel := context.WithCancelCause(within(t))
	waited := make(chan error, 1)
	go func() {
		_, err := r.Run(ctx, key, nil, nil)
		waited <- err
	}()
	await(t, "it waits", func() bool { return r.Waiting() == 1 })
	cancel(errBroken)
	if err := receive(t, "the waiter leaves", waited); !errors.Is(err, errBroken) {
		t.Errorf("error %v", err)
	}
	close(leave)
	check(t, receive(t, "the job ends", done))
}

// TestOutageOfStoreDelaysStep: while the store fails a step waits, and is recorded once when it answers again.
func TestOutageOfStoreDelaysStep(t *testing.T) {
	store := &cuttable{Store: memstore.New(nil)}
	r := newRunner(t, open(t, struct{ reprise.Store }{store}), nil)
	calls := 0
	result, err := r.Run(within(t), key, nil, func(ctx context.Context, op *operation.Operation) ([]byte, error) {
		return op.Step(ctx, "through", func(context.Context) ([]byte, error) {
			calls++
			store.cut.Store(true)
			time.AfterFunc(100*time.Millisecond, func() { store.cut.Store(false) })
			return []byte("kept"), nil
		}, nil)
	})
	if err != nil || !bytes.Equal(result, []byte("kept")) || calls != 1 {
		t.Errorf("%q, %v, %d calls", result, err, calls)
	}
	record, err := r.Show(within(t), key)
	check(t, err)
	if diff := cmp.Diff([]byte("kept"), record.Steps[0].Result); diff != "" {
		t.Error(diff)
	}
}
