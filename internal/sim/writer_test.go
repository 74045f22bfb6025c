package sim

import (
	"context"
	"errors"
	"fmt"

	"reprise"
)

// producer is the state of a writer's idempotent appends to a stream.
type producer struct {
	id         string
	epoch, seq uint64  // of the next append
	again      []event // to be retried with the same number
}

// write chooses what a writer does next.
func (c *client) write() {
	r := c.anyReplica()
	if r == nil {
		return
	}
	key := pick(c.rng, c.sim.config.keys...)
	h := c.handle(r, key, c.rng.IntN(3) > 0)
	if h == nil {
		return
	}
	n := c.rng.IntN(100)
	if c.sim.config.trims && c.rng.IntN(2) == 0 {
		n = pick(c.rng, 90, 99) // trim, info
	}
	switch {
	case n < 45:
		c.append(h, key, "append", c.compose(nil), false, nil)
	case n < 80:
		c.produce(h, key)
	case n < 88:
		c.misuse(h, key)
	case n < 90:
		c.append(h, key, "end", c.compose(nil)[:1], true, nil)
	case n < 93:
		c.trim(h, key)
	case n < 94:
		c.remove(r, key)
	default:
		c.info(h, key)
	}
}

// compose makes one to three events.
func (c *client) compose(p *reprise.ProducerID) []event {
	events := make([]event, 1+c.rng.IntN(3))
	for i := range events {
		c.events++
		events[i] = event{
			id: fmt.Sprintf("c%d-%d", c.number, c.events), producer: "-",
			padding: c.sim.config.wide * c.rng.IntN(200),
		}
		events[i].group = events[0].id
		if p != nil {
			events[i].producer, events[i].epoch, events[i].seq = p.ID, p.Epoch, p.Seq
		}
	}
	return events
}

// produce appends with the next number, or retries an append of unknown outcome.
func (c *client) produce(h *handle, key reprise.StreamKey) {
	p := c.producers[key]
	if p == nil {
		p = &producer{id: fmt.Sprintf("p%d", c.number)}
		c.producers[key] = p
	}
	id := reprise.ProducerID{ID: p.id, Epoch: p.epoch, Seq: p.seq}
	if p.again == nil {
		p.again = c.compose(&id)
	}
	c.append(h, key, fmt.Sprintf("produce %d/%d", p.epoch, p.seq), p.again, false, &id)
}

// misuse breaks the rules for producers: it skips numbers, goes back, or uses the number of another append.
func (c *client) misuse(h *handle, key reprise.StreamKey) {
	id := reprise.ProducerID{ID: fmt.Sprintf("p%d", c.rng.IntN(c.sim.config.writers))}
	if p := c.producers[key]; p != nil && c.rng.IntN(2) == 0 {
		id = reprise.ProducerID{ID: p.id, Epoch: p.epoch, Seq: p.seq}
		switch c.rng.IntN(3) {
		case 0:
			id.Seq += 1 + uint64(c.rng.IntN(3))
		case 1:
			id.Epoch -= min(id.Epoch, 1)
		default:
			id.Seq -= min(id.Seq, 1)
		}
	} else {
		id.Seq = uint64(c.rng.IntN(5))
	}
	c.append(h, key, fmt.Sprintf("misuse %s %d/%d", id.ID, id.Epoch, id.Seq), c.compose(&id), false, &id)
}

// append appends events and compares the result with the truth.
func (c *client) append(
	h *handle,
	key reprise.StreamKey,
	what string,
	events []event,
	end bool,
	id *reprise.ProducerID,
) {
	opts := reprise.AppendOptions{Producer: id}
	if owned(key) {
		opts.Owner = c.owner(key)
		what += fmt.Sprintf(" as %s/%d", opts.Owner.Name, opts.Owner.Fence)
	}
	texts, given := make([]string, len(events)), make([]reprise.Event, len(events))
	for i := range events {
		events[i].fence = opts.Owner.Fence
		texts[i] = events[i].text()
		given[i] = reprise.Event{Data: []byte(texts[i])}
	}
	c.do(h.replica, key, what+" "+events[0].id, func(ctx context.Context) string {
		var done reprise.Appended
		var err error
		if end {
			done, err = h.EndWith(ctx, opts, "completed", given[0])
		} else {
			done, err = h.AppendWith(ctx, opts, given...)
		}
		if err == nil {
			c.acknowledged(key, done, events, texts)
		} else {
			c.refused(h, key, id, events, err)
		}
		c.goOn(key, id, err)
		return fmt.Sprintf("%d to %d, duplicate %t, %v", done.First, done.Last, done.Duplicate, err)
	})
}

