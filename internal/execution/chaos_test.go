package execution_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"reprise"
	"reprise/internal/execution"
)

// TestReplicasComeAndGo cuts replicas off from the store and lets them come back, again and again, while commands are
// started at any of them. In the end each execution that was started has one end, what was kept of its output is
// the beginning of what it wrote, all of it where it exited, and nothing runs any more.
func TestReplicasComeAndGo(t *testing.T) {
	t.Parallel()
	list := nodes(t, 4, execution.Options{})
	const lines = 40
	command := fmt.Sprintf(`i=0; while [ $i -lt %d ]; do i=$((i+1)); echo $i; sleep 0.02; done`, lines)
	var want strings.Builder
	for i := range lines {
		fmt.Fprintln(&want, i+1)
	}
	var mu sync.Mutex
	var ids []string
	begin := func(nd *node, id string) (started bool) {
		_, _, err := nd.Start(within(t), tenant, execution.Request{ID: id, Command: command})
		if err != nil && !errors.Is(err, reprise.ErrUnavailable) {
			t.Errorf("start: %v", err)
		}
		if err != nil {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, id)
		return true
	}
	seed := uint64(1)
	if soaking {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	over := make(chan struct{})
	var starting sync.WaitGroup
	starting.Go(func() {
		rnd := rand.New(rand.NewPCG(seed, 0))
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			case <-time.After(testBeat):
				begin(list[rnd.IntN(len(list))], fmt.Sprint("x", i))
			}
		}
	})
	rnd := rand.New(rand.NewPCG(seed, 1))
	pause := func() { <-time.After(time.Duration(rnd.Int64N(int64(3 * testBeat)))) }
	for i := range 12 { // every other time another one takes it for dead, with a command that has just begun
		at := rnd.IntN(len(list))
		nd := list[at]
		name := ""
		until(t, "it has joined", func() bool {
			name = nd.member.Name()
			return name != ""
		})
		dies := i%2 == 1
		for try := 0; dies && !begin(nd, fmt.Sprint("cut", i, "-", try)) && try < 100; try++ {
			<-time.After(testBeat)
		}
		nd.store.cut.Store(true)
		pause()
		if dies {
			list[(at+1)%len(list)].buries(t, name)
			pause()
		}
		nd.store.cut.Store(false)
		<-time.After(testBeat)
	}
	close(over)
	starting.Wait()
	retry(t, func(ctx context.Context) error { // one that nobody disturbs
		_, _, err := list[0].Start(ctx, tenant, execution.Request{ID: "last", Command: command})
		return err
	})
	ids = append(ids, "last")
	outcomes := map[execution.Outcome]int{}
	for i, id := range ids {
		x := finish(t, list[i%len(list)].Host, id)
		outcomes[x.Outcome]++
		got := string(output(t, list[(i+1)%len(list)].Host, id, execution.Stdout))
		if !strings.HasPrefix(want.String(), got) || x.Outcome == execution.Exited && got != want.String() {
			t.Errorf("%s %s with output %q", id, x.Outcome, got)
		}
	}
	t.Logf("%d executions: %v", len(ids), outcomes)
	if outcomes[execution.Exited] == 0 || outcomes[execution.Lost] == 0 || len(outcomes) != 2 {
		t.Errorf("outcomes %v", outcomes)
	}
	for _, nd := range list {
		until(t, "nothing runs", func() bool { return nd.Counts() == execution.Counts{} })
	}
}
