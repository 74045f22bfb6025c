package reprise

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// committer implements group commit: one goroutine at a time decides calls. A call that arrives while the committer is
// idle is decided at once, in the goroutine of its caller. Calls that arrive meanwhile form a group. The first caller
// of the group decides all of them when its turn comes.
type committer struct {
	// lane decides the calls of a group, in order, with run. Its abort decides those that remain when run has panicked.
	lane *lane

	// state is idle, working or wanted. The goroutine that moves it from idle has the turn. It changes to wanted, and
	// from there back to idle, only under mu, so a lone caller takes no lock.
	state atomic.Int32

	// together is the number of calls that the last commit decided, and took its duration if there were several. Both
	// belong to the goroutine that has the turn.
	together int
	took     time.Duration

	// events is the memory for the events of a lone append. It belongs to the goroutine that has the turn.
	events []Event

	// timed is set if the wait of groups is measured; waited is the wait of the group that has the turn.
	timed  bool
	waited time.Duration

	// waiting is the next group, nil without one. It is set under mu. calls is the memory for the calls of a group.
	// overdue are the calls that found no room in the waiting group, the oldest first. They are the first of the group
	// after it: otherwise a large call would always come too late for a group with room.
	mu      sync.Mutex
	waiting atomic.Pointer[group]
	calls   []*call
	overdue []*overdue
}

// overdue is a call that found no room in the waiting group.
type overdue struct {
	call  *call
	group chan *group // of size 1; receives the group that has the call
}

// The states of a committer.
const (
	idle    int32 = iota
	working       // a goroutine has the turn
	wanted        // a goroutine has the turn and passes it on at the end
)

// call is one item of a commit: an append, or fn. The call of a lone append is on the stack of its caller, which spares
// the collector most of the pointers that an append writes. One that waits in a group is a copy on the heap.
type call struct {
	fn func() error

	live   *live
	opts   AppendOptions
	events []Event
	end    *End // set for an append of the end event
	size   int  // upper bound of their encoded size

	left bool // the caller has left; guarded by committer.mu until the group is taken

	// before is the call that arrived in the group before this one; nil for the first. upTo counts the calls up to this
	// one, and their size in the lower half. It is atomic because a late caller may read the field of a call that is
	// used again, before it sees that the group is taken.
	before *call
	upTo   atomic.Uint64

	// The result of staging. It becomes the verdict: at once or, if the call has joined the batch of its stream, when
	// the store has kept that batch.
	joined  bool
	found   Appended
	refusal error
	skip    int // number of the first events that are already stored

	// unmoved, if not nil, makes the end of an idle stream conditional on the epoch and tail that were seen.
	unmoved *idleStream

	asked bool  // the store was asked about a refusal that rests on the known producer or tail
	need  int64 // with errUnmeasured: the bytes of the oldest events to measure

	verdict verdict
}

// begin resets the verdict of c before a lane has it: each try of an append is decided once.
func (c *call) begin() { c.verdict = verdict{} }

// verdict is the result of a call. It is decided once: by a refusal that no commit can change, or by the commit of the
// append's batch. Nothing later can change it. Only decide and call.begin set one.
type verdict struct {
	decided  bool
	appended Appended
	err      error
}

// decide sets the verdict, unless there is one.
func (v *verdict) decide(appended Appended, err error) {
	if !v.decided {
		*v = verdict{decided: true, appended: appended, err: err}
	}
}

// maxGroupBytes bounds the size of one commit.
const maxGroupBytes = 8 << 20

// group is the calls that share the next commit. They form a list, to which calls are added without a lock: waking
// several hundred callers, which all append again, would otherwise make most of them wait for the lock.
type group struct {
	last  atomic.Pointer[call] // of the calls; taken once the group has the turn
	since time.Time            // arrival of the first caller, if waits are measured
	turn  chan struct{}        // receives when the first caller has the turn
	done  chan struct{}        // closed when all calls are decided
}

// taken ends the list of a group that accepts no more calls.
var taken = new(call)

// add adds c to the group. It returns false if the group is taken, or full.
func (g *group) add(c *call) (added, full bool) {
	for {
		last := g.last.Load()
		upTo := uint64(1)<<32 + uint64(c.size)
		switch {
		case last == taken:
			return false, false
		case last != nil:
			upTo += last.upTo.Load()
			if uint32(upTo) > maxGroupBytes {
				return false, true
			}
		}
		c.before = last
		c.upTo.Store(upTo)
		if g.last.CompareAndSwap(last, c) {
			return true, false
		}
	}
}

// place returns the number of calls of the group up to c.
func (c *call) place() int { return int(c.upTo.Load() >> 32) }

