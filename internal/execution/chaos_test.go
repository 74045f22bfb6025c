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
	const ttl = 3 * time.Second // those that are taken for dead without cause do no harm here
	list := nodesWithin(t, 4, ttl, execution.Options{})
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
	trouble := make(chan struct{})
	go func() {
		defer close(trouble)
		for i := range 6 { // every other time for long enough to be taken for dead, with a command that has just begun
			nd := list[rand.N(len(list))]
			if long := i%2 == 1; long {
				for try := 0; !begin(nd, fmt.Sprint("cut", i, "-", try)) && try < 100; try++ {
					<-time.After(testBeat)
				}
			}
			nd.store.cut.Store(true)
			<-time.After(time.Duration(i%2)*3*ttl/2 + rand.N(ttl/2))
			nd.store.cut.Store(false)
			<-time.After(testBeat)
		}
	}()
	for i, going := 0, true; going; i++ {
		select {
		case <-trouble:
			going = false
		case <-time.After(100 * time.Millisecond):
			begin(list[rand.N(len(list))], fmt.Sprint("x", i))
		}
	}
	retry(t, func(ctx context.Context) error { // one that nobody disturbs
		_, _, err := list[0].Start(ctx, tenant, execution.Request{ID: "last", Command: command})
		return err
	})
	ids = append(ids, "last")
	outcomes := map[execution.Outcome]int{}
	for i, id := range ids {
		x := finish(t, list[i%len(list)].Host, id)
		outcomes[*x.Outcome]++
		got := string(output(t, list[(i+1)%len(list)].Host, id, execution.Stdout))
		if !strings.HasPrefix(want.String(), got) || *x.Outcome == execution.Exited && got != want.String() {
			t.Errorf("%s %s with output %q", id, *x.Outcome, got)
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
