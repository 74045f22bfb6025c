package park

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"reprise/internal/httpserver"
)

// Options are the settings of New. The zero value of each field means its default.
type Options struct {
	// After is the time without events after which a response is parked. It is short, because
	// each reader that is not parked yet has its memory in net/http: many that come within seconds would need it at
	// once. It is not zero, because the response to a command that ends soon would leave net/http for nothing.
	// Default: 100 ms.
	After time.Duration
	// IdleTimeout is how long a connection whose response was parked may wait for its next request. Default: 2 minutes.
	IdleTimeout time.Duration
	// Logger logs panics. Default: silent.
	Logger *slog.Logger
}

// Lot holds the parked responses of a server. It is safe for concurrent use; a nil Lot parks nothing.
type Lot struct {
	opts  Options
	watch *watch
	clock *clock
	crew  crew
	ready chan net.Conn // connections with another request
	over  chan struct{} // closed when no connections are accepted again

	mu    sync.Mutex
	seats map[*Seat]struct{}
	// parked counts those that have left net/http.
	parked int
	ended  error // the cause of End, nil before
	// idle holds the connections that wait for another request. It is nil while no server accepts them.
	idle map[*httpserver.Kept]struct{}
	// empty is closed when none is parked, nil unless Wait waits.
	empty  chan struct{}
	closed bool
	trim   trimmer
}

// New returns a Lot. The error is errors.ErrUnsupported on systems other than Linux. opts may be nil.
func New(opts *Options) (*Lot, error) {
	l := &Lot{ready: make(chan net.Conn), over: make(chan struct{}), seats: map[*Seat]struct{}{}}
	l.clock = newClock((*Seat).ring)
	l.crew.most, l.trim.live = runtime.GOMAXPROCS(0), liveHeap
	if opts != nil {
		l.opts = *opts
	}
	if l.opts.After <= 0 {
		l.opts.After = 100 * time.Millisecond
	}
	if l.opts.IdleTimeout <= 0 {
		l.opts.IdleTimeout = 2 * time.Minute
	}
	if l.opts.Logger == nil {
		l.opts.Logger = slog.New(slog.DiscardHandler)
	}
	var err error
	if l.watch, err = newWatch(); err != nil {
		return nil, err
	}
	return l, nil
}

// Parked returns the number of responses that have left net/http and not ended.
func (l *Lot) Parked() int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.parked
}

// End ends the responses of all Seats that Await has told of, now and later. It does nothing for a nil Lot.
func (l *Lot) End(cause error) {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.ended = cause
	seats := slices.Collect(maps.Keys(l.seats))
	l.mu.Unlock()
	for _, s := range seats {
		s.End(cause)
	}
}

// Await makes Lot.End end the response.
func (s *Seat) Await() {
	l := s.lot
	l.mu.Lock()
	l.seats[s] = struct{}{}
	ended := l.ended
	l.mu.Unlock()
	if ended != nil {
		s.End(ended)
	}
}

// take counts a response that leaves net/http. remove is called at its end, or giveUp if it stays.
func (l *Lot) take(s *Seat) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seats[s] = struct{}{}
	l.parked++
}

// settle begins to watch a response whose handler has returned.
func (l *Lot) settle(s *Seat) {
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	l.trim.note()
	if closed {
		s.cut()
	}
	if err := l.watch.add(s); err != nil {
		s.End(context.Canceled)
	}
}

// leave forgets a response that was not parked.
func (l *Lot) leave(s *Seat) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seats, s)
}

// remove removes a response that has ended.
func (l *Lot) remove(s *Seat) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seats, s)
	l.uncount()
}

// giveUp takes take back for a response that has not left net/http.
func (l *Lot) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uncount()
}

// uncount counts one response less. The caller holds mu.
func (l *Lot) uncount() {
	if l.parked--; l.parked == 0 && l.empty != nil {
		close(l.empty)
		l.empty = nil
	}
}

// Wait waits until all parked responses have ended.
func (l *Lot) Wait(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	if l.parked == 0 {
		l.mu.Unlock()
		return nil
	}
	if l.empty == nil {
		l.empty = make(chan struct{})
	}
	empty := l.empty
	l.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close closes the connections of all parked responses and waits until the responses have ended. Closing again does
// nothing.
func (l *Lot) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	seats := slices.Collect(maps.Keys(l.seats))
	l.mu.Unlock()
	for _, s := range seats {
		s.cut()
		s.End(context.Canceled)
	}
	l.stopReturning()
	_ = l.Wait(context.Background())
	l.clock.stop()
	l.trim.stop()
	return l.watch.close()
}
