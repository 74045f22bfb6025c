package sim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"reprise"
)

const defaultSeeds = 100

var (
	seeds    = flag.Int("seeds", defaultSeeds, "how many seeds to run")
	from     = flag.Uint64("from", 1, "the first seed")
	oneSeed  = flag.Uint64("seed", 0, "the only seed to run; its steps are printed with -v")
	maxSteps = flag.Int("steps", 1200, "the steps of a seed before faults cease")
	repeats  = flag.Int("repeats", 20, "how many seeds TestRepeatsOfASeed runs twice")
)

// TestSim runs seeds. It shortens the first failing one and prints it.
func TestSim(t *testing.T) {
	first, n := *from, *seeds
	if *oneSeed != 0 {
		first, n = *oneSeed, 1
	}
	if (testing.Short() || raceDetector) && n == defaultSeeds {
		n /= 5
	}
	began, steps := time.Now(), 0
	for seed := first; seed < first+uint64(n); seed++ {
		s := run(t, seed, *maxSteps)
		steps += len(s.trace)
		if s.failure != nil {
			report(t, s)
			t.Fatalf("seed %d, the %d. of this run, fails: %v", seed, seed-first+1, s.failure)
		}
		if *oneSeed != 0 {
			t.Log("\n" + strings.Join(s.trace, "\n"))
		}
	}
	t.Logf("%d seeds, %d lines of trace, %v", n, steps, time.Since(began).Round(time.Millisecond))
}

// TestRepeatsOfASeed counts the seeds that take exactly the same steps with the same results when repeated. Go's
// scheduler takes no seed, so not all of them do: most on a quiet machine, about half on a busy one. The race detector
// starts goroutines in random order: with it the seeds run twice, but need not repeat.
func TestRepeatsOfASeed(t *testing.T) {
	same, n := 0, *repeats
	if raceDetector {
		n /= 5
	}
	for seed := range uint64(n) {
		a, b := run(t, *from+seed, *maxSteps), run(t, *from+seed, *maxSteps)
		if a.hash == b.hash {
			same++
			continue
		}
		for i := range a.trace {
			if i >= len(b.trace) || a.trace[i] != b.trace[i] {
				t.Logf("seed %d differs at line %d of %d: %q", *from+seed, i, len(a.trace), a.trace[i])
				break
			}
		}
	}
	t.Logf("%d of %d seeds repeat exactly", same, n)
	if same < n/4 && !raceDetector {
		t.Errorf("a seed is to be run again by its number: too few repeat")
	}
}

// run simulates a seed, with faults for a number of steps.
func run(t *testing.T, seed uint64, steps int) (s *simulation) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // with one, the order of goroutines rarely changes
	cryptotest.SetGlobalRandom(t, seed)
	defer func() { // goroutines that never end make the bubble panic
		if p := recover(); p != nil && s.failed() == nil {
			s.fail("goroutines are left: %v", p)
		}
	}()
	synctest.Test(t, func(*testing.T) {
		s = newSimulation(seed)
		s.run(steps)
	})
	return s
}

// run executes steps, then ends all faults and checks that everything works again.
func (s *simulation) run(steps int) {
	s.settle()
	for i := 0; i < steps && s.failed() == nil; i++ {
		s.step(i)
	}
	s.calm = true
	s.note("       calm")
	s.drain()
	if s.failed() == nil {
		s.worksAgain()
	}
	s.over = true
	for _, r := range s.replicas {
		if r.log != nil {
			log := r.log
			r.log = nil
			r.closing++
			go r.end(log)
		}
	}
	s.settle()
	s.drainUntil("logs close", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, r := range s.replicas {
			if r.closing > 0 {
				return false
			}
		}
		return true
	})
}

// drain lets all operations end. Waiting readers are cancelled.
func (s *simulation) drain() {
	for _, r := range s.replicas {
		r.frozen = false
	}
	s.drainUntil("operations end", func() bool {
		busy := false
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, r := range s.replicas {
			busy = busy || r.log == nil
		}
		for _, c := range s.clients {
			busy = busy || c.busy && !c.follows
		}
		return !busy
	})
	for _, c := range s.clients {
		if !c.idle() {
			c.cancel()
		}
	}
	s.settle()
	s.drainUntil("readers end", func() bool {
		for _, c := range s.clients {
			if !c.idle() {
				return false
			}
		}
		return len(s.late) == 0
	})
}

// drainUntil executes events until done. Events that take longer than minutes of the bubble's time never happen.
func (s *simulation) drainUntil(what string, done func() bool) {
	idle := 0
	for i := 0; !done(); i++ {
		if s.step(i) {
			if i > 20000 {
				s.fail("G7: not after %d steps: %s", i, what)
				return
			}
			continue
		}
		if idle++; idle > 60 {
			s.fail("G7: never: %s; %s", what, s.busy())
			return
		}
		s.sleep(5 * time.Second)
		s.settle()
	}
}