// take ends the group and appends its calls to list, in the order of their arrival.
func (g *group) take(list []*call) []*call {
	last := g.last.Swap(taken)
	n := len(list)
	list = slices.Grow(list, last.place())[:n+last.place()]
	for c := last; c != nil; c = c.before {
		list[n+c.place()-1] = c
	}
	return list
}

// do decides c together with the other waiting calls. If ctx is cancelled before the work on c has begun, it returns
// early with the cause; after that, the work cannot be taken back.
func (m *committer) do(ctx context.Context, c *call) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !m.state.CompareAndSwap(idle, working) {
		return m.join(ctx, c)
	}
	if m.together > 1 {
		return m.lead(ctx, c)
	}
	m.waited = 0
	m.decide([]*call{c}, nil)
	return c.verdict.err
}

// append is do for an append of events. Neither c nor events are kept after the return, so both can be on the stack of
// the caller; what a commit needs of them is copied.
func (m *committer) append(ctx context.Context, c *call, events []Event) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	turn := m.state.CompareAndSwap(idle, working)
	if turn && m.together <= 1 {
		m.waited = 0
		c.events = m.copyOf(events, c.size)
		m.decide([]*call{c}, nil)
		return c.verdict.err
	}
	w := c.waiter(events)
	var err error
	if turn {
		err = m.lead(ctx, w)
	} else {
		err = m.join(ctx, w)
	}
	c.asked, c.need = w.asked, w.need
	if w.verdict.decided { // otherwise w has left, and its group may still hold it
		c.verdict.decide(w.verdict.appended, w.verdict.err)
		w.release()
	}
	return err
}

// copyOf copies the events of a lone append. The caller has the turn. The memory of the committer keeps the data of the
// last events alive, so it is for few and small ones alone.
func (m *committer) copyOf(events []Event, size int) []Event {
	if len(events) > maxIdleEvents || size > maxIdleBytes {
		return slices.Clone(events)
	}
	m.events = append(m.events[:0], events...)
	return m.events
}

var calls = sync.Pool{New: func() any { return new(call) }}

// waiter returns a copy of c for a group, with a copy of events.
func (c *call) waiter(events []Event) *call {
	w := calls.Get().(*call)
	w.begin()
	w.live, w.opts, w.end, w.size, w.unmoved, w.asked = c.live, c.opts, c.end, c.size, c.unmoved, c.asked
	w.events = append(w.events, events...)
	return w
}

const (
	// maxIdleEvents bounds the capacity for events that an unused call keeps.
	maxIdleEvents = 256
	// maxIdleBytes bounds the size of the events that are kept alive after a lone append.
	maxIdleBytes = 64 << 10
)

// release returns a waiter to the pool. A small slice of events is kept for reuse, and the next user sets the other
// fields.
func (c *call) release() {
	if cap(c.events) > maxIdleEvents {
		c.events = nil
	}
	c.events = c.events[:0]
	c.before = nil
	calls.Put(c)
}

// lead decides c, whose caller has the turn, together with the calls of goroutines that return from the previous
// commit, if that decided several calls. If one of them has begun a group meanwhile, that group gets the turn.
func (m *committer) lead(ctx context.Context, c *call) error {
	m.mu.Lock()
	m.state.Store(wanted)
	if g := m.waiting.Load(); g != nil {
		g.turn <- struct{}{}
		m.mu.Unlock()
		return m.join(ctx, c)
	}
	g := m.newGroup(c)
	m.waiting.Store(g)
	m.mu.Unlock()
	m.work(g)
	return c.verdict.err
}

// newGroup returns a group that c begins.
func (m *committer) newGroup(c *call) *group {
	g := &group{turn: make(chan struct{}, 1), done: make(chan struct{})}
	if m.timed {
		g.since = time.Now()
	}
	g.add(c)
	return g
}

// decide decides the calls of a group, wakes its callers and passes the turn on. If run panics, in a hook or in the
// store, the panic reaches the caller after that, and the committer keeps working.
func (m *committer) decide(calls []*call, done chan struct{}) {
	finished := false
	var began time.Time
	if m.together = len(calls); m.together > 1 {
		began = time.Now()
	}
	defer func() {
		if !finished {
			m.lane.abort(calls)
		}
		if m.together > 1 {
			m.took = time.Since(began)
		}
		if done != nil {
			clear(calls)
			close(done)
		}
		m.next()
	}()
	m.lane.run(calls)
	finished = true
}

// want asks the goroutine that has the turn to pass it on. It returns false if the committer is idle. The caller
// holds mu.
func (m *committer) want() bool {
	return m.state.CompareAndSwap(working, wanted) || m.state.Load() == wanted
}

// join waits with others for the next commit.
func (m *committer) join(ctx context.Context, c *call) error {
	for {
		g := m.waiting.Load()
		if g == nil {
			return m.begin(ctx, c)
		}
		added, full := g.add(c)
		switch {
		case added:
			return m.stay(ctx, g, c)
		case full:
			if o := m.queue(g, c); o != nil {
				return m.outwait(ctx, o)
			}
		}
		// g is not waiting any more
	}
}

