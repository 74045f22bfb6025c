package execution_test

import (
	"context"
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
	"reprise/internal/storeurl"
	"reprise/replica"
	"reprise/store/memstore"
)

// gated is a command that counts its runs in a file, and ends as the test says.
type gated struct{ dir string }

func newGated(t *testing.T) *gated { return &gated{t.TempDir()} }

func (g *gated) request(key string) execution.Request {
	return execution.Request{
		Key: key, Cwd: g.dir,
		Command: `echo run >>runs; echo out; until [ -e "go" ]; do sleep 0.02; done; exit $(cat go)`,
	}
}

// let makes the commands end that run now and later.
func (g *gated) let(t *testing.T, code int) {
	t.Helper()
	file := filepath.Join(g.dir, "go")
	if err := os.WriteFile(file+".new", fmt.Append(nil, code), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// hold makes later commands wait again.
func (g *gated) hold(t *testing.T) {
	t.Helper()
	if err := os.Remove(filepath.Join(g.dir, "go")); err != nil {
		t.Fatal(err)
	}
}

func (g *gated) runs() int {
	text, _ := os.ReadFile(filepath.Join(g.dir, "runs"))
	return strings.Count(string(text), "run\n")
}

// attached starts what must be there already.
func attached(t *testing.T, h *execution.Host, req execution.Request) execution.Execution {
	t.Helper()
	x, created, err := h.Start(within(t), tenant, req)
	if err != nil || created {
		t.Fatalf("created %t, %v", created, err)
	}
	return x
}

func refused(t *testing.T, h *execution.Host, req execution.Request, want error) {
	t.Helper()
	if _, _, err := h.Start(within(t), tenant, req); !errors.Is(err, want) {
		t.Fatalf("%v instead of %v", err, want)
	}
}

// keys are the streams of keys.
func keys(t *testing.T, log *reprise.Log) []reprise.StreamInfo {
	t.Helper()
	page, err := log.List(within(t), reprise.ListQuery{Namespace: "key:", Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	return page.Streams
}

// TestKeyIsAnsweredFromTheRecord: the same request attaches while the command runs and after its success, another one
// is a conflict, and removing the execution frees the key.
func TestKeyIsAnsweredFromTheRecord(t *testing.T) {
	log := newLog(t, memstore.New(nil), nil)
	h := openHost(t, log, execution.Options{})
	g := newGated(t)
	req, another := g.request("a key of any form: /é"), g.request("a key of any form: /é")
	another.Env = map[string]string{"A": "1"}
	x := start(t, h, req)
	if y := attached(t, h, req); y.ID != x.ID || y.Key != req.Key || y.Status == execution.StatusEnded {
		t.Errorf("while it runs: %+v", y)
	}
	refused(t, h, another, reprise.ErrConflict)
	if _, created, err := h.Start(within(t), "other", g.request(req.Key)); err != nil || !created {
		t.Errorf("the key of another tenant: created %t, %v", created, err)
	}
	g.let(t, 0)
	wantOutcome(t, finish(t, h, x.ID), execution.Exited, 0, "")
	until(t, "the keys end", func() bool {
		list := keys(t, log)
		return len(list) == 2 && list[0].End != nil && list[1].End != nil
	})
	if list := keys(t, log); list[0].Config.Retention.MaxAge != 24*time.Hour {
		t.Errorf("the record is kept for %s", list[0].Config.Retention.MaxAge)
	}
	if y := attached(t, h, req); y.ID != x.ID || string(output(t, h, y.ID, execution.Stdout)) != "out\n" {
		t.Errorf("after success: %+v", y)
	}
	refused(t, h, another, reprise.ErrConflict)
	if g.runs() != 2 {
		t.Errorf("%d runs, one of each tenant are expected", g.runs())
	}
	if err := h.Remove(within(t), tenant, x.ID); err != nil {
		t.Fatal(err)
	}
	if y := start(t, h, another); y.ID == x.ID {
		t.Error("the same id")
	}
}

// TestKeyStartsAgain after every end but success, each time as another execution, and not after that.
func TestKeyStartsAgain(t *testing.T) {
	h := newHost(t, execution.Options{})
	g := newGated(t)
	req := g.request("k")
	ids := map[string]bool{}
	for name, end := range map[string]func(id string){
		"exit code": func(string) { g.let(t, 3) },
		"cancel": func(id string) {
			if err := h.Cancel(within(t), tenant, id); err != nil {
				t.Error(err)
			}
		},
		"signal": func(id string) {
			until(t, "it takes the signal", func() bool { return h.Signal(within(t), tenant, id, "KILL") == nil })
		},
	} {
		x := start(t, h, req)
		end(x.ID)
		if x = finish(t, h, x.ID); x.Outcome == "" || ids[x.ID] {
			t.Errorf("%s: %+v", name, x)
		}
		ids[x.ID] = true
		if name == "exit code" {
			g.hold(t)
		}
	}
	g.let(t, 0)
	x := start(t, h, req)
	wantOutcome(t, finish(t, h, x.ID), execution.Exited, 0, "")
	if y := attached(t, h, req); y.ID != x.ID {
		t.Errorf("after success: %+v", y)
	}
	for id := range ids { // what was printed before is kept
		if y, err := h.Show(within(t), tenant, id); err != nil || y.Key != "k" {
			t.Errorf("%+v, %v", y, err)
		}
	}
	failing := execution.Request{Key: "nothing", Argv: []string{"/does/not/exist"}}
	first := finish(t, h, start(t, h, failing).ID)
	if second := start(t, h, failing); second.ID == first.ID {
		t.Error("what failed to start is not started again")
	}
}

// TestKeyStartsOnce: of 50 callers on two replicas one starts the command, and so after it has failed. The others find
// it.
func TestKeyStartsOnce(t *testing.T) {
	startsOnce(t, nodes(t, 2, execution.Options{}), 50)
}

// TestKeyStartsOnceOnServers is that, with fewer callers, on each store that can be shared.
func TestKeyStartsOnceOnServers(t *testing.T) {
	t.Parallel()
	for name, serve := range servers {
		t.Run("store="+name, func(t *testing.T) {
			t.Parallel()
			url := serve(t)
			list := make([]*node, 2)
			for i := range list {
				store, err := storeurl.Open(t.Context(), url, nil)
				if err != nil {
					t.Fatal(err)
				}
				list[i] = &node{store: newCuttable(store.(sharable))}
				list[i].open(t, &replica.Options{Beat: farTTL.Beat, TTL: time.Minute}, execution.Options{})
			}
			startsOnce(t, list, 10)
		})
	}
}

func startsOnce(t *testing.T, list []*node, callers int) {
	t.Helper()
	g := newGated(t)
	req := g.request("once")
	for attempt := range 3 {
		var created atomic.Int64
		ids := make([]string, callers)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				x, mine, err := list[i%2].Start(within(t), tenant, req)
				if err != nil {
					t.Errorf("caller %d: %v", i, err)
				}
				if ids[i] = x.ID; mine {
					created.Add(1)
				}
			})
		}
		all.Wait()
		for _, id := range ids {
			if id != ids[0] {
				t.Fatalf("ids %s and %s", id, ids[0])
			}
		}
		if created.Load() != 1 {
			t.Errorf("%d callers were told that they have started it", created.Load())
		}
		g.let(t, 2-attempt)
		wantOutcome(t, finish(t, list[1].Host, ids[0]), execution.Exited, 2-attempt, "")
		if g.runs() != attempt+1 {
			t.Fatalf("%d runs in %d attempts", g.runs(), attempt+1)
		}
		g.hold(t)
	}
	for _, nd := range list {
		attached(t, nd.Host, req)
	}
}

// TestKeyStartsOnceBehindAnother: one that finds a failure, and is overtaken by another one that has started again
// meanwhile, attaches to that.
func TestKeyStartsOnceBehindAnother(t *testing.T) {
	list := nodes(t, 2, execution.Options{})
	g := newGated(t)
	req := g.request("k")
	first := start(t, list[0].Host, req)
	g.let(t, 1)
	finish(t, list[1].Host, first.ID)
	g.hold(t)
	var again execution.Execution
	overtake := func() { again = start(t, list[0].Host, req) }
	list[1].store.removing.Store(&overtake)
	if x := attached(t, list[1].Host, req); x.ID != again.ID || x.ID == first.ID {
		t.Errorf("ids %s, %s, %s", first.ID, again.ID, x.ID)
	}
}

// TestKeyAfterReplicaDies: what is lost is started again, once, on another replica.
func TestKeyAfterReplicaDies(t *testing.T) {
	list := nodes(t, 3, execution.Options{})
	g := newGated(t)
	req := g.request("k")
	x := start(t, list[0].Host, req)
	await(t, list[1].Host, x.ID, "out")
	if y := attached(t, list[1].Host, req); y.ID != x.ID {
		t.Errorf("through another replica: %+v", y)
	}
	list[0].store.cut.Store(true)
	defer list[0].store.cut.Store(false) // its Host is closed after this
	list[1].buries(t, list[0].member.Name())
	wantOutcome(t, finish(t, list[1].Host, x.ID), execution.Lost, -1, "")
	again := start(t, list[1].Host, req)
	if y := attached(t, list[2].Host, req); y.ID != again.ID || y.ID == x.ID {
		t.Errorf("ids %s, %s, %s", x.ID, again.ID, y.ID)
	}
}

// TestKeyIsForgottenWithItsExecution: when both have been swept and no names are remembered, the same request starts
// anew.
func TestKeyIsForgottenWithItsExecution(t *testing.T) {
	log := newLog(t, memstore.New(nil), &reprise.Options{SweepEvery: -1})
	h := openHost(t, log, execution.Options{Remember: -1})
	req := execution.Request{
		Key:       "k",
		Command:   "true",
		Retention: execution.Retention{MaxAge: execution.Duration(time.Millisecond)},
	}
	x := start(t, h, req)
	finish(t, h, x.ID)
	until(t, "both are swept", func() bool {
		if _, err := log.Sweep(within(t)); err != nil {
			t.Fatal(err)
		}
		_, err := h.Show(within(t), tenant, x.ID)
		return errors.Is(err, reprise.ErrExpired) && len(keys(t, log)) == 0
	})
	start(t, h, req)
}

func TestKeyWithAnotherName(t *testing.T) {
	h := newHost(t, execution.Options{})
	for _, req := range []execution.Request{
		{Key: "k", ID: "id", Command: "true"},
		{Key: "k", IdempotencyKey: "i", Command: "true"},
		{Key: strings.Repeat("k", 256), Command: "true"},
	} {
		_, _, err := h.Start(within(t), tenant, req)
		if field, ok := errors.AsType[*execution.FieldError](err); !ok || field.Field != "key" {
			t.Errorf("%+v: %v", req, err)
		}
	}
	// A request that the machine refuses does not take the key.
	if _, _, err := h.Start(within(t), tenant, execution.Request{
		Key: "k", Command: "true", Isolation: "none", Access: execution.Access{Network: "off"},
	}); err == nil {
		t.Fatal("no error")
	}
	start(t, h, execution.Request{Key: "k", Command: "true"})
}

// halfway is a store that fails for streams of one namespace.
type halfway struct {
	reprise.Store
	failing atomic.Pointer[string]
}

func (s *halfway) fails(key reprise.StreamKey) bool {
	namespace := s.failing.Load()
	return namespace != nil && key.Namespace() == *namespace
}

func (s *halfway) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	if s.fails(info.Key) {
		return reprise.StreamInfo{}, errCut
	}
	return s.Store.Create(ctx, info)
}

