// Package driver has what Stores have in common beside their technology: the gate that Close shuts, the refusals of an
// append, the producers that a stream remembers, the watchers of streams, and the errors of a commit.
package driver

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"reprise"
)

// Gate lets calls into a Store until it is closed. The zero value is open.
type Gate struct {
	calls  sync.RWMutex
	closed bool
}

// Enter begins a call. The error is the cause of a context that is done, or reprise.ErrClosed. If it is nil, the caller
// calls Leave.
func (g *Gate) Enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	g.calls.RLock()
	if g.closed {
		g.calls.RUnlock()
		return reprise.ErrClosed
	}
	return nil
}

// Leave ends a call.
func (g *Gate) Leave() { g.calls.RUnlock() }

// Close waits for the calls under way and refuses later ones. It reports whether this call has closed the gate.
func (g *Gate) Close() bool {
	g.calls.Lock()
	defer g.calls.Unlock()
	was := g.closed
	g.closed = true
	return !was
}

// Refusal returns the first reason not to store a request in a stream, in the order that reprise.Store.Append states,
// or nil. It uses the Epoch, Owner, End, Tail and Revision of the stream.
func Refusal(info *reprise.StreamInfo, req *reprise.AppendRequest) error {
	switch {
	case info.Epoch != req.Epoch:
		return reprise.ErrNotFound
	case req.Owner != info.Owner && req.Owner.Fence <= info.Owner.Fence:
		return fmt.Errorf("%w: the stream is that of %q with fence %d", reprise.ErrFenced, info.Owner.Name,
			info.Owner.Fence)
	case info.End != nil:
		return reprise.ErrEnded
	case req.First != info.Tail+1:
		return fmt.Errorf("%w: a batch that begins with %d, the tail is %d", reprise.ErrConflict, req.First, info.Tail)
	case req.Revision != info.Revision:
		return fmt.Errorf("%w: an append that relies on revision %d of the configuration, not %d", reprise.ErrConflict,
			req.Revision, info.Revision)
	}
	return nil
}

// Remember adds the producers of an append to those that a stream remembers, the newest last: each replaces the one
// with its ID, and of more than reprise.MaxProducers the oldest is forgotten. It changes known, and returns it.
func Remember(known, fresh []reprise.Producer) []reprise.Producer {
	for _, p := range fresh {
		known = slices.DeleteFunc(known, func(k reprise.Producer) bool { return k.ID == p.ID })
		if len(known) >= reprise.MaxProducers {
			known = slices.Delete(known, 0, len(known)-reprise.MaxProducers+1)
		}
		known = append(known, p)
	}
	return known
}

// Refuse records err for request i of n in errs, which is nil as long as there is no error.
func Refuse(errs []error, n, i int, err error) []error {
	if errs == nil {
		errs = make([]error, n)
	}
	errs[i] = err
	return errs
}

// Fail records err for all of n requests that have no error yet. errs may be nil.
func Fail(errs []error, n int, err error) []error {
	if errs == nil {
		return slices.Repeat([]error{err}, n)
	}
	for i := range errs {
		if errs[i] == nil {
			errs[i] = err
		}
	}
	return errs
}

// Map replaces each of errs by what border makes of it.
func Map(ctx context.Context, errs []error, border func(context.Context, error) error) {
	for i := range errs {
		errs[i] = border(ctx, errs[i])
	}
}
