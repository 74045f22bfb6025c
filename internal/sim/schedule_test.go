package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"reprise"
)

// config holds the choices of a seed before the first step.
type config struct {
	replicas  int
	shared    bool
	parallel  bool
	retention reprise.Retention
	tailBytes int
	streams   int // unused streams in memory; with -1 none, with 3 the order of a map decides, not the seed
	pageBytes int
	wide      int // factor of the size of events
	keys      []reprise.StreamKey
	writers   int
	readers   int
	faults    int // of 100 calls
	kinds     []fate
	promotes  int // of 1000 steps; so are the others
	crashes   int
	freezes   int
	cuts      int
	trims     bool // many trims, and many checks of their results
	idle      bool // streams that are idle for idleBound are ended
}

// idleBound is how long a stream may be idle in some seeds. It is below the time that a Log must have seen a stream
// unchanged, so no stream is ended sooner after its last append.
const idleBound = 25 * time.Second

func chooseConfig(rng *rand.Rand) config {
	c := config{
		replicas: 1 + rng.IntN(5), shared: true, parallel: rng.IntN(2) == 0,
		retention: reprise.Retention{MaxAge: time.Minute},
		tailBytes: pick(
			rng,
			1,
			600,
			1<<20,
		), streams: pick(rng, -1, -1, -1, 3, 100, 100, 100, 100), pageBytes: pick(rng, 1, 300, 1<<20),
		writers: 2 + rng.IntN(4), readers: 1 + rng.IntN(4),
		faults: pick(rng, 0, 3, 10, 30), promotes: pick(rng, 0, 3, 12), crashes: pick(rng, 0, 3, 8),
		freezes: pick(rng, 0, 5), cuts: pick(rng, 0, 10, 30),
	}
	if c.replicas == 1 {
		c.shared = rng.IntN(2) == 0
	}
	if rng.IntN(2) == 0 {
		c.retention.MaxEvents = int64(3 + rng.IntN(30))
	}
	if rng.IntN(2) == 0 {
		c.retention.MaxBytes = int64(500 + rng.IntN(3000))
	}
	names := []string{"a/s", "b/s", "a/owned", "b/owned"}
	for _, i := range rng.Perm(len(names))[:1+rng.IntN(4)] {
		tenant, name, _ := strings.Cut(names[i], "/")
		c.keys = append(c.keys, reprise.StreamKey{Tenant: reprise.Tenant(tenant), Name: name})
	}
	for f := failsBefore; f < fates; f++ {
		if rng.IntN(3) > 0 {
			c.kinds = append(c.kinds, f)
		}
	}
	return c
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// maxPromotions is less than the number of ancestors that a stream keeps.
const maxPromotions = reprise.MaxLineage / 2

// simulation is one run.
type simulation struct {
	seed     uint64
	rng      *rand.Rand
	config   config
	cluster  *cluster
	keys     *reprise.Keyset
	replicas []*replica
	clients  []*client
	late     []func()
	promoted int
	calm     bool // no more faults and new operations
	over     bool // no more Logs are opened

	mu      sync.Mutex // never held at a gate
	pending []*gate
	// withdrawn holds the events of appends that were cancelled in time.
	withdrawn map[string]bool
	results   []string // of operations since the last step
	trace     []string
	hash      uint64

	failing sync.Mutex // guards the fields below
	failure error
	told    map[logLife]windows
	largest int // the largest size of a stored batch, or of the batches of a page
}

func newSimulation(seed uint64) *simulation {
	s := &simulation{seed: seed, withdrawn: map[string]bool{}, rng: rand.New(rand.NewPCG(seed, 1))}
	s.config = chooseConfig(s.rng)
	if s.config.wide = 1; seed%3 == 0 && s.config.retention.MaxBytes == 0 {
		s.config.wide = 100
	}
	s.config.trims = seed%5 == 2
	s.config.idle = seed%4 == 3
	s.cluster, s.keys = newCluster(s), reprise.NewKeyset()
	for i := range s.config.replicas {
		skew := time.Duration(s.rng.IntN(3)-1) * 20 * time.Second
		s.replicas = append(s.replicas, &replica{sim: s, number: i, skew: skew, moved: map[reprise.StreamKey]bool{}})
	}
	for i := range s.config.writers + s.config.readers + 1 {
		c := &client{
			sim:     s,
			number:  i,
			rng:     rand.New(rand.NewPCG(seed, uint64(100+i))),
			handles: map[handleKey]*handle{},
		}
		switch {
		case i < s.config.writers:
			c.next = c.write
			c.producers = map[reprise.StreamKey]*producer{}
		case i < s.config.writers+s.config.readers:
			c.next = c.read
		default:
			c.next = c.administer
		}
		s.clients = append(s.clients, c)
	}
	return s
}

// checkWithdrawn fails if a stored batch contains an append that was cancelled in time.
func (s *simulation) checkWithdrawn(req *reprise.AppendRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for event := range reprise.Records(reprise.Batch{First: req.First, Count: req.Count, Bytes: req.Bytes}) {
		if id := eventOf(string(event.Data)).id; s.withdrawn[id] {
			s.fail("G9: append %s was cancelled before its commit began, and is stored", id)
		}
	}
}

// fail records the first violation.
func (s *simulation) fail(format string, args ...any) {
	s.failing.Lock()
	defer s.failing.Unlock()
	if s.failure == nil {
		s.failure = fmt.Errorf(format, args...)
	}
}

func (s *simulation) failed() error {
	s.failing.Lock()
	defer s.failing.Unlock()
	return s.failure
}

// note adds a line to the trace.
func (s *simulation) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	h := fnv.New64a()
	fmt.Fprint(h, s.hash, line)
	s.hash = h.Sum64()
	s.trace = append(s.trace, line)
}

