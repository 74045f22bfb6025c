// Package drain lets a server finish its work before it stops: it takes no new commands, waits for those that run and
// for who still reads their output, and answers all the while.
package drain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"reprise"
	"reprise/internal/execution"
)

// lastReaders is how long a server waits, after its last command, for readers. Those of interpreters, which do not keep
// the server, and of what other replicas run would not end.
const lastReaders = time.Minute

// look is the time between two looks at the readers that do not have all output yet.
const look = 50 * time.Millisecond

// Longest is the longest time that a server waits for its commands.
const Longest = 7 * 24 * time.Hour

// Host is what runs commands. An execution.Host is one.
type Host interface {
	Drain(ctx context.Context) error
	Counts() execution.Counts
}

// Drain is the draining of one server. It is safe for concurrent use.
type Drain struct {
	host    Host
	readers func() int
	logger  *slog.Logger
	over    chan struct{} // closed when the server is to stop
	work    sync.WaitGroup

	mu    sync.Mutex
	since time.Time // zero before it has begun
	until time.Time
	end   context.CancelCauseFunc
}

// New returns the draining of a server, which has not begun. readers returns how many readers follow executions.
func New(host Host, readers func() int, logger *slog.Logger) *Drain {
	return &Drain{host: host, readers: readers, logger: logger, over: make(chan struct{})}
}

// State is how far a server is.
type State struct {
	Since, Until time.Time // zero before it has begun
	execution.Counts
}

// Begin takes no new commands from now on, and waits for those that were taken, for a time at most, and within that
// time for the readers that do not have all of their output, a minute at most, since there may be no other server that
// has it. Then Over is closed. Begun again, it waits for the new time. The error is reprise.ErrInvalid for a time that
// is not positive or above Longest.
func (d *Drain) Begin(atMost time.Duration) error {
	if atMost <= 0 || atMost > Longest {
		return fmt.Errorf("%w: a server drains for more than 0 and at most %v", reprise.ErrInvalid, Longest)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.end != nil {
		d.end(errReplaced)
	}
	now := time.Now()
	if d.since.IsZero() {
		d.since = now
	}
	d.until = now.Add(atMost)
	ctx, end := context.WithCancelCause(context.Background())
	d.end = end
	d.logger.Info("draining: no new commands are taken", "running", d.host.Counts().Running, "at_most", atMost)
	d.work.Go(func() { d.wait(ctx, atMost) })
	return nil
}

var (
	errReplaced = errors.New("it waits for another time")
	errClosed   = errors.New("the server stops")
)

func (d *Drain) wait(ctx context.Context, atMost time.Duration) {
	bounded, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	err := d.host.Drain(bounded)
	if err == nil {
		d.letRead(bounded)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	select {
	case <-d.over:
		return
	default:
	}
	d.logger.Info("drained", "running", d.host.Counts().Running, "in_time", err == nil,
		"readers", d.readers(), "took", time.Since(d.since).Round(time.Millisecond))
	close(d.over)
}

// letRead waits until nobody follows an execution any more. Readers of what has ended end by themselves.
func (d *Drain) letRead(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastReaders)
	defer cancel()
	ticks := time.NewTicker(look)
	defer ticks.Stop()
	for d.readers() > 0 {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}

// Over is closed when no command runs any more and its readers have all, or the time is over.
func (d *Drain) Over() <-chan struct{} { return d.over }

// State returns how far the server is.
func (d *Drain) State() State {
	d.mu.Lock()
	defer d.mu.Unlock()
	return State{d.since, d.until, d.host.Counts()}
}

// Close ends the wait without closing Over.
func (d *Drain) Close() {
	d.mu.Lock()
	if d.end != nil {
		d.end(errClosed)
	}
	d.mu.Unlock()
	d.work.Wait()
}
