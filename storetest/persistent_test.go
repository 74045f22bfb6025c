package storetest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/memstore"
)

// place keeps streams in memory while the Stores that are opened in it come and go, as a file would.
type place struct {
	data *memstore.Store
	full atomic.Bool // appends fail
}

func openPlace(tb testing.TB) Harness {
	p := &place{data: memstore.New(nil)}
	tb.Cleanup(func() { p.data.Close() })
	return p.harness(func() (reprise.Store, error) { return p.open(), nil })
}

func (p *place) harness(open func() (reprise.Store, error)) Harness {
	return Harness{
		Open:       open,
		Persistent: true,
		Fault: func(reprise.Store) (func() error, error) {
			p.full.Store(true)
			return func() error { p.full.Store(false); return nil }, nil
		},
	}
}

func (p *place) open() *session { return &session{place: p} }

// session is an open Store in a place.
type session struct {
	place  *place
	mu     sync.RWMutex
	closed bool
}

func (s *session) use() (done func(), err error) {
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return nil, reprise.ErrClosed
	}
	return s.mu.RUnlock, nil
}

func (s *session) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	done, err := s.use()
	if err != nil {
		return reprise.StreamInfo{}, err
	}
	defer done()
	return s.place.data.Create(ctx, info)
}

func (s *session) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	done, err := s.use()
	if err == nil {
		defer done()
		if s.place.full.Load() {
			err = reprise.ErrUnavailable
		}
	}
	if err != nil {
		return slices.Repeat([]error{err}, len(reqs))
	}
	return s.place.data.Append(ctx, reqs)
}

func (s *session) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	done, err := s.use()
	if err != nil {
		return reprise.Page{}, err
	}
	defer done()
	return s.place.data.Read(ctx, key, after, maxBytes)
}

func (s *session) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	done, err := s.use()
	if err != nil {
		return reprise.ListPage{}, err
	}
	defer done()
	return s.place.data.List(ctx, q)
}

func (s *session) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	done, err := s.use()
	if err != nil {
		return err
	}
	defer done()
	return s.place.data.Remove(ctx, key, spec)
}

func (s *session) Sweep(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
	done, err := s.use()
	if err != nil {
		return nil, err
	}
	defer done()
	return s.place.data.Sweep(ctx, now, remember, limit)
}

func (s *session) Sizes(ctx context.Context) (map[reprise.Tenant]reprise.Size, error) {
	done, err := s.use()
	if err != nil {
		return nil, err
	}
	defer done()
	return s.place.data.Sizes(ctx)
}

func (s *session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
