package execution_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/internal/problem"
	"reprise/internal/shared"
	"reprise/replica"
	"reprise/store/memstore"
)

// The times of the replicas in tests, which must not be late on a busy machine.
const (
	testBeat = 100 * time.Millisecond
	testTTL  = 6 * time.Second // of those that are to be taken for dead
	longTTL  = 5 * time.Minute // of those that are not, and of those that another one buries
)

// node is one replica in a test.
type node struct {
	*execution.Host
	log    *reprise.Log
	member *replica.Member
	store  *cuttable
	// fenced and takenOver count what its hooks were told.
	fenced, takenOver atomic.Int64
}

// cuttable is the store as one replica sees it, which can be cut off from it.
type cuttable struct {
	reprise.Store
	reprise.Watcher
	cut atomic.Bool
	// removing, where it is set, is called once before something is removed.
	removing atomic.Pointer[func()]
	// listed, where it is set, is called with each page before that is returned.
	listed atomic.Pointer[func(reprise.ListQuery, reprise.ListPage)]
}

// sharable is a store that replicas can share.
type sharable interface {
	reprise.Store
	reprise.Watcher
}

func newCuttable(store sharable) *cuttable { return &cuttable{Store: store, Watcher: store} }

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

func (c *cuttable) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	if c.cut.Load() {
		return reprise.StreamInfo{}, errCut
	}
	return c.Store.Create(ctx, info)
}

func (c *cuttable) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	if c.cut.Load() {
		return reprise.Page{}, errCut
	}
	return c.Store.Read(ctx, key, after, maxBytes)
}

func (c *cuttable) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	if c.cut.Load() {
		return reprise.ListPage{}, errCut
	}
	page, err := c.Store.List(ctx, q)
	if f := c.listed.Load(); f != nil {
		(*f)(q, page)
	}
	return page, err
}

func (c *cuttable) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	if f := c.removing.Swap(nil); f != nil {
		(*f)()
	}
	return c.Store.Remove(ctx, key, spec)
}

// nodes opens replicas that share a store in memory. None is taken for dead because the machine is busy.
func nodes(t *testing.T, n int, opts execution.Options) []*node {
	t.Helper()
	return nodesWithin(t, n, longTTL, opts)
}

// nodesWithin is nodes that are taken for dead after ttl.
func nodesWithin(t *testing.T, n int, ttl time.Duration, opts execution.Options) []*node {
	t.Helper()
	hub := shared.New(memstore.New(nil))
	list := make([]*node, n)
	for i := range list {
		list[i] = &node{store: newCuttable(hub.Store())}
	}
	for i, nd := range list {
		nd.open(t, &replica.Options{Name: string(rune('a' + i)), Beat: testBeat, TTL: ttl}, opts)
	}
	for _, nd := range list {
		if err := nd.member.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// buries declares the replica with a name dead, as this one would after the TTL, so that a test need not wait for that.
func (nd *node) buries(t *testing.T, name string) {
	t.Helper()
	for _, namespace := range []string{"replica:", "inbox:"} {
		s, err := nd.log.Stream(within(t), reprise.StreamKey{Tenant: replica.Tenant, Name: namespace + name})
		if err == nil {
			_, err = s.End(within(t), "lost", reprise.Event{})
		}
		if err != nil {
			t.Fatalf("%s%s: %v", namespace, name, err)
		}
	}
	if err := nd.member.Look(within(t)); err != nil {
		t.Fatal(err)
	}
	if nd.member.Alive(name) {
		t.Fatalf("%s is alive", name)
	}
}

// open opens what a replica has on its store.
func (nd *node) open(t *testing.T, join *replica.Options, opts execution.Options) {
	t.Helper()
	nd.log = newLog(t, nd.store, nil)
	var err error
	if nd.member, err = replica.Join(t.Context(), nd.log, join); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := nd.member.Close(); err != nil {
			t.Error(err)
		}
	})
	opts.Replica, opts.Secret = nd.member, []byte("the same on all")
	opts.Hooks = &execution.Hooks{
		Fenced:    func(reprise.Tenant) { nd.fenced.Add(1) },
		TakenOver: func(reprise.Tenant) { nd.takenOver.Add(1) },
	}
	nd.Host = openHost(t, nd.log, opts)
}

