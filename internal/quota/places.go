package quota

import (
	"context"
	"sync"

	"reprise"
)

// Places are those in which costly work is done for requests. A tenant takes one at a time, so that no tenant holds all
// of them.
type Places struct {
	all chan struct{}

	mu      sync.Mutex
	tenants map[reprise.Tenant]*place
}

// place is the one of a tenant.
type place struct {
	held  chan struct{}
	users int // which hold it or wait for it
}

// NewPlaces returns n places.
func NewPlaces(n int) *Places {
	return &Places{all: make(chan struct{}, n), tenants: map[reprise.Tenant]*place{}}
}

// Take waits for a place, which the caller gives back by release. The error is the cause of ctx.
func (p *Places) Take(ctx context.Context, tenant reprise.Tenant) (release func(), err error) {
	p.mu.Lock()
	own := p.tenants[tenant]
	if own == nil {
		own = &place{held: make(chan struct{}, 1)}
		p.tenants[tenant] = own
	}
	own.users++
	p.mu.Unlock()
	leave := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(p.tenants, tenant)
		}
	}
	select { // first, so that calls that wait behind each other hold nothing of what other tenants need
	case own.held <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
	select {
	case p.all <- struct{}{}:
	case <-ctx.Done():
		<-own.held
		leave()
		return nil, context.Cause(ctx)
	}
	return func() {
		<-p.all
		<-own.held
		leave()
	}, nil
}
