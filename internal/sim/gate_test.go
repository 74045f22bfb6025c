package sim

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"reprise"
)

// fate is the outcome of a call of the store.
type fate int

const (
	succeeds    fate = iota
	failsBefore      // and has no effect
	failsAfter       // its effect
	lateEffect       // fails now and takes effect later, unless a conflicting change was made
	panics           // before its effect
	panicsAfter
	hookPanics // takes effect, and the hook of the Log panics
	fates
)

func (f fate) String() string {
	return [...]string{"ok", "fails before", "fails after", "late", "panics", "panics after", "hook panics"}[f]
}

// gate is a call of the store that waits for the scheduler.
type gate struct {
	replica *replica
	kind    string
	key     reprise.StreamKey // zero for calls that concern no single stream
	detail  string
	// effect executes the call; the scheduler calls it. cause is the error of a failing call.
	effect func(f fate, cause error)
	panics bool
	done   chan struct{}
}

func (g *gate) String() string {
	return fmt.Sprintf("r%d %s %s %s", g.replica.number, g.kind, g.key, g.detail)
}

// store is the Store of one life of a replica.
type store struct {
	replica *replica
	life    int
}

// shared is a store that is a Watcher, parallel one that is Concurrent.
type (
	shared   struct{ *store }
	parallel struct{ shared }
)

var (
	_ reprise.Watcher    = shared{}
	_ reprise.Sizer      = shared{}
	_ reprise.Sweeper    = shared{}
	_ reprise.Concurrent = parallel{}
)

// lanes is so large that streams rarely share a lane: which ones do is random in each Log.
const lanes = 256

func (parallel) ConcurrentAppends() int { return lanes }

// readerMark marks the context of calls that must not change the store.
type readerMark struct{}

// pass waits at the gate. If ctx is cancelled there, the call has no effect and pass returns the cause.
func (s *store) pass(ctx context.Context, g *gate) error {
	sim := s.replica.sim
	g.replica, g.done = s.replica, make(chan struct{})
	if ctx.Value(readerMark{}) != nil && g.kind != "read" {
		sim.fail("G5: a reader makes the store %s %s", g.kind, g.key)
	}
	sim.mu.Lock()
	if s.life != s.replica.life {
		sim.mu.Unlock()
		return errCrashed
	}
	sim.pending = append(sim.pending, g)
	sim.mu.Unlock()
	select {
	case <-g.done:
	case <-ctx.Done():
		sim.mu.Lock()
		sim.pending = slices.DeleteFunc(sim.pending, func(p *gate) bool { return p == g })
		sim.mu.Unlock()
		return context.Cause(ctx)
	}
	if g.panics {
		panic("the simulated store panics")
	}
	return nil
}

var (
	errCrashed = fmt.Errorf("%w: the replica has crashed", reprise.ErrUnavailable)
	errLost    = fmt.Errorf("%w: the connection was lost", reprise.ErrUnavailable)
	// causes are the errors of failing calls. Some break the contract of Store as a driver might: the Log must not
	// mistake them for anything else.
	causes = []error{errLost, errLost, fmt.Errorf("%w: %w", errLost, io.EOF), io.EOF, io.ErrUnexpectedEOF}
)

// release executes a call and lets it return.
func (s *simulation) release(g *gate, f fate) {
	s.mu.Lock()
	s.pending = slices.DeleteFunc(s.pending, func(p *gate) bool { return p == g })
	s.mu.Unlock()
	g.panics = f == panics || f == panicsAfter
	g.effect(f, causes[s.rng.IntN(len(causes))])
	close(g.done)
}

// outcome executes change according to its fate, and returns the result of the call.
func outcome(s *simulation, f fate, cause error, late bool, change func() error) error {
	switch f {
	case failsBefore, panics:
		return cause
	case failsAfter, panicsAfter:
		if err := change(); err != nil {
			return err
		}
		return cause
	case lateEffect:
		if late {
			s.late = append(s.late, func() { _ = change() })
		}
		return cause
	}
	return change()
}

func (s *store) Create(ctx context.Context, info reprise.StreamInfo) (got reprise.StreamInfo, err error) {
	sim := s.replica.sim
	g := &gate{kind: "create", key: info.Key}
	g.effect = func(f fate, cause error) {
		err = outcome(sim, f, cause, true, func() (err error) {
			got, err = sim.cluster.create(info)
			return err
		})
	}
	if gone := s.pass(ctx, g); gone != nil {
		return reprise.StreamInfo{}, gone
	}
	return got, err
}