func (s *halfway) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	errs := make([]error, len(reqs))
	for i, req := range reqs {
		if errs[i] = errCut; !s.fails(req.Key) {
			errs[i] = errors.Join(s.Store.Append(ctx, []reprise.AppendRequest{req})...)
		}
	}
	return errs
}

func (s *halfway) fail(namespace string) {
	if s.failing.Store(nil); namespace != "" {
		s.failing.Store(&namespace)
	}
}

// TestKeyOfServerThatDiesHalfway: a key without an execution starts it, once, and a key that was not ended with its
// execution is ended by the next Host.
func TestKeyOfServerThatDiesHalfway(t *testing.T) {
	store := &halfway{Store: memstore.New(nil)}
	log := newLog(t, store, nil)
	opts := execution.Options{Secret: []byte("the same for each Host")}
	h := openHost(t, log, opts)
	g := newGated(t)
	req := g.request("k")

	store.fail("execution:")
	refused(t, h, req, reprise.ErrUnavailable)
	if list := keys(t, log); len(list) != 1 {
		t.Fatalf("keys %+v", list)
	}
	other := g.request("k")
	other.Command = "true"
	refused(t, h, other, reprise.ErrConflict)
	store.fail("")
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h = openHost(t, log, opts) // which leaves the key alone: somebody may be about to start
	x := start(t, h, req)

	store.fail("key:")
	g.let(t, 0)
	finish(t, h, x.ID)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if list := keys(t, log); len(list) != 1 || list[0].End != nil {
		t.Fatalf("keys %+v", list)
	}
	store.fail("")
	h = openHost(t, log, opts)
	if list := keys(t, log); len(list) != 1 || list[0].End == nil {
		t.Fatalf("keys %+v", list)
	}
	if y := attached(t, h, req); y.ID != x.ID {
		t.Errorf("%+v", y)
	}

	// One whose execution was never started is removed when it is as old as a record becomes.
	store.fail("execution:")
	lost := g.request("never")
	lost.Retention.MaxAge = execution.Duration(time.Millisecond)
	refused(t, h, lost, reprise.ErrUnavailable)
	store.fail("")
	until(t, "the key is removed", func() bool {
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		h = openHost(t, log, opts)
		return len(keys(t, log)) == 1
	})
}
