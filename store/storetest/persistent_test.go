package storetest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reprise"
	"reprise/internal/shared"
	"reprise/store/memstore"
)

// place keeps streams in memory while the Stores that are opened in it come and go, as a server would.
type place struct {
	hub  *shared.Hub
	full atomic.Bool // appends fail
}

func openPlace(tb testing.TB) Harness {
	p := &place{hub: shared.New(memstore.New(nil))}
	keeper := p.hub.Store()
	tb.Cleanup(func() { keeper.Close() })
	return p.harness(func() (reprise.Store, error) { return p.open(), nil })
}

func (p *place) harness(open func() (reprise.Store, error)) Harness {
	return Harness{
		Open:       open,
		Share:      open,
		Persistent: true,
		Fault: func(reprise.Store) (func() error, error) {
			p.full.Store(true)
			return func() error { p.full.Store(false); return nil }, nil
		},
		Deafen: func(store reprise.Store) error {
			s := sessionOf(store)
			s.deafen(s.tellAll)
			return nil
		},
		Cut: func(store reprise.Store) error {
			sessionOf(store).cut.Store(true)
			return nil
		},
		Lose: func(reprise.Store) (func() error, error) { return p.hub.PrepareLoss(context.Background()) },
	}
}

func (p *place) open() *session {
	return &session{Store: p.hub.Store(), place: p, watched: map[int]func(){}}
}

func sessionOf(store reprise.Store) *session {
	if b, ok := store.(*broken); ok {
		return b.session
	}
	return store.(*session)
}

// session is an open Store in a place.
type session struct {
	*shared.Store
	place *place
	deaf  atomic.Bool // what others do is not told
	cut   atomic.Bool // the answer to a call is to be lost

	mu      sync.Mutex
	watches int // ever
	watched map[int]func()
}

func (s *session) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	if s.place.full.Load() {
		return slices.Repeat([]error{reprise.ErrUnavailable}, len(reqs))
	}
	return s.Store.Append(ctx, reqs)
}

func (s *session) Watch(key reprise.StreamKey, moved func()) (stop func(), err error) {
	end, err := s.Store.Watch(key, func() {
		if !s.deaf.Load() {
			moved()
		}
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches++
	id := s.watches
	s.watched[id] = moved
	return func() {
		end()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watched, id)
	}, nil
}

// deafen is a connection that is lost, and back a little later.
func (s *session) deafen(back func()) {
	s.deaf.Store(true)
	time.AfterFunc(10*time.Millisecond, func() {
		s.deaf.Store(false)
		back()
	})
}

// tellAll is what follows when the connection is back.
func (s *session) tellAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, moved := range s.watched {
		moved()
	}
}