func (s *store) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	sim := s.replica.sim
	errs := make([]error, len(reqs))
	g := &gate{kind: "append"}
	sorted := slices.Clone(reqs) // lanes are combined in any order
	slices.SortFunc(sorted, func(a, b reprise.AppendRequest) int { return compareKeys(a.Key, b.Key) })
	for _, r := range sorted {
		g.detail += fmt.Sprintf("%s %d+%d ", r.Key, r.First, r.Count)
	}
	if len(reqs) == 1 {
		g.key = reqs[0].Key
	}
	g.effect = func(f fate, cause error) {
		mixed := f != succeeds && len(reqs) > 1 && sim.rng.IntN(3) == 0
		for i := range reqs {
			req, each := reqs[i], f
			req.Producers = slices.Clone(req.Producers)
			if mixed && sim.rng.IntN(2) == 0 && !g.panics {
				each = succeeds
			}
			errs[i] = outcome(sim, each, cause, true, func() error { return sim.cluster.append(req) })
		}
		s.replica.hookPanics.Store(f == hookPanics)
	}
	if gone := s.pass(ctx, g); gone != nil {
		return slices.Repeat([]error{gone}, len(reqs))
	}
	if !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return nil
	}
	return errs
}

func (s *store) Read(
	ctx context.Context,
	key reprise.StreamKey,
	after uint64,
	maxBytes int,
) (page reprise.Page, err error) {
	sim := s.replica.sim
	g := &gate{kind: "read", key: key, detail: fmt.Sprintf("after %d, %d bytes", after, maxBytes)}
	g.effect = func(f fate, cause error) {
		err = outcome(sim, f, cause, false, func() (err error) {
			page, err = sim.cluster.primary.Read(background, key, after, min(maxBytes, sim.config.pageBytes))
			size := 0
			for _, b := range page.Batches {
				size += len(b.Bytes)
			}
			sim.sized(size)
			return err
		})
	}
	if gone := s.pass(ctx, g); gone != nil {
		return reprise.Page{}, gone
	}
	if err != nil {
		page = reprise.Page{}
	}
	return page, err
}

func (s *store) List(ctx context.Context, q reprise.ListQuery) (page reprise.ListPage, err error) {
	sim := s.replica.sim
	g := &gate{kind: "list", detail: fmt.Sprint(q.Tenant, q.Limit)}
	g.effect = func(f fate, cause error) {
		err = outcome(sim, f, cause, false, func() (err error) {
			page, err = sim.cluster.primary.List(background, q)
			return err
		})
	}
	if gone := s.pass(ctx, g); gone != nil {
		return reprise.ListPage{}, gone
	}
	return page, err
}

func (s *store) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) (err error) {
	sim := s.replica.sim
	g := &gate{kind: "remove", key: key, detail: fmt.Sprintf("trim %d", spec.Trim)}
	g.effect = func(f fate, cause error) {
		// A removal without an epoch must not take effect late: it would remove a stream that was created since.
		err = outcome(sim, f, cause, spec.Epoch != "", func() error { return sim.cluster.remove(key, spec) })
	}
	if gone := s.pass(ctx, g); gone != nil {
		return gone
	}
	return err
}

// Sweep uses the clock of the replica.
func (s *store) Sweep(ctx context.Context, now, remember time.Time, limit int) (swept []reprise.StreamInfo, err error) {
	sim := s.replica.sim
	g := &gate{kind: "sweep"}
	g.effect = func(f fate, cause error) {
		err = outcome(sim, f, cause, false, func() (err error) {
			swept, err = sim.cluster.sweep(now.Add(s.replica.skew), remember.Add(s.replica.skew), limit)
			return err
		})
	}
	if gone := s.pass(ctx, g); gone != nil {
		return nil, gone
	}
	if err != nil {
		swept = nil
	}
	return swept, err
}

func (s *store) Sizes(ctx context.Context) (sizes map[reprise.Tenant]reprise.Size, err error) {
	sim := s.replica.sim
	g := &gate{kind: "sizes"}
	g.effect = func(f fate, cause error) {
		err = outcome(sim, f, cause, false, func() (err error) {
			sizes, err = sim.cluster.primary.Sizes(background)
			return err
		})
	}
	if gone := s.pass(ctx, g); gone != nil {
		return nil, gone
	}
	return sizes, err
}

func (s *store) Close() error { return nil }

// Watch returns at once. Its notifications wait for the scheduler.
func (s shared) Watch(key reprise.StreamKey, moved func()) (stop func(), err error) {
	sim, r := s.replica.sim, s.replica
	sim.mu.Lock()
	defer sim.mu.Unlock()
	if s.life != r.life {
		return nil, errCrashed
	}
	w := &watch{key: key, moved: moved}
	r.watches = append(r.watches, w)
	return func() {
		sim.mu.Lock()
		defer sim.mu.Unlock()
		r.watches = slices.DeleteFunc(r.watches, func(o *watch) bool { return o == w })
	}, nil
}

type watch struct {
	key   reprise.StreamKey
	moved func()
}