// sleep advances the clock. The scheduler's observations are released to goroutines that a timer wakes.
func (s *simulation) sleep(d time.Duration) {
	s.mu.Lock()
	s.results = slices.Clip(s.results)
	s.mu.Unlock()
	time.Sleep(d)
}

// settle waits until all goroutines are blocked.
func (s *simulation) settle() {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.results) // goroutines woken by one step end in any order
	for _, line := range s.results {
		s.note("       %s", line)
	}
	s.results = nil
	slices.SortStableFunc(s.pending, func(a, b *gate) int { return strings.Compare(a.String(), b.String()) })
}

// item is a possible next event.
type item struct {
	weight int
	what   string
	do     func()
}

// step executes one event. It returns false if there is none.
func (s *simulation) step(number int) bool {
	items := s.choices()
	total := 0
	for _, it := range items {
		total += it.weight
	}
	if total == 0 {
		return false
	}
	at := s.rng.IntN(total)
	for _, it := range items {
		if at -= it.weight; at < 0 {
			if it.what != "" {
				s.note("%5d  %s", number, it.what)
			}
			it.do()
			break
		}
	}
	s.settle()
	s.checkNobodyWaitsForOthers()
	s.checkMemory()
	return true
}

// choices returns the possible next events.
func (s *simulation) choices() []item {
	var items []item
	add := func(weight int, what string, do func()) { items = append(items, item{weight, what, do}) }
	for _, g := range s.pending {
		if !g.replica.frozen || s.calm {
			f := s.fate(g)
			add(60, fmt.Sprintf("%s: %s", g, f), func() { s.release(g, f) })
		}
	}
	for i := range s.late {
		add(10, fmt.Sprintf("late effect %d", i), func() {
			effect := s.late[i]
			s.late = slices.Delete(s.late, i, i+1)
			effect()
		})
	}
	for _, r := range s.replicas {
		items = append(items, r.choices()...)
	}
	if s.calm {
		return items
	}
	for _, c := range s.clients {
		if c.idle() {
			add(30, "", c.start)
		} else {
			add(1, fmt.Sprintf("c%d is cut", c.number), c.cancel)
		}
	}
	if len(s.cluster.behind) > 0 {
		add(s.cluster.eager(), "the follower applies a change", s.cluster.follow)
	}
	if s.promoted < maxPromotions {
		add(s.config.promotes, "the follower is promoted", func() {
			s.promoted++
			s.cluster.promote()
		})
	}
	for _, d := range []time.Duration{time.Millisecond, 70 * time.Millisecond, 3 * time.Second, 40 * time.Second} {
		add(2, fmt.Sprintf("%v pass", d), func() { s.sleep(d) })
	}
	return items
}

// fate chooses the outcome of a call. It is drawn for each call at each step, so the choice of the call does not depend
// on it.
func (s *simulation) fate(g *gate) fate {
	if s.calm || len(s.config.kinds) == 0 || s.rng.IntN(100) >= s.config.faults {
		return succeeds
	}
	f := pick(s.rng, s.config.kinds...)
	switch {
	case f == hookPanics && g.kind != "append":
		return failsBefore
	case g.kind == "read" && (f == failsAfter || f == lateEffect), f == lateEffect && g.kind == "sweep":
		return failsBefore
	}
	return f
}

// changed queues notifications about a stream for the other replicas.
func (s *simulation) changed(key reprise.StreamKey) {
	for _, r := range s.replicas {
		if !r.cut {
			r.moved[key] = true
		}
	}
}

// checkNobodyWaitsForOthers (G7): a pending operation on a stream waits only for a call of its own stream or for a
// commit.
func (s *simulation) checkNobodyWaitsForOthers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		if !c.busy || c.follows || c.op.key.Name == "" || c.op.life != c.op.replica.life {
			continue
		}
		waits, others := false, false
		for _, g := range s.pending {
			if g.replica == c.op.replica {
				waits = waits || g.key == c.op.key || g.kind == "append"
				others = true
			}
		}
		if others && !waits {
			s.fail("G7: %s waits for calls that are not about its stream", c.op.what)
		}
	}
}
