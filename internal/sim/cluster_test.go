package sim

import (
	"context"
	"slices"
	"time"

	"reprise"
	"reprise/store/memstore"
)

// cluster is a primary store and a follower that has applied a prefix of the primary's changes. Only the scheduler uses
// it.
type cluster struct {
	sim      *simulation
	truth    *truth
	primary  *memstore.Store
	follower *memstore.Store
	behind   []func(*memstore.Store) // changes that the follower has not applied
	renewing bool                    // whether the first of them is that to new epochs
}

func newCluster(s *simulation) *cluster {
	return &cluster{sim: s, truth: newTruth(), primary: memstore.New(nil), follower: memstore.New(nil)}
}

// later queues a change for the follower.
func (c *cluster) later(change func(*memstore.Store)) { c.behind = append(c.behind, change) }

// follow applies the oldest change to the follower.
func (c *cluster) follow() {
	c.behind[0](c.follower)
	c.behind, c.renewing = c.behind[1:], false
}

// eager is how likely the follower applies a change, in comparison to other steps. It is slow with new epochs, so that
// a promotion may lose them.
func (c *cluster) eager() int {
	if c.renewing {
		return 2
	}
	return 30 + len(c.behind)
}

var background = context.Background()

func (c *cluster) create(info reprise.StreamInfo) (reprise.StreamInfo, error) {
	got, err := c.primary.Create(background, info)
	if err != nil || got.Epoch != info.Epoch {
		return got, err
	}
	n := c.truth.name(info.Key)
	n.current = c.truth.begin(info.Key, info.Epoch, nil, 0)
	n.current.moved()
	n.changes++
	c.later(func(s *memstore.Store) { _, _ = s.Create(background, info) })
	return got, nil
}

// append stores one batch.
func (c *cluster) append(req reprise.AppendRequest) error {
	if errs := c.primary.Append(background, []reprise.AppendRequest{req}); errs != nil {
		return errs[0]
	}
	c.sim.sized(len(req.Bytes))
	if err := c.truth.stored(&req, c.sim.config.retention.MaxEvents); err != nil {
		c.sim.fail("%v", err)
	}
	c.sim.checkWithdrawn(&req)
	c.later(func(s *memstore.Store) { s.Append(background, []reprise.AppendRequest{req}) })
	c.sim.changed(req.Key)
	return nil
}

func (c *cluster) remove(key reprise.StreamKey, spec reprise.RemoveSpec) error {
	if err := c.primary.Remove(background, key, spec); err != nil {
		return err
	}
	c.later(func(s *memstore.Store) { _ = s.Remove(background, key, spec) })
	n := c.truth.name(key)
	if e := c.truth.epochs[spec.Epoch]; e != nil && spec.Trim > 0 &&
		e != n.current { // a promotion took it back
		e.earliest = max(e.earliest, min(spec.Trim, e.tail+1))
		e.moved()
	}
	switch {
	case n.current == nil || spec.Epoch != "" && c.truth.epochs[spec.Epoch] != n.current:
		return nil
	case spec.Trim > 0:
		n.current.earliest = max(n.current.earliest, min(spec.Trim, n.current.tail+1))
		n.current.moved()
	default:
		n.current = nil
		n.changes++
	}
	c.sim.changed(key)
	return nil
}

func (c *cluster) sweep(now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
	swept, err := c.primary.Sweep(background, now, remember, limit)
	c.later(func(s *memstore.Store) { _, _ = s.Sweep(background, now, remember, limit) })
	for i := range swept {
		n := c.truth.name(swept[i].Key)
		n.current = nil
		n.changes++
		c.sim.changed(swept[i].Key)
	}
	return swept, err
}

// promote makes the follower the primary. Changes that it has not applied are lost, and each stream gets a new epoch.
// The next follower is as this one was, and the first change for it is that to the new epochs. So another promotion may
// lose these.
func (c *cluster) promote() {
	before, renewed := c.follower, memstore.New(nil)
	c.primary = memstore.New(nil)
	c.behind, c.renewing = []func(*memstore.Store){func(*memstore.Store) { c.follower = renewed }}, true
	left := map[reprise.StreamKey]bool{}
	for _, info := range slices.Backward(everything(before)) {
		left[info.Key] = true
		parent, n := c.truth.epochs[info.Epoch], c.truth.name(info.Key)
		kept := copyStream(before, info, c.primary, renewed)
		e := c.truth.begin(info.Key, kept.Epoch, parent, kept.Tail)
		e.earliest, e.ended = kept.Earliest, kept.End != nil
		e.moved()
		if kept.Tail > 0 {
			e.fence = eventOf(parent.at(kept.Tail)).fence
		}
		if n.current == nil || root(n.current) != root(e) {
			n.changes++
		}
		n.current = e
	}
	for key, n := range c.truth.keys {
		if !left[key] && n.current != nil {
			n.current = nil
			n.changes++
		}
		c.sim.changed(key)
	}
}

func root(e *epoch) *epoch {
	for e.parent != nil {
		e = e.parent
	}
	return e
}

// copyStream copies a stream of a store to others, in a new epoch.
func copyStream(from *memstore.Store, info reprise.StreamInfo, to ...*memstore.Store) reprise.StreamInfo {
	page, err := from.Read(background, info.Key, 0, 1<<40)
	if err != nil {
		panic(err)
	}
	info = page.Info
	info.Renew(reprise.NewEpoch())
	first, n := info, len(page.Batches)
	first.Earliest, first.Bytes = 0, 0
	if n > 0 {
		first.Tail, first.End = page.Batches[0].First-1, nil
	}
	for _, to := range to {
		if _, err := to.Create(background, first); err != nil {
			panic(err)
		}
		for i, b := range page.Batches {
			req := reprise.AppendRequest{
				Key: info.Key, Epoch: info.Epoch, Owner: info.Owner, First: b.First, Count: b.Count, Bytes: b.Bytes,
				Earliest: min(info.Earliest, b.Last()+1), Kept: info.Bytes,
			}
			if i == n-1 {
				req.End = info.End
			}
			if errs := to.Append(background, []reprise.AppendRequest{req}); errs != nil {
				panic(errs[0])
			}
		}
	}
	return info
}

// everything lists all streams, newest first.
func everything(s *memstore.Store) []reprise.StreamInfo {
	page, err := s.List(background, reprise.ListQuery{AllNamespaces: true, Limit: 1000})
	if err != nil {
		panic(err)
	}
	return page.Streams
}
