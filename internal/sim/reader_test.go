package sim

import (
	"context"
	"errors"
	"fmt"

	"reprise"
)

// following is an open Reader and the events that it must deliver next according to the truth.
type following struct {
	*reprise.Reader
	handle *handle
	key    reprise.StreamKey
	epoch  *epoch
	next   uint64
	// changes is that of the name when the reader was opened; current is false if its stream did not have the name
	// then.
	changes int
	current bool
	done    bool // the end was delivered
}

// read chooses what a reader does next.
func (c *client) read() {
	f := c.following
	switch {
	case f == nil:
		c.openReader()
		return
	case f.handle.life != f.handle.replica.life:
		c.leave()
		return
	}
	switch n := c.rng.IntN(100); {
	case n < 55:
		c.follow(f)
	case n < 90:
		c.poll(f)
	case n < 95:
		c.leave()
	default:
		c.info(f.handle, f.key)
	}
}

// leave closes the reader. The client may resume later, at any replica.
func (c *client) leave() {
	_ = c.following.Close()
	c.following = nil
}

// keep stores a cursor.
func (c *client) keep(key reprise.StreamKey, cursor reprise.Cursor) {
	if len(c.cursors) > 20 {
		c.cursors, c.of = c.cursors[10:], c.of[10:]
	}
	c.cursors, c.of = append(c.cursors, cursor), append(c.of, key)
}

// openReader opens a reader: where it was, at any cursor it ever had, at the ends of the window, or at a cursor of
// another stream.
func (c *client) openReader() {
	r := c.anyReplica()
	if r == nil {
		return
	}
	key := pick(c.rng, c.sim.config.keys...)
	var asked reprise.Cursor
	at, what, of := reprise.Earliest(), "earliest", key
	if n := len(c.cursors); n > 0 && c.rng.IntN(10) < 7 {
		i := n - 1
		if c.rng.IntN(3) == 0 {
			i = c.rng.IntN(n)
		}
		asked, of = c.cursors[i], c.of[i]
		if c.rng.IntN(5) > 0 {
			key = of
		}
		what = fmt.Sprintf("%s after %d of epoch %d", of, asked.Seq, c.sim.cluster.truth.epochs[asked.Epoch].number)
		at = reprise.After(asked)
	} else if c.rng.IntN(4) == 0 {
		at, what = reprise.Tail(), "tail"
	}
	h := c.handle(r, key, false)
	if h == nil {
		return
	}
	told := c.sim.toldBy(h)
	c.do(r, key, "read "+what, func(ctx context.Context) string {
		reader, err := h.Reader(ctx, at)
		if err == nil {
			info := reader.Info()
			c.sim.checkWindowStays(h, told, &info)
		}
		if errors.Is(err, reprise.ErrCursorForeign) && of != key {
			return "refused as foreign"
		}
		if of != key && err == nil {
			c.sim.fail("G8: a cursor of %s opens a reader of %s", of, key)
		}
		if err != nil {
			c.readError(h, key, asked, err)
			return fmt.Sprint(err)
		}
		return c.opened(h, key, reader, asked)
	})
}

// opened (G1): a reader that presents a cursor begins exactly there, in the same history.
func (c *client) opened(h *handle, key reprise.StreamKey, reader *reprise.Reader, asked reprise.Cursor) string {
	s := c.sim
	at := reader.Cursor()
	e := s.cluster.truth.epochs[at.Epoch]
	if e == nil || e.key != key {
		s.fail("G8: a reader of %s is in an epoch that is none of it", key)
		return ""
	}
	if !asked.IsZero() {
		shared, ok := e.sharedWith(s.cluster.truth.epochs[asked.Epoch])
		if at.Seq != asked.Seq || !ok || asked.Seq > shared {
			s.fail(
				"G1: a cursor after %d is taken as after %d, the histories share %d events",
				asked.Seq,
				at.Seq,
				shared,
			)
		}
	}
	n := s.cluster.truth.name(key)
	current := n.current != nil && root(n.current) == root(e)
	h.older = h.older || !current
	c.following = &following{
		Reader:  reader,
		handle:  h,
		key:     key,
		epoch:   e,
		next:    at.Seq + 1,
		changes: n.changes,
		current: current,
	}
	c.keep(key, at)
	return fmt.Sprintf("open after %d of epoch %d", at.Seq, e.number)
}

// follow waits for events.
func (c *client) follow(f *following) {
	c.follows = true
	c.do(f.handle.replica, f.key, "next", func(ctx context.Context) string {
		run, err := f.Next(ctx)
		if err == nil && run.Len() == 0 {
			c.sim.fail("G1: Next of %s returns nothing", f.key)
		}
		return c.took(f, run, err)
	})
}

// poll takes the available events.
func (c *client) poll(f *following) {
	c.do(f.handle.replica, f.key, "poll", func(ctx context.Context) string {
		run, err := f.Poll(ctx)
		return c.took(f, run, err)
	})
}

