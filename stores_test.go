package reprise_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"reprise"
)

// gate is a Store whose appends wait, while it is shut, between having stored and saying so.
type gate struct {
	reprise.Store
	// stored receives the size of each commit when it is in the store.
	stored chan int

	mu   sync.Mutex
	pass chan struct{} // closed while it is open
}

func newGate(store reprise.Store) *gate {
	pass := make(chan struct{})
	close(pass)
	return &gate{Store: store, stored: make(chan int, 1<<20), pass: pass}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pass = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.pass)
}

// openOne lets the commits go that wait now, and shuts behind them.
func (g *gate) openOne() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.pass)
	g.pass = make(chan struct{})
}

func (g *gate) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	g.mu.Lock()
	pass := g.pass
	g.mu.Unlock()
	errs := g.Store.Append(ctx, reqs)
	g.stored <- len(reqs)
	<-pass
	return errs
}

// faulty is a Store that can be made to fail.
type faulty struct {
	reprise.Store
	// before fails appends without storing them, after when they have been stored,
	// reading and creating fail what they say.
	before, after, reading, creating atomic.Bool
}

var errFault = fmt.Errorf("%w: a fault of the test", reprise.ErrUnavailable)

func (f *faulty) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	var errs []error
	if !f.before.Load() {
		errs = f.Store.Append(ctx, reqs)
	}
	if !f.before.Load() && !f.after.Load() {
		return errs
	}
	errs = make([]error, len(reqs))
	for i := range errs {
		errs[i] = errFault
	}
	return errs
}

func (f *faulty) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	if f.reading.Load() {
		return reprise.Page{}, errFault
	}
	return f.Store.Read(ctx, key, after, maxBytes)
}

func (f *faulty) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	if f.creating.Load() {
		return reprise.StreamInfo{}, errFault
	}
	return f.Store.Create(ctx, info)
}