// owner returns the owner of the client's next append: its own, another client's, or a newer one.
func (c *client) owner(key reprise.StreamKey) reprise.Owner {
	fence := uint64(1)
	if e := c.sim.cluster.truth.name(key).current; e != nil {
		fence = max(1, e.fence)
	}
	if c.rng.IntN(4) == 0 {
		fence++
	}
	if fence == 1 {
		return reprise.Owner{Name: "creator", Fence: 1}
	}
	return reprise.Owner{Name: fmt.Sprintf("w%d", c.number), Fence: fence}
}

// acknowledged (G6, G9): an acknowledged append is stored at the reported place, and a reported duplicate is one.
func (c *client) acknowledged(key reprise.StreamKey, done reprise.Appended, events []event, texts []string) {
	tr := c.sim.cluster.truth
	if done.Duplicate {
		if !tr.produced(key, done.First, events[0]) {
			c.sim.fail(
				"G9: append %s to %s is answered as a duplicate of events %d to %d, which are not of its producer's number",
				events[0].id,
				key,
				done.First,
				done.Last,
			)
		}
		return
	}
	e := tr.holds(key, done.First, texts)
	if e == nil || done.Last != done.First+uint64(len(texts))-1 {
		c.sim.fail(
			"G6: append %s to %s is acknowledged as events %d to %d and stored nowhere",
			events[0].id,
			key,
			done.First,
			done.Last,
		)
		return
	}
	c.sim.mu.Lock()
	defer c.sim.mu.Unlock()
	e.acked = max(e.acked, done.Last)
}

// refused verifies the refusal of an append.
func (c *client) refused(h *handle, key reprise.StreamKey, id *reprise.ProducerID, events []event, err error) {
	c.check(h, key, err)
	n := c.sim.cluster.truth.name(key)
	switch {
	case errors.Is(err, errCut) && id == nil:
		c.sim.never(events)
	case errors.Is(err, reprise.ErrEnded) && !n.ended:
		c.sim.fail("G4: append to %s, which never ended: %w", key, err)
	case errors.Is(err, reprise.ErrFenced) && id == nil && !owned(key),
		errors.Is(err, reprise.ErrConflict) && id == nil:
		c.sim.fail("append to %s: %w", key, err)
	}
}

// never (G9): an append that returns the cause of its cancellation is never stored.
func (s *simulation) never(events []event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		s.withdrawn[e.id] = true
		if len(s.cluster.truth.places[e.id]) > 0 {
			s.fail("G9: append %s was cancelled before its commit began, and is stored", e.id)
		}
	}
}

// goOn prepares the next append of a producer, unless id is not its current one.
func (c *client) goOn(key reprise.StreamKey, id *reprise.ProducerID, err error) {
	p := c.producers[key]
	if id == nil || p == nil || *id != (reprise.ProducerID{ID: p.id, Epoch: p.epoch, Seq: p.seq}) {
		return
	}
	switch {
	case err == nil:
		p.seq, p.again = p.seq+1, nil
	case errors.Is(err, reprise.ErrConflict), errors.Is(err, reprise.ErrFenced) && !owned(key):
		*p = producer{id: p.id, epoch: p.epoch + 1}
	case isGone(err), errors.Is(err, reprise.ErrEnded):
		p.again = nil
	}
}

func (c *client) trim(h *handle, key reprise.StreamKey) {
	e := c.sim.cluster.truth.name(key).current
	if e == nil {
		return
	}
	before := e.earliest + uint64(c.rng.IntN(5))
	c.do(h.replica, key, fmt.Sprintf("trim %d", before), func(ctx context.Context) string {
		err := h.Trim(ctx, before)
		if err != nil && !errors.Is(err, reprise.ErrInvalid) {
			c.check(h, key, err)
		}
		return fmt.Sprint(err)
	})
}

func (c *client) remove(r *replica, key reprise.StreamKey) {
	log := r.log
	c.do(r, key, "remove", func(ctx context.Context) string { return fmt.Sprint(log.Remove(ctx, key)) })
}