// TestOneReplicaControlsWhatAnotherRuns does everything once on a replica that does not run the command.
func TestOneReplicaControlsWhatAnotherRuns(t *testing.T) {
	list := nodes(t, 2, execution.Options{})
	a, b := list[0], list[1]
	x := start(t, a.Host, execution.Request{
		ID: "x", Session: "s", StdinOpen: true,
		Command: `trap 'echo got a signal' USR1; echo up; while read line; do echo "read $line"; done; echo eof; while :; do sleep 0.05; done`,
	})
	await(t, b.Host, x.ID, "up")
	// The owner is not waited for long, and without its answer the progress is missing.
	until(t, "it is shown with its progress", func() bool {
		shown, err := b.Show(within(t), tenant, x.ID)
		return err == nil && shown.Status == execution.StatusRunning && !shown.Started.IsZero() &&
			shown.Isolation != nil && shown.Bytes.Stdout == 3
	})
	until(t, "it is listed with its progress", func() bool {
		page, err := b.List(within(t), tenant, execution.ListQuery{Session: "s", Status: execution.StatusRunning})
		return err == nil && len(page.Executions) == 1 && page.Executions[0].Bytes.Stdout == 3
	})
	for i, w := range []execution.StdinWrite{
		{Offset: 0, Data: strings.NewReader("one\n")},
		{Offset: 0, Data: strings.NewReader("one\ntwo\n")}, // the first line again
		{Offset: -1, Data: strings.NewReader("three\n")},
	} {
		state, err := b.WriteStdin(within(t), tenant, x.ID, w)
		if want := []int64{4, 8, 14}[i]; err != nil || state.Offset != want || !state.Open {
			t.Errorf("stdin %d: %+v, %v", i, state, err)
		}
	}
	await(t, b.Host, x.ID, "read one\nread two\nread three\n")
	if got := output(t, b.Host, x.ID, execution.Stdout); !strings.HasSuffix(string(got), "three\n") {
		t.Errorf("output %q", got)
	}
	if state, err := b.WriteStdin(within(t), tenant, x.ID, execution.StdinWrite{Offset: -1, EOF: true}); err != nil ||
		state.Open {
		t.Errorf("eof: %+v, %v", state, err)
	}
	await(t, b.Host, x.ID, "eof")
	if err := b.Signal(within(t), tenant, x.ID, "USR1"); err != nil {
		t.Fatal(err)
	}
	await(t, b.Host, x.ID, "got a signal")
	for range 2 {
		if err := b.Cancel(within(t), tenant, x.ID); err != nil {
			t.Fatal(err)
		}
	}
	wantOutcome(t, finish(t, b.Host, x.ID), execution.Cancelled, 0, "TERM")
	if err := b.Remove(within(t), tenant, x.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Show(within(t), tenant, x.ID); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("after it was removed: %v", err)
	}
}

