package park

import (
	"context"
	"sync"
	"time"

	"reprise/internal/sseloop"
)

// life is when a response ends, and why. It has a context while a goroutine waits for the end, which a parked response
// does not.
type life struct {
	mu     sync.Mutex
	ended  bool
	cause  error
	ctx    context.Context // nil until a goroutine asks for it
	cancel context.CancelCauseFunc
}

// context returns a context that ends with the response.
func (l *life) context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancelCause(context.Background())
		if l.ended {
			l.cancel(l.cause)
		}
	}
	return l.ctx
}

// end ends the response, unless it has ended.
func (l *life) end(cause error) {
	l.mu.Lock()
	var cancel context.CancelCauseFunc
	if !l.ended {
		l.ended, l.cause, cancel = true, cause, l.cancel
	}
	l.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

// err is Err of the context.
func (l *life) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return context.Canceled
	}
	return nil
}

// forget lets the context go. No goroutine may wait for it.
func (l *life) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ctx, l.cancel = nil, nil
	}
}

// A Seat is the context of its request, and lives on when net/http ends the request's because its handler has
// returned.

// Deadline implements context.Context: there is none.
func (s *Seat) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Done implements context.Context.
func (s *Seat) Done() <-chan struct{} { return s.life.context().Done() }

// Err implements context.Context.
func (s *Seat) Err() error { return s.life.err() }

// Value implements context.Context: until the response is parked, the values are the request's.
func (s *Seat) Value(key any) any {
	if _, ok := key.(sseloop.ParkingKey); ok && s.offered {
		return s
	}
	if v := s.life.context().Value(key); v != nil { // the context itself, for its children
		return v
	}
	if request := s.request.Load(); request != nil {
		return request.r.Context().Value(key)
	}
	return nil
}

// Offer lets the handler of the request park its response.
func (s *Seat) Offer() { s.offered = true }
