package reprise

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// committer implements group commit: one goroutine at a time decides calls. A call that arrives while the committer is
// idle is decided at once, in the goroutine of its caller. Calls that arrive meanwhile form a group. The first caller
// of the group decides all of them when its turn comes.
type committer struct {
	// run decides the calls of a group, in order. abort decides those that remain when run has panicked.
	run, abort func([]*call)
	// recovered is deferred where a panic has no caller to reach.
	recovered func()

	// state is idle, working or wanted. The goroutine that moves it from idle has the turn. It changes to wanted, and
	// from there back to idle, only under mu, so a lone caller takes no lock.
	state atomic.Int32

	// together is the number of calls that the last commit decided, and took its duration if there were several. Both
	// belong to the goroutine that has the turn.
	together int
	took     time.Duration

	// timed is set if the wait of groups is measured; waited is the wait of the group that has the turn.
	timed  bool
	waited time.Duration

	mu      sync.Mutex
	waiting *group
	alone   [1]*call // the group of a lone call
}

// The states of a committer.
const (
	idle    int32 = iota
	working       // a goroutine has the turn
	wanted        // a goroutine has the turn and passes it on at the end
)

// call is one item of a commit: an append, or fn.
type call struct {
	fn func() error

	live   *live
	opts   AppendOptions
	events []Event
	end    *End // set for an append of the end event
	size   int  // upper bound of their encoded size

	left bool // the caller has left; guarded by committer.mu until the group is taken

	// The result of staging. It becomes the verdict: at once or, if the call has joined the batch of its stream, when
	// the store has kept that batch.
	joined  bool
	found   Appended
	refusal error
	skip    int // number of the first events that are already stored

	// unmoved, if not nil, makes the end of an idle stream conditional on the epoch and tail that were seen.
	unmoved *idleStream

	asked bool  // the store was asked about a refusal that rests on the known producer
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

type group struct {
	calls []*call
	bytes int
	since time.Time     // arrival of the first caller, if waits are measured
	turn  chan struct{} // receives when the first caller has the turn
	done  chan struct{} // closed when all calls are decided
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
	m.alone[0], m.waited = c, 0
	m.decide(m.alone[:], nil)
	return c.verdict.err
}

// lead decides c, whose caller has the turn, together with the calls of those who return from the previous commit, if
// that decided several calls. If one of them has begun a group meanwhile, that group gets the turn.
func (m *committer) lead(ctx context.Context, c *call) error {
	m.mu.Lock()
	m.state.Store(wanted)
	if m.waiting != nil {
		m.waiting.turn <- struct{}{}
		m.mu.Unlock()
		return m.join(ctx, c)
	}
	g := m.newGroup()
	g.calls, g.bytes = append(g.calls, c), c.size
	m.waiting = g
	m.mu.Unlock()
	m.work(g)
	return c.verdict.err
}

func (m *committer) newGroup() *group {
	g := &group{turn: make(chan struct{}, 1), done: make(chan struct{})}
	if m.timed {
		g.since = time.Now()
	}
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
			m.abort(calls)
		}
		if m.together > 1 {
			m.took = time.Since(began)
		}
		if done != nil {
			close(done)
		}
		m.alone[0] = nil
		m.next()
	}()
	m.run(calls)
	finished = true
}

// want asks the goroutine that has the turn to pass it on. It returns false if the committer is idle. The caller
// holds mu.
func (m *committer) want() bool {
	return m.state.CompareAndSwap(working, wanted) || m.state.Load() == wanted
}

// join waits with others for the next commit.
func (m *committer) join(ctx context.Context, c *call) error {
	m.mu.Lock()
	for {
		if !m.want() {
			m.mu.Unlock()
			return m.do(ctx, c)
		}
		full := m.waiting
		if full == nil || full.bytes+c.size <= maxGroupBytes {
			break
		}
		m.mu.Unlock()
		select {
		case <-full.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		m.mu.Lock()
	}
	g := m.waiting
	first := g == nil
	if first {
		g = m.newGroup()
		m.waiting = g
	}
	g.calls = append(g.calls, c)
	g.bytes += c.size
	m.mu.Unlock()

	if !first {
		select {
		case <-g.done:
			return c.verdict.err
		case <-ctx.Done():
			return m.leave(ctx, g, c)
		}
	}
	select {
	case <-g.turn:
		m.work(g)
		return c.verdict.err
	case <-ctx.Done():
		go func() {
			defer m.recovered()
			<-g.turn
			m.work(g)
		}()
		return m.leave(ctx, g, c)
	}
}

// leave takes c out of g if its turn has not come, and otherwise waits for the verdict.
func (m *committer) leave(ctx context.Context, g *group, c *call) error {
	m.mu.Lock()
	left := m.waiting == g
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
	m.waiting = nil
	m.mu.Unlock()
	if m.timed {
		m.waited = time.Since(g.since)
	}
	m.decide(g.calls, g.done)
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
		m.mu.Lock()
		n := len(g.calls)
		m.mu.Unlock()
		if n >= m.together {
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
	if m.waiting == nil {
		m.state.Store(idle)
		return
	}
	m.waiting.turn <- struct{}{}
}
