package execution_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"reprise"
	"reprise/internal/execution"
	"reprise/store/memstore"
)

// noticed is how long it may take until the end of a replica's runs, as docs/replicas.md
// states it, and what a busy machine takes besides.
const noticed = testTTL + 2*testBeat + 30*time.Second

// TestReplicaDies: two others end each of its executions as lost, once, with the output that was
// acknowledged, and nothing of other replicas.
func TestReplicaDies(t *testing.T) {
	t.Parallel() // it waits most of the time
	list := nodesWithin(t, 3, testTTL, execution.Options{})
	a, b, c := list[0], list[1], list[2]
	const runs = 8
	for i := range runs {
		start(t, a.Host, execution.Request{ID: fmt.Sprint("a", i), Command: "echo kept; exec sleep 100"})
		await(t, b.Host, fmt.Sprint("a", i), "kept")
	}
	own := start(t, b.Host, execution.Request{Command: "echo own; read x; echo $x", StdinOpen: true})
	await(t, c.Host, own.ID, "own")
	died := time.Now()
	a.store.cut.Store(true)
	defer a.store.cut.Store(false) // its Host is closed after this
	for i := range runs {
		x := finish(t, list[1+i%2].Host, fmt.Sprint("a", i))
		wantOutcome(t, x, execution.Lost, -1, "")
		got := output(t, c.Host, x.ID, execution.Stdout)
		if string(got) != "kept\n" || x.Bytes.Stdout != 5 || x.Error == "" || x.Started.IsZero() {
			t.Errorf("output %q, %+v", got, x)
		}
	}
	took := time.Since(died)
	if took > noticed || took < testTTL/2 { // the last beat may have been a late one
		t.Errorf("it took %s", took)
	}
	t.Logf("lost %s after the last beat, at a TTL of %s", took.Round(time.Millisecond), testTTL)
	until(t, "each is counted", func() bool { return b.takenOver.Load()+c.takenOver.Load() == runs })
	_, err := b.WriteStdin(within(t), tenant, own.ID, execution.StdinWrite{Data: strings.NewReader("mine\n")})
	if err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, finish(t, c.Host, own.ID), execution.Exited, 0, "")
	if b.takenOver.Load()+c.takenOver.Load() != runs || b.fenced.Load()+c.fenced.Load() != 0 {
		t.Errorf("%d and %d were taken over, %d and %d fenced",
			b.takenOver.Load(), c.takenOver.Load(), b.fenced.Load(), c.fenced.Load())
	}
}

// TestReplicaWasOnlySlow cuts one off from the store until its runs are lost. When it is back it kills their
// processes, adds nothing to their streams, and takes part again under another name.
func TestReplicaWasOnlySlow(t *testing.T) {
	t.Parallel() // it waits most of the time
	trees(t, func(t *testing.T, opts execution.Options) {
		t.Parallel()
		list := nodes(t, 2, opts)
		a, b := list[0], list[1]
		name := a.member.Name()
		quiet := start(t, a.Host, execution.Request{ID: "quiet", Command: treeCommand})
		chatty := start(t, a.Host,
			execution.Request{ID: "chatty", Command: `echo "child $$"; while :; do echo more; sleep 0.01; done`})
		pids := append(children(await(t, b.Host, quiet.ID, "up")), children(await(t, b.Host, chatty.ID, "more"))...)
		if len(pids) != 3 {
			t.Fatalf("processes %v", pids)
		}
		a.store.cut.Store(true)
		b.buries(t, name)
		for _, id := range []string{quiet.ID, chatty.ID} {
			wantOutcome(t, finish(t, b.Host, id), execution.Lost, -1, "")
		}
		_, _, err := a.Start(within(t), tenant, execution.Request{Command: "true"})
		if !errors.Is(err, reprise.ErrUnavailable) {
			t.Errorf("start without a store: %v", err)
		}
		if a.fenced.Load() != 0 {
			t.Error("it knows that it was taken for dead without the store")
		}
		a.store.cut.Store(false)
		for _, pid := range pids {
			until(t, "its processes are killed", func() bool { return !alive(pid) })
		}
		until(t, "its runs are over", func() bool { return a.Counts() == execution.Counts{} })
		until(t, "both are counted", func() bool { return a.fenced.Load() == 2 && b.takenOver.Load() == 2 })
		for _, id := range []string{quiet.ID, chatty.ID} {
			follow(t, a.Host, id) // one end, and nothing behind it
		}
		until(t, "it has joined again", func() bool { return a.member.Name() != "" && a.member.Name() != name })
		x := start(t, a.Host, execution.Request{Command: "echo again"})
		wantOutcome(t, finish(t, b.Host, x.ID), execution.Exited, 0, "")
	})
}

