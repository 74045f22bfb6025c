package reprise

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// committer is group commit: one goroutine at a time decides calls. A call that comes
// while the committer is idle is decided at once, in the goroutine of its caller. Calls that come meanwhile form a
// group, and the first caller of the group decides all of them when its turn comes.
type committer struct {
	// run decides the calls of a group, in order. abort decides those that run has left when it panicked.
	run, abort func([]*call)
	// recovered is deferred where no caller is left that a panic could reach.
	recovered func()

	// state is idle, working or wanted. The goroutine that moves it from idle has the turn. It
	// goes to wanted, and from there back to idle, under mu alone; so a lone caller takes no lock.
	state atomic.Int32

	// together is how many calls the last commit decided, and took how long that was if they were several. Both are
	// those of the goroutine that has the turn.
	together int
	took     time.Duration

	// timed is set if the wait of groups is measured; waited is that of the group which has the turn.
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

// call is one thing to do in a commit: an append, or fn.
type call struct {
	fn func() error

	live   *live
	opts   AppendOptions
	events []Event
	end    *End // set for an append of the end event
	size   int  // most bytes that the events take

	left bool // the caller has gone; guarded by committer.mu until the group is taken

	// What staging found. It becomes the verdict, at once or, if the call has joined the
	// batch of its stream, when the store has kept that batch.
	joined  bool
	found   Appended
	refusal error
	skip    int // how many of the first events the stream has already

	asked bool  // the store was asked about a refusal for what is known of the producer
	need  int64 // with errUnmeasured: how many bytes of the oldest events are to be measured

	verdict verdict
}

// begin makes c a call of which nothing is decided, before a lane has it: each try of an append is decided once.
func (c *call) begin() { c.verdict = verdict{} }

// verdict is the result of a call. It is decided once: an append by the refusal that no commit can change, or by
// the commit that answers for its batch. Nothing that comes later can change it. Only decide and call.begin set one.
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

// maxGroupBytes bounds what goes into one commit.
const maxGroupBytes = 8 << 20

type group struct {
	calls []*call
	bytes int
	since time.Time     // when the first caller came, if that is to be told
	turn  chan struct{} // receives when the first caller has the turn
	done  chan struct{} // closed when all calls are decided
}

// do decides c together with whatever else waits. It returns early with the
// cause if ctx is cancelled before the work on c has begun; once that has begun,
// it cannot be taken back.
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

// lead decides c, for which its caller has the turn, with the calls of those who come back from the commit before,
// which was one of several calls. If one of them has begun a group meanwhile, that group gets the turn.
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

// decide decides the calls of a group, wakes its callers and passes the turn on. If run panics, in a hook
// or in the store, the panic reaches the caller after that, and the committer keeps working.
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
	if left { // otherwise c.left is being read
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

// gather lets those come to g first whom the last commit has just woken, for they may have more to append. Without
// it, the first of 100 who append one event after another had a commit for himself, and the other 99 waited for that
// one: twice as many commits as there need be. It ends when as many have come as the last commit had, and otherwise
// after an eighth of the time that one took. Who appends alone never gets here.
//
// Its caller has the turn, so that no other commit is under way, and what g has is decided in the order in which it
// came. So it changes how many calls a commit has, and nothing of what G3, G6 and G9 rest on.
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

// maxYields bounds the work of gather where others take all the time.
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
