package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"reprise"
)

// client runs one operation at a time. The seed chooses which.
type client struct {
	sim     *simulation
	number  int
	rng     *rand.Rand
	next    func() // chooses an operation and calls do, or does nothing
	handles map[handleKey]*handle
	events  int // number of events it has made

	producers map[reprise.StreamKey]*producer // of a writer
	following *following                      // of a reader
	cursors   []reprise.Cursor                // given to a reader
	of        []reprise.StreamKey             // the streams of cursors

	// Guarded by sim.mu.
	busy    bool
	follows bool // waits for events, which may never arrive
	op      operation
	stop    context.CancelCauseFunc
}

// operation is the current operation of a client.
type operation struct {
	what    string
	replica *replica
	life    int
	key     reprise.StreamKey
}

type handleKey struct {
	replica int
	key     reprise.StreamKey
}

// handle is a Stream of one Log.
type handle struct {
	*reprise.Stream
	replica *replica
	life    int
	changes int  // of the name when the handle was requested
	absent  bool // at that time
	older   bool // it was used for a stream that had the name before
}

var errCut = errors.New("the client was cut off")

func (c *client) idle() bool {
	c.sim.mu.Lock()
	defer c.sim.mu.Unlock()
	return !c.busy
}

func (c *client) start() { c.next() }

func (c *client) cancel() {
	c.sim.mu.Lock()
	stop := c.stop
	c.sim.mu.Unlock()
	stop(errCut)
}

// do runs an operation in a goroutine. f returns a text for the trace.
func (c *client) do(r *replica, key reprise.StreamKey, what string, f func(context.Context) string) {
	ctx, cancel := context.WithCancelCause(background)
	if c.following != nil || c.producers == nil && c.number < len(c.sim.clients)-1 {
		ctx = context.WithValue(ctx, readerMark{}, true)
	}
	s := c.sim
	s.mu.Lock()
	c.busy, c.stop = true, cancel
	c.op = operation{
		what:    fmt.Sprintf("c%d r%d %s %s", c.number, r.number, what, key),
		replica: r,
		life:    r.life,
		key:     key,
	}
	what = c.op.what
	s.note("       %s", what)
	s.mu.Unlock()
	go func() {
		told := "panicked"
		defer func() {
			if p := recover(); p != nil {
				if _, ok := p.(string); !ok { // not a panic of the simulator
					s.fail("%s: panic: %v", what, p)
				}
			}
			cancel(nil)
			s.mu.Lock()
			defer s.mu.Unlock()
			c.busy, c.follows = false, false
			s.results = append(s.results, what+": "+told)
		}()
		told = f(ctx)
	}()
}