// busy names the clients whose operations have not ended.
func (s *simulation) busy() string {
	var list []string
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		if c.busy {
			list = append(list, c.op.what)
		}
	}
	return strings.Join(list, ", ")
}

// worksAgain appends to each stream through each replica, and reads all of it.
func (s *simulation) worksAgain() {
	for _, c := range s.clients {
		if c.following != nil {
			c.leave()
		}
	}
	c := s.clients[0]
	for _, key := range s.config.keys {
		for _, r := range s.replicas {
			c.do(r, key, "final append", func(ctx context.Context) string { return c.finalAppend(ctx, r, key) })
			s.settle()
			s.drainUntil("final append", c.idle)
			c.do(r, key, "final read", func(ctx context.Context) string { return c.finalRead(ctx, r, key) })
			s.settle()
			s.drainUntil("final read", c.idle)
			if s.failed() != nil {
				return
			}
		}
	}
}

// finalAppend appends an event to a stream, which it creates if necessary.
func (c *client) finalAppend(ctx context.Context, r *replica, key reprise.StreamKey) string {
	events := c.compose(nil)[:1]
	opts := reprise.AppendOptions{}
	if owned(key) {
		opts.Owner = reprise.Owner{Name: "last", Fence: uint64(1000 + c.events)}
		events[0].fence = opts.Owner.Fence
	}
	var err error
	for range 3 { // the name may stand for another stream, unknown to the Log
		var stream *reprise.Stream
		stream, _, err = r.log.CreateWith(ctx, reprise.CreateOptions{Owner: opts.Owner}, key, reprise.StreamConfig{})
		if err != nil {
			continue
		}
		var done reprise.Appended
		done, err = stream.AppendWith(ctx, opts, reprise.Event{Data: []byte(events[0].text())})
		n := c.sim.cluster.truth.name(key)
		switch {
		case err == nil:
			c.acknowledged(key, done, events, []string{events[0].text()})
			return fmt.Sprint("event ", done.First)
		case errors.Is(err, reprise.ErrEnded) && n.current != nil && n.current.ended:
			return "ended"
		}
	}
	c.sim.fail("r%d: no append to %s when all faults have ceased: %w", r.number, key, err)
	return ""
}

// finalRead reads a whole stream and compares it with the truth.
func (c *client) finalRead(ctx context.Context, r *replica, key reprise.StreamKey) string {
	n := c.sim.cluster.truth.name(key)
	e, changes := n.current, n.changes
	if e == nil {
		return "swept"
	}
	stream, err := r.log.Stream(ctx, key)
	var reader *reprise.Reader
	if err == nil {
		reader, err = stream.Reader(ctx, reprise.Earliest())
	}
	if err != nil && n.changes != changes {
		return "swept"
	}
	if err != nil {
		c.sim.fail("r%d: no reader of %s when all faults have ceased: %w", r.number, key, err)
		return ""
	}
	defer reader.Close()
	at := reader.Cursor()
	f := &following{Reader: reader, key: key, epoch: e, next: at.Seq + 1}
	if c.sim.cluster.truth.epochs[at.Epoch] != e || f.next != e.earliest {
		c.sim.fail("r%d: a reader of %s begins with %d, the window of epoch %d with %d",
			r.number, key, f.next, e.number, e.earliest)
	}
	for {
		run, err := reader.Poll(ctx)
		for event := range run.All() {
			c.tookEvent(f, event)
		}
		if run.Len() > 0 {
			continue
		}
		if n.changes != changes {
			return "swept"
		}
		if f.next != e.tail+1 || errors.Is(err, reprise.ErrEnded) != e.ended {
			c.sim.fail("r%d: a reader of %s comes to event %d of %d: %v", r.number, key, f.next-1, e.tail, err)
		}
		return fmt.Sprintf("%d to %d", at.Seq+1, f.next-1)
	}
}

// report prints the shortest prefix of a failing seed.
func report(t *testing.T, failing *simulation) {
	t.Helper()
	shortest, low := failing, 0
	high := *maxSteps
	for low < high { // faults end after so many steps
		middle := (low + high) / 2
		if s := run(t, failing.seed, middle); s.failure != nil {
			shortest, high = s, middle
		} else {
			low = middle + 1
		}
	}
	t.Logf("seed %d needs %d steps: %v\n%s", failing.seed, high, shortest.failure, strings.Join(shortest.trace, "\n"))
	t.Logf("again: go test ./internal/sim -run 'TestSim$' -v -seed %d -steps %d", failing.seed, high)
}