// took compares the delivered events with the truth.
func (c *client) took(f *following, run reprise.Events, err error) string {
	s := c.sim
	at := f.Cursor()
	e := s.cluster.truth.epochs[at.Epoch]
	if e == nil {
		s.fail("G1: a reader of %s is in an epoch that nobody made", f.key)
		return ""
	}
	if shared, ok := e.sharedWith(f.epoch); e != f.epoch && (!ok || f.next-1 > shared) {
		s.fail(
			"G1: a reader of %s that has event %d goes on in an epoch that shares %d events, and is not told",
			f.key,
			f.next-1,
			shared,
		)
	}
	f.epoch = e
	first := f.next
	if run.Len() > 0 {
		for event := range run.All() {
			c.tookEvent(f, event)
		}
	}
	if at.Seq != f.next-1 {
		s.fail("G1: the cursor of a reader of %s is after %d, it has got %d", f.key, at.Seq, f.next-1)
	}
	c.keep(f.key, at)
	if err != nil {
		c.readError(f.handle, f.key, at, err)
		return fmt.Sprint(err)
	}
	return fmt.Sprintf("%d to %d of epoch %d", first, f.next-1, e.number)
}

// tookEvent (G1, G2, G3, G4, G6): the next seq, no event after the end, and none that is not stored in this history.
func (c *client) tookEvent(f *following, got reprise.Event) {
	s := c.sim
	text := f.epoch.at(got.Seq)
	switch {
	case got.Seq != f.next:
		s.fail("G3: a reader of %s gets event %d, due is %d", f.key, got.Seq, f.next)
	case text == "":
		s.fail(
			"G6: a reader of %s gets event %d (%.20s) of epoch %d, which is not stored",
			f.key,
			got.Seq,
			got.Data,
			f.epoch.number,
		)
	case text != string(got.Data):
		s.fail("G6: event %d of %s is %.20s, a reader gets %.20s", got.Seq, f.key, text, got.Data)
	case f.done:
		s.fail("G4: a reader of %s gets event %d after the end", f.key, got.Seq)
	}
	f.done = got.Type == reprise.TypeEnd
	f.next = got.Seq + 1
}

// readError verifies the error of a reader at a cursor, and continues at the position that the error names.
func (c *client) readError(h *handle, key reprise.StreamKey, at reprise.Cursor, err error) {
	f := c.following
	window, ok := errors.AsType[*reprise.WindowError](err)
	switch {
	case ok:
		c.checkWindow(key, at, window)
		if f != nil {
			if c.rng.IntN(2) == 0 || f.Seek(reprise.After(window.Resume())) != nil {
				c.leave()
			} else {
				resume := window.Resume()
				f.next, f.epoch, f.done = resume.Seq+1, c.sim.cluster.truth.epochs[resume.Epoch], false
			}
		}
		c.keep(key, window.Resume())
		return
	case errors.Is(err, reprise.ErrEnded):
		if f == nil || !(f.epoch.ended && f.epoch.tail == f.next-1) {
			c.sim.fail("G4: a reader of %s is told of the end, which is not stored there: %w", key, err)
		}
	case errors.Is(err, reprise.ErrCursorForeign):
		c.sim.fail("G1: a cursor of %s is refused: %w", key, err)
	case isGone(err) && f != nil:
		n := c.sim.cluster.truth.name(key)
		if f.current && f.changes == n.changes && c.sim.config.shared {
			c.sim.fail("G1: a reader of %s, which is there and was all the time, is told %w", key, err)
		}
		c.leave()
		delete(c.handles, handleKey{h.replica.number, key})
		return
	default:
		c.check(h, key, err)
		return
	}
	if f != nil {
		c.leave()
	}
}

// checkWindow (G1): a refusal names exactly the missing range.
func (c *client) checkWindow(key reprise.StreamKey, asked reprise.Cursor, window *reprise.WindowError) {
	s := c.sim
	tr := s.cluster.truth
	e, of := tr.epochs[window.Earliest.Epoch], tr.epochs[asked.Epoch]
	if e == nil || e.key != key || window.Asked.Seq != asked.Seq || window.Asked.Epoch != asked.Epoch {
		s.fail("G1: a reader of %s after %d is refused for %d: %w", key, asked.Seq, window.Asked.Seq, window)
		return
	}
	fork, shared := e.sharedWith(of)
	switch window.Reason {
	case reprise.CursorAhead:
		s.fail(
			"G1: a cursor of %s is refused as ahead of the tail %d, stored are %d: %w",
			key,
			window.Tail.Seq,
			e.tail,
			window,
		)
	case reprise.CursorExpired:
		if window.Earliest.Seq <= asked.Seq || window.Earliest.Seq+1 > max(e.earliest, 1) {
			s.fail(
				"G1: a reader of %s after %d is refused, the window begins with %d: %w",
				key,
				asked.Seq,
				e.earliest,
				window,
			)
		}
	case reprise.EpochChanged:
		if _, known := e.forkOf(of); !known && window.Fork.Seq == 0 { // a replica that has not seen a lost epoch
			fork, shared = 0, false
		}
		if of == e || shared && asked.Seq <= fork || window.Fork.Seq != fork ||
			window.Resume().Seq > max(fork, e.earliest-1) {
			s.fail("G1: a reader of %s after %d is refused, the fork is %d: %w", key, asked.Seq, fork, window)
		}
	}
}