// TestErrorsAreThoseOfTheOwner compares what the owner says with what another replica says.
func TestErrorsAreThoseOfTheOwner(t *testing.T) {
	list := nodes(t, 2, execution.Options{MaxRunning: 2})
	open := start(t, list[0].Host, execution.Request{Command: "exec sleep 100", StdinOpen: true})
	shut := start(t, list[0].Host, execution.Request{Command: "exec sleep 100"})
	queued := start(t, list[0].Host, execution.Request{Command: "exec sleep 100"})
	await2(t, list[1], open.ID)
	await2(t, list[1], shut.ID)
	ended := func() string {
		if err := list[1].Cancel(within(t), tenant, shut.ID); err != nil {
			t.Fatal(err)
		}
		finish(t, list[1].Host, shut.ID)
		return shut.ID
	}
	stdin := func(id string, w execution.StdinWrite) func(*execution.Host) error {
		return func(h *execution.Host) error { _, err := h.WriteStdin(within(t), tenant, id, w); return err }
	}
	signal := func(id, name string) func(*execution.Host) error {
		return func(h *execution.Host) error { return h.Signal(within(t), tenant, id, name) }
	}
	compare := func(what string, want error, do func(*execution.Host) error) {
		t.Helper()
		here, there := do(list[0].Host), do(list[1].Host)
		if !errors.Is(here, want) || !errors.Is(there, want) {
			t.Errorf("%s: %v at the owner, %v elsewhere, want %v", what, here, there, want)
		} else if p, q := problem.From(here), problem.From(there); p != q {
			t.Errorf("%s: %+v at the owner, %+v elsewhere", what, p, q)
		}
	}
	compare("stdin beyond the offset", reprise.ErrConflict,
		stdin(open.ID, execution.StdinWrite{Offset: 7, Data: strings.NewReader("x")}))
	compare("stdin beyond the offset, without data", reprise.ErrConflict,
		stdin(open.ID, execution.StdinWrite{Offset: 7, EOF: true}))
	compare("stdin that was not opened", reprise.ErrEnded,
		stdin(shut.ID, execution.StdinWrite{Data: strings.NewReader("x")}))
	compare("no signal", reprise.ErrInvalid, signal(open.ID, "NONE"))
	compare("signal to nobody", reprise.ErrNotFound, signal("nobody", "INT"))
	compare("signal before the start", reprise.ErrConflict, signal(queued.ID, "INT"))
	id := ended()
	until(t, "the owner has forgotten it", func() bool {
		_, err := list[0].WriteStdin(within(t), tenant, id, execution.StdinWrite{})
		return problem.From(err).Detail == problem.From(list[0].Signal(within(t), tenant, id, "INT")).Detail
	})
	compare("signal after the end", reprise.ErrEnded, signal(id, "INT"))
	compare("stdin after the end", reprise.ErrEnded, stdin(id, execution.StdinWrite{Data: strings.NewReader("x")}))
	compare("cancel of nobody", reprise.ErrNotFound,
		func(h *execution.Host) error { return h.Cancel(within(t), tenant, "nobody") })
}

// await2 waits until a command that says nothing has been started.
func await2(t *testing.T, nd *node, id string) {
	t.Helper()
	until(t, "it runs", func() bool { return status(t, nd.Host, id) == execution.StatusRunning })
}

// TestStartIsIdempotentOnAnyReplica: of many equal starts on all replicas one starts the command.
func TestStartIsIdempotentOnAnyReplica(t *testing.T) {
	list := nodes(t, 3, execution.Options{})
	for round := range 5 {
		req := execution.Request{IdempotencyKey: fmt.Sprint("key ", round), Command: "echo once"}
		var created atomic.Int64
		var ids sync.Map
		var starts sync.WaitGroup
		for i := range 12 {
			starts.Go(func() {
				x, made, err := list[i%3].Start(within(t), tenant, req)
				if err != nil {
					t.Error(err)
					return
				}
				ids.Store(x.ID, true)
				if made {
					created.Add(1)
				}
			})
		}
		starts.Wait()
		n := 0
		for id := range ids.Range {
			n++
			finish(t, list[0].Host, id.(string))
			for _, nd := range list {
				if got := output(t, nd.Host, id.(string), execution.Stdout); string(got) != "once\n" {
					t.Errorf("output %q", got)
				}
			}
		}
		if n != 1 || created.Load() != 1 {
			t.Errorf("%d executions, %d were created", n, created.Load())
		}
		req.Command = "echo another"
		for _, nd := range list {
			if _, _, err := nd.Start(within(t), tenant, req); !errors.Is(err, reprise.ErrConflict) {
				t.Errorf("another request under the same key: %v", err)
			}
		}
	}
}