// TestOutageOfStoreForAllReplicasLosesNothing: while no replica reaches the store, no execution is lost or reported as
// lost. When the store is back, all executions continue.
func TestOutageOfStoreForAllReplicasLosesNothing(t *testing.T) {
	t.Parallel() // it waits most of the time
	list := nodesWithin(t, 3, testTTL, execution.Options{})
	for i, nd := range list {
		start(t, nd.Host, execution.Request{
			ID: strconv.Itoa(i), StdinOpen: true,
			Command: `echo up; seq 1 200000; read x; echo "$x"`,
		})
	}
	for _, nd := range list {
		nd.store.cut.Store(true)
	}
	<-time.After(2 * testTTL) // real processes, real time
	for _, nd := range list {
		nd.store.cut.Store(false)
	}
	var want bytes.Buffer
	want.WriteString("up\n")
	for i := range int64(200_000) {
		want.Write(append(strconv.AppendInt(want.AvailableBuffer(), i+1, 10), '\n'))
	}
	want.WriteString("done\n")
	for i := range list {
		id, other := strconv.Itoa(i), list[(i+1)%3].Host
		retry(t, func(ctx context.Context) error {
			_, err := other.WriteStdin(ctx, tenant, id, execution.StdinWrite{Data: strings.NewReader("done\n")})
			return err
		})
		wantOutcome(t, finish(t, other, id), execution.Exited, 0, "")
		if got := output(t, other, id, execution.Stdout); !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%d bytes of output, want %d", len(got), want.Len())
		}
		if list[i].fenced.Load()+list[i].takenOver.Load() != 0 {
			t.Error("a replica was taken for dead")
		}
	}
}

// retry repeats what fails while the store or a replica is away.
func retry(t *testing.T, do func(context.Context) error) {
	t.Helper()
	until(t, "it succeeds", func() bool {
		err := do(within(t))
		if err != nil && !errors.Is(err, reprise.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// TestNewReplicaTakesUpExecutionsOfOthers opens a replica over executions of unknown owners, of no owner, and of a Host
// that was alone, and a Host that is alone over executions of replicas.
func TestNewReplicaTakesUpExecutionsOfOthers(t *testing.T) {
	leave := func(log *reprise.Log, id string, owner reprise.Owner) {
		key := reprise.StreamKey{Tenant: tenant, Name: "execution:" + id}
		_, _, err := log.CreateWith(t.Context(), reprise.CreateOptions{Owner: owner}, key, reprise.StreamConfig{})
		if err != nil {
			t.Fatal(err)
		}
	}
	owners := map[string]reprise.Owner{
		"unknown": {Name: "replica-gone", Fence: 1},
		"twice":   {Name: "replica-gone", Fence: 7},
		"none":    {},
	}
	check := func(h *execution.Host) {
		t.Helper()
		for id := range owners {
			wantOutcome(t, finish(t, h, id), execution.Lost, -1, "")
		}
	}
	list := nodesWithin(t, 1, testTTL, execution.Options{})
	for id, owner := range owners {
		leave(list[0].log, id, owner)
	}
	if err := errors.Join(list[0].Close()); err != nil {
		t.Fatal(err)
	}
	check(openHost(t, list[0].log, execution.Options{Replica: list[0].member}))

	log := newLog(t, memstore.New(nil), nil)
	for id, owner := range owners {
		leave(log, id, owner)
	}
	check(openHost(t, log, execution.Options{}))
}

// TestRemoveOfWhatADeadReplicaRan waits until it was taken over.
func TestRemoveOfWhatADeadReplicaRan(t *testing.T) {
	t.Parallel() // it waits most of the time
	list := nodesWithin(t, 2, testTTL, execution.Options{})
	a, b := list[0], list[1]
	for _, id := range []string{"x", "y"} {
		start(t, a.Host, execution.Request{ID: id, Session: "s", Command: "echo up; exec sleep 100"})
		await(t, b.Host, id, "up")
	}
	a.store.cut.Store(true)
	defer a.store.cut.Store(false)
	if err := b.Remove(within(t), tenant, "x"); err != nil {
		t.Fatal(err)
	}
	if err := b.RemoveSession(within(t), tenant, "s"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Session(within(t), tenant, "s"); !errors.Is(err, reprise.ErrNotFound) {
		t.Errorf("the session: %v", err)
	}
}

// TestSessionOverReplicas is shown and removed anywhere.
func TestSessionOverReplicas(t *testing.T) {
	list := nodes(t, 3, execution.Options{})
	for i, nd := range list {
		start(t, nd.Host, execution.Request{ID: strconv.Itoa(i), Session: "s", Command: "echo up; exec sleep 100"})
		await(t, list[0].Host, strconv.Itoa(i), "up")
	}
	s, err := list[1].Session(within(t), tenant, "s")
	if err != nil || s.Count != 3 || s.Running != 3 {
		t.Fatalf("%+v, %v", s, err)
	}
	for _, x := range s.Executions {
		if x.Bytes.Stdout != 3 || x.Started.IsZero() {
			t.Errorf("%s is shown with %+v, started %v", x.ID, x.Bytes, x.Started)
		}
	}
	if err := list[2].RemoveSession(within(t), tenant, "s"); err != nil {
		t.Fatal(err)
	}
	for _, nd := range list {
		until(t, "nothing runs", func() bool { return nd.Counts() == execution.Counts{} })
		if _, err := nd.Session(within(t), tenant, "s"); !errors.Is(err, reprise.ErrNotFound) {
			t.Errorf("after it was removed: %v", err)
		}
	}
}
