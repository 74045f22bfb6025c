package reprise

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// committer lets one goroutine at a time work on the store, and hands it all
// that has come in since the last one began: group commit. Whoever comes when nobody is at
// work goes ahead at once in its own goroutine; those who come meanwhile form a
// group whose first member does the work for all of them when its turn comes.
type committer struct {
	// run carries out the calls of a group, in order, and sets their errors.
	run func([]*call)

	// state is idle, working or wanted. Whoever moves it from idle has the turn. It
	// goes to wanted, and from there back to idle, under mu alone; so a caller that
	// nobody joins takes no lock.
	state atomic.Int32

	mu      sync.Mutex
	waiting *group
	alone   [1]*call // the group of a call that waits for nobody
}

// The states of a committer.
const (
	idle    int32 = iota
	working       // somebody has the turn
	wanted        // somebody has the turn and is to give it on
)

// call is one thing to do in a commit: an append, or fn.
type call struct {
	fn func() error

	live   *live
	opts   AppendOptions
	events []Event
	end    *End // set for an append of the end event
	size   int  // most bytes that the events take

	again    bool  // to be staged once more
	doubt    doubt // about a refusal
	joined   bool  // the result depends on the commit of the stream's batch
	left     bool  // the caller has gone; guarded by committer.mu until the group is taken
	appended Appended
	err      error
}

// doubt is about an append that is refused for what we know of its producer, on a store where another replica
// may know more: the store is asked before the refusal counts.
type doubt uint8

const (
	toBeAsked doubt = iota + 1
	asked
)

// maxGroupBytes bounds what goes into one commit.
const maxGroupBytes = 8 << 20

type group struct {
	calls []*call
	bytes int
	turn  chan struct{} // receives when the first member is to do the work
	done  chan struct{} // closed when the work is done
}

// do carries out c together with whatever else waits. It returns early with the
// cause if ctx is cancelled before the work on c has begun; once that has begun,
// it cannot be taken back.
func (m *committer) do(ctx context.Context, c *call) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !m.state.CompareAndSwap(idle, working) {
		return m.join(ctx, c)
	}
	m.alone[0] = c
	m.run(m.alone[:])
	m.alone[0] = nil
	m.next()
	return c.err
}

// want asks whoever has the turn to give it on. It returns false if nobody has it. The caller holds mu.
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
		g = &group{turn: make(chan struct{}, 1), done: make(chan struct{})}
		m.waiting = g
	}
	g.calls = append(g.calls, c)
	g.bytes += c.size
	m.mu.Unlock()

	if !first {
		select {
		case <-g.done:
			return c.err
		case <-ctx.Done():
			return m.leave(ctx, g, c)
		}
	}
	select {
	case <-g.turn:
		m.work(g)
		return c.err
	case <-ctx.Done():
		go func() {
			<-g.turn
			m.work(g)
		}()
		return m.leave(ctx, g, c)
	}
}

// leave takes c out of g if the work has not begun, and waits for it otherwise.
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
	return c.err
}

// work does the work of g, whose turn has come.
func (m *committer) work(g *group) {
	// Those whom the last commit has just woken may have more to append. Letting
	// them run first keeps groups large; it costs a lone caller nothing, who is never here.
	runtime.Gosched()
	m.mu.Lock()
	m.waiting = nil
	m.mu.Unlock()
	m.run(g.calls)
	close(g.done)
	m.next()
}

// next gives the turn to the group that waits, if there is one.
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