// anyReplica chooses an open replica, nil if there is none.
func (c *client) anyReplica() *replica {
	var open []*replica
	for _, r := range c.sim.replicas {
		if r.log != nil {
			open = append(open, r)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return pick(c.rng, open...)
}

// handle returns the client's Stream at a replica. If there is none, it requests one, with create for a stream that may
// not exist yet, and returns nil.
func (c *client) handle(r *replica, key reprise.StreamKey, create bool) *handle {
	at := handleKey{r.number, key}
	if h := c.handles[at]; h != nil && h.life == r.life {
		return h
	}
	delete(c.handles, at)
	n := c.sim.cluster.truth.name(key)
	h := &handle{replica: r, life: r.life, changes: n.changes, absent: n.current == nil}
	log := r.log
	if !create {
		c.do(r, key, "stream", func(ctx context.Context) string {
			s, err := log.Stream(ctx, key)
			h.Stream = s
			return c.looked(at, h, err)
		})
		return nil
	}
	var opts reprise.CreateOptions
	if owned(key) {
		opts.Owner = reprise.Owner{Name: "creator", Fence: 1}
	}
	c.do(r, key, "create", func(ctx context.Context) string {
		s, created, err := log.CreateWith(ctx, opts, key, reprise.StreamConfig{})
		h.Stream = s
		if errors.Is(err, reprise.ErrConflict) || isGone(err) {
			c.sim.fail("create %s: %w", key, err)
		}
		return c.looked(at, h, err) + fmt.Sprintf(", created %t", created)
	})
	return nil
}

func owned(key reprise.StreamKey) bool { return key.Name == "owned" }

// looked stores a handle.
func (c *client) looked(at handleKey, h *handle, err error) string {
	if err != nil {
		c.check(h, at.key, err)
		return fmt.Sprint(err)
	}
	c.handles[at] = h
	return "found"
}

// check verifies an error that any operation may return.
func (c *client) check(h *handle, key reprise.StreamKey, err error) {
	s := c.sim
	n := s.cluster.truth.name(key)
	switch {
	case isGone(err):
		delete(c.handles, handleKey{h.replica.number, key})
		if s.config.shared && !h.absent && !h.older && h.changes == n.changes && n.current != nil &&
			h.life == h.replica.life {
			s.fail("G1: c%d r%d: %s is there, and was all the time: %w", c.number, h.replica.number, key, err)
		}
	case errors.Is(err, reprise.ErrClosed):
		if h.life == h.replica.life {
			s.fail("c%d r%d: %s: the Log is open: %w", c.number, h.replica.number, key, err)
		}
	case errors.Is(err, reprise.ErrQuota),
		errors.Is(err, reprise.ErrInvalid),
		errors.Is(err, reprise.ErrCursorMalformed),
		errors.Is(err, reprise.ErrTooManyReaders):
		s.fail("c%d r%d: %s: %w", c.number, h.replica.number, key, err)
	}
}

// info compares the state of a stream with the events that were acknowledged before the request.
func (c *client) info(h *handle, key reprise.StreamKey) {
	acked, told := c.sim.ackedNow(key), c.sim.toldBy(h)
	c.do(h.replica, key, "info", func(ctx context.Context) string {
		info, err := h.Info(ctx)
		if err != nil {
			c.check(h, key, err)
			return fmt.Sprint(err)
		}
		c.sim.checkWindowStays(h, told, &info)
		c.sim.checkWindowWas(h, &info)
		c.sim.checkTail("info of "+key.String(), info.Epoch, info.Tail, acked)
		return fmt.Sprintf("%d to %d", info.Earliest, info.Tail)
	})
}

// ackedNow returns the newest acknowledged events in the epochs of key.
func (s *simulation) ackedNow(key reprise.StreamKey) map[*epoch]uint64 {
	acked := map[*epoch]uint64{}
	for _, e := range s.cluster.truth.epochs {
		if e.key == key {
			acked[e] = e.acked
		}
	}
	return acked
}

// checkTail (G6): a tail that a client receives covers only stored events and every acknowledged one.
func (s *simulation) checkTail(what string, id reprise.Epoch, tail uint64, acked map[*epoch]uint64) {
	e := s.cluster.truth.epochs[id]
	switch {
	case e == nil:
		s.fail("%s: nobody made epoch %s", what, id)
	case tail > e.tail:
		s.fail("G6: %s: the tail is %d, stored are events up to %d", what, tail, e.tail)
	case tail < acked[e]:
		s.fail("G6: %s: the tail is %d, event %d was acknowledged before", what, tail, acked[e])
	}
}

// administer sweeps and lists.
func (c *client) administer() {
	r := c.anyReplica()
	if r == nil || c.rng.IntN(10) > 0 {
		return
	}
	log := r.log
	if c.rng.IntN(2) == 0 {
		c.do(r, reprise.StreamKey{}, "sweep", func(ctx context.Context) string {
			result, err := log.Sweep(ctx)
			return fmt.Sprint(result.Streams, err)
		})
		return
	}
	c.do(r, reprise.StreamKey{}, "ready", func(ctx context.Context) string { return fmt.Sprint(log.Ready(ctx)) })
}