// queue makes c one of the calls of the group after g. It returns nil if g is not waiting any more.
func (m *committer) queue(g *group, c *call) *overdue {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting.Load() != g {
		return nil
	}
	o := &overdue{call: c, group: make(chan *group, 1)}
	m.overdue = append(m.overdue, o)
	return o
}

// outwait waits for the group of o, and then with it.
func (m *committer) outwait(ctx context.Context, o *overdue) error {
	select {
	case g := <-o.group:
		return m.stay(ctx, g, o.call)
	case <-ctx.Done():
	}
	m.mu.Lock()
	at := slices.Index(m.overdue, o)
	if at >= 0 {
		m.overdue = slices.Delete(m.overdue, at, at+1)
	}
	m.mu.Unlock()
	if at < 0 {
		return m.stay(ctx, <-o.group, o.call)
	}
	return context.Cause(ctx)
}

// seat makes the next group of the overdue calls, as far as there is room. The caller holds mu.
func (m *committer) seat() {
	if len(m.overdue) == 0 {
		return
	}
	g := m.newGroup(m.overdue[0].call)
	n := 1
	for n < len(m.overdue) {
		if added, _ := g.add(m.overdue[n].call); !added {
			break
		}
		n++
	}
	for _, o := range m.overdue[:n] {
		o.group <- g
	}
	m.overdue = slices.Delete(m.overdue, 0, n)
	m.waiting.Store(g)
}

// stay waits for the verdict of c, which is in g.
func (m *committer) stay(ctx context.Context, g *group, c *call) error {
	if c.before == nil {
		return m.await(ctx, g, c)
	}
	select {
	case <-g.done:
		return c.verdict.err
	case <-ctx.Done():
		return m.leave(ctx, g, c)
	}
}

// begin begins a group with c, unless there is one or the committer is idle.
func (m *committer) begin(ctx context.Context, c *call) error {
	m.mu.Lock()
	switch {
	case !m.want():
		m.mu.Unlock()
		return m.do(ctx, c)
	case m.waiting.Load() != nil:
		m.mu.Unlock()
		return m.join(ctx, c)
	}
	g := m.newGroup(c)
	m.waiting.Store(g)
	m.mu.Unlock()
	return m.await(ctx, g, c)
}

// await waits for the turn of g, which c has begun, and decides it.
func (m *committer) await(ctx context.Context, g *group, c *call) error {
	select {
	case <-g.turn:
		m.work(g)
		return c.verdict.err
	case <-ctx.Done():
		go func() {
			defer m.lane.log.recovered()
			<-g.turn
			m.work(g)
		}()
		return m.leave(ctx, g, c)
	}
}

// leave takes c out of g if its turn has not come, and otherwise waits for the verdict.
func (m *committer) leave(ctx context.Context, g *group, c *call) error {
	m.mu.Lock()
	left := m.waiting.Load() == g
	if left { // otherwise c.left may be read concurrently
		c.left = true
	}
	m.mu.Unlock()
	if left {
		return context.Cause(ctx)
	}
	<-g.done
	return c.verdict.err
}

// work decides the calls of g, whose turn has come.
func (m *committer) work(g *group) {
	m.gather(g)
	m.mu.Lock()
	m.waiting.Store(nil)
	m.calls = g.take(m.calls[:0])
	m.seat()
	m.mu.Unlock()
	if m.timed {
		m.waited = time.Since(g.since)
	}
	m.decide(m.calls, g.done)
}

// gather waits for the callers that the last commit has just woken, since they may append again. Without it, the first
// of 100 callers that append one event after another got a commit of its own, for which the other 99 waited: twice as
// many commits as necessary. It ends when as many calls have arrived as the last commit had, and otherwise after an
// eighth of the duration of that commit. A lone caller never gets here.
//
// The caller has the turn, so no other commit is under way, and the calls of g are decided in the order of their
// arrival. gather therefore changes the number of calls in a commit, and nothing on which G3, G6 and G9 rest.
func (m *committer) gather(g *group) {
	var began time.Time
	for range maxYields {
		runtime.Gosched()
		if g.last.Load().place() >= m.together {
			return
		}
		if began.IsZero() {
			began = time.Now()
		} else if time.Since(began) > m.took/8 {
			return
		}
	}
}

// maxYields bounds the work of gather while other goroutines run all the time.
const maxYields = 64

// next passes the turn to the waiting group, if there is one.
func (m *committer) next() {
	if m.state.CompareAndSwap(working, idle) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.waiting.Load()
	if g == nil {
		m.state.Store(idle)
		return
	}
	g.turn <- struct{}{}
}
