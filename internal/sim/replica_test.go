package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"reprise"
)

// replica is a place where Logs run one after the other.
type replica struct {
	sim    *simulation
	number int
	skew   time.Duration // of its clock

	// life counts the Logs that ran here. A store of an earlier life does nothing.
	life    int
	log     *reprise.Log
	opening bool
	closing int // Logs of earlier lives that have not ended

	frozen     bool
	cut        bool        // receives no notifications of the store
	hookPanics atomic.Bool // the hook of the next commit panics
	watches    []*watch
	moved      map[reprise.StreamKey]bool // notifications to deliver
}

// choices returns the possible events of r.
func (r *replica) choices() []item {
	var items []item
	add := func(weight int, what string, do func()) {
		items = append(items, item{weight, fmt.Sprintf("r%d %s", r.number, what), do})
	}
	for _, key := range r.sim.cluster.truth.sortedKeys() {
		if r.moved[key] && (!r.frozen || r.sim.calm) {
			add(20, fmt.Sprintf("is told that %s moved", key), func() { r.tell(key) })
		}
	}
	if r.cut {
		add(10, "hears of the store again", func() {
			r.cut = false
			for _, key := range r.sim.config.keys {
				r.moved[key] = true
			}
		})
	}
	if r.log == nil && !r.opening && !r.sim.over && (r.sim.config.shared || r.closing == 0) {
		add(100, "opens", r.open)
	}
	if r.sim.calm {
		return items
	}
	config := &r.sim.config
	if !r.cut && config.shared {
		add(config.cuts/10, "hears of the store no more", func() {
			r.cut = true
			clear(r.moved)
		})
	}
	if r.frozen {
		add(10, "thaws", func() { r.frozen = false })
	} else {
		add(config.freezes/5, "freezes", func() { r.frozen = true })
	}
	if r.log != nil {
		add(config.crashes/2, "crashes", r.crash)
	}
	return items
}

func (r *replica) tell(key reprise.StreamKey) {
	delete(r.moved, key)
	r.sim.mu.Lock()
	watches := slices.Clone(r.watches)
	r.sim.mu.Unlock()
	for _, w := range watches {
		if w.key == key {
			w.moved()
		}
	}
}

// open opens a Log, in a goroutine since its calls stop at gates.
func (r *replica) open() {
	r.opening, r.frozen = true, false
	s, life := r.sim, r.life
	var on reprise.Store
	base := &store{replica: r, life: life}
	switch {
	case !s.config.shared:
		on = base
	case s.config.parallel:
		on = parallel{shared{base}}
	default:
		on = shared{base}
	}
	opts := &reprise.Options{
		Keys: s.keys, Retention: s.config.retention, TailBytes: s.config.tailBytes, MaxStreams: s.config.streams,
		SweepEvery: 30 * time.Second, Remember: time.Minute,
		Hooks: &reprise.Hooks{Committed: func(reprise.CommitInfo) {
			if r.hookPanics.Swap(false) {
				panic("the hook panics")
			}
		}},
	}
	if s.config.idle {
		opts.MaxIdle = idleBound
	}
	if s.config.tailBytes == 1 {
		opts.TailTotalBytes = 1
	}
	go func() {
		log, err := openLog(on, opts)
		s.mu.Lock()
		defer s.mu.Unlock()
		r.opening = false
		if err == nil {
			r.log = log
			s.results = append(s.results, fmt.Sprintf("r%d is open", r.number))
		}
	}()
}

func openLog(on reprise.Store, opts *reprise.Options) (log *reprise.Log, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", reprise.ErrUnavailable, p)
		}
	}()
	return reprise.Open(context.Background(), on, opts)
}

// crash ends the Log of r in the middle of its calls: each has taken effect, or not, or does so late.
func (r *replica) crash() {
	s := r.sim
	s.mu.Lock()
	r.life++
	log := r.log
	r.log, r.watches = nil, nil
	r.hookPanics.Store(false)
	clear(r.moved)
	r.closing++
	pending := append([]*gate(nil), s.pending...)
	s.mu.Unlock()
	for _, g := range pending {
		if g.replica != r {
			continue
		}
		f := pick(s.rng, failsBefore, failsAfter, lateEffect)
		s.note("       %s: %s", g, f)
		s.release(g, f)
	}
	go r.end(log)
}

// end closes a Log.
func (r *replica) end(log *reprise.Log) {
	for closed := false; !closed; {
		func() {
			defer func() { _ = recover() }()
			closed = log.Close() == nil
		}()
	}
	r.sim.mu.Lock()
	defer r.sim.mu.Unlock()
	r.closing--
}

// isGone reports whether err means that the stream does not exist.
func isGone(err error) bool {
	return errors.Is(err, reprise.ErrNotFound) || errors.Is(err, reprise.ErrExpired)
}

func compareKeys(a, b reprise.StreamKey) int { return strings.Compare(a.String(), b.String()) }
