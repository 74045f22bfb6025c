// Package transfer moves streams from one Store to another and checks what a Store
// holds. It knows no Store in particular, and relies on nothing but the contract of
// reprise.Store.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"reprise"
	"reprise/internal/backoff"
)

// Options are the settings of Copy. The zero value of each field means its default.
type Options struct {
	// Tenant is whose streams are copied. Default: all tenants.
	Tenant reprise.Tenant
	// Markers copies the marker of the wrappers too, for batches that are copied as they lie within the
	// wrappers. Default: each store has a marker of its own.
	Markers bool
	// Parallel is how many streams are copied at a time. Default: 16.
	Parallel int
	// PageBytes is how much of a stream is read at a time. Default: 256 KiB.
	PageBytes int
	// Progress, if not nil, is called every ProgressEvery and once more at the end, never
	// twice at a time.
	Progress func(Progress)
	// ProgressEvery is the time between two calls of Progress. Default: 1 second.
	ProgressEvery time.Duration
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Parallel < 1 {
		d.Parallel = 16
	}
	if d.PageBytes < 1 {
		d.PageBytes = 256 << 10
	}
	if d.ProgressEvery <= 0 {
		d.ProgressEvery = time.Second
	}
	return d
}

// Progress says how far a copy has come.
type Progress struct {
	// Found is how many streams there are to copy, 0 until all are listed.
	Found int64 `json:"found"`
	// Done is how many of them are settled, in whatever way.
	Done int64 `json:"done"`
	// Events and Bytes are those appended so far by this run.
	Events int64 `json:"events"`
	Bytes  int64 `json:"bytes"`
}

// Result says what a copy has done.
type Result struct {
	// Copied counts the streams to which something was appended or that were made, and
	// Present those that were there already, whole. Both are verified.
	Copied  int64 `json:"copied"`
	Present int64 `json:"present"`
	// Gone counts the streams that were removed from the source meanwhile.
	Gone int64 `json:"gone"`
	// Events and Bytes are those that were appended.
	Events int64 `json:"events"`
	Bytes  int64 `json:"bytes"`
	// Moving are the streams to which others appended in the source after they were caught
	// up with. What came then is not copied.
	Moving []reprise.StreamKey `json:"-"`
	// Failed are the streams that could not be copied.
	Failed []Failure `json:"-"`
}

// Failure is a stream that could not be copied, and why.
type Failure struct {
	Key reprise.StreamKey
	Err error
}

// Copy copies every stream of from that exists when it begins to to: its epoch,
// configuration, time of creation, owner, window, producers and end, so that cursors that
// were given out stay good, with the same Keys. Batches are copied as they are,
// whatever wrappers have made of them. What it has copied it reads back from both
// sides and compares byte by byte.
//
// A copy that was interrupted goes on where it stopped when it is run again. A stream
// that others append to is followed until it is caught up with once; run it again, or stop
// the writers before. A stream that exists in to in another life (epoch), or was appended
// to there, is not touched: it is one of Result.Failed, for which the
// error wraps reprise.ErrConflict. Marks of expired streams are not copied, since no
// Store lists them. Streams are made in to in the order of their creation, but those
// that are copied at the same time may change places in lists.
//
// Copy needs memory for the keys of all streams, about 100 bytes each, and for
// Options.Parallel pages. Where a store is unavailable it tries again for some seconds,
// and then returns that error at once. Otherwise the error joins those of
// Result.Failed, up to 10 of them. opts may be nil. The stores stay the caller's.
func Copy(ctx context.Context, from, to reprise.Store, opts *Options) (Result, error) {
	if same(from, to) {
		return Result{}, fmt.Errorf("copy: %w: a store cannot be copied to itself", reprise.ErrInvalid)
	}
	c := &copier{from: from, to: to, opts: opts.withDefaults(), queue: make(chan *pending)}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c.abort = stop

	report := c.reportProgress()
	err := c.run(ctx)
	report()
	if err == nil && len(c.result.Failed) > 0 {
		err = fmt.Errorf("copy: %d streams failed: %w", len(c.result.Failed), c.failures())
	}
	return c.result, err
}

// same reports whether a and b are one Store.
func same(a, b reprise.Store) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}

// copier is one run of Copy.
type copier struct {
	from, to reprise.Store
	opts     Options
	queue    chan *pending
	abort    context.CancelCauseFunc

	found, done, events, bytes atomic.Int64

	mu     sync.Mutex // guards result
	result Result
}

// run copies all streams, and waits for everything that it has started.
func (c *copier) run(ctx context.Context) error {
	keys, err := list(ctx, c.from, c.opts.Tenant, c.opts.Markers)
	if err != nil {
		return fmt.Errorf("copy: list: %w", err)
	}
	c.found.Store(int64(len(keys)))
	var committer, workers sync.WaitGroup
	committer.Go(func() { c.commits(ctx) })
	jobs := make(chan reprise.StreamKey)
	for range min(c.opts.Parallel, len(keys)) {
		workers.Go(func() {
			for key := range jobs {
				c.settle(ctx, key)
			}
		})
	}
	for i := len(keys) - 1; i >= 0 && ctx.Err() == nil; i-- { // the oldest first, for that is how lists are ordered
		select {
		case jobs <- keys[i]:
		case <-ctx.Done():
		}
	}
	close(jobs)
	workers.Wait()
	close(c.queue)
	committer.Wait()
	c.result.Events, c.result.Bytes = c.events.Load(), c.bytes.Load()
	if ctx.Err() != nil {
		return fmt.Errorf("copy: %w", context.Cause(ctx))
	}
	return nil
}

// list returns the keys of all streams, the newest first, with or without the marker.
func list(ctx context.Context, store reprise.Store, tenant reprise.Tenant, markers bool) (
	keys []reprise.StreamKey, err error,
) {
	q := reprise.ListQuery{Tenant: tenant, AllNamespaces: true, Limit: 1000}
	for {
		page, err := store.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Streams {
			if key := page.Streams[i].Key; markers || !key.IsMarker() {
				keys = append(keys, key)
			}
		}
		if q.After = page.Next; q.After == "" {
			return keys, nil
		}
	}
}

// attempts is how often a stream is tried while a store is unavailable. The pauses between them have spans from
// firstPause to lastPause, and take 6 seconds on average.
const (
	attempts              = 6
	firstPause, lastPause = 400 * time.Millisecond, 16 * firstPause
)

// settle copies one stream and counts how that went.
func (c *copier) settle(ctx context.Context, key reprise.StreamKey) {
	out, err := c.stream(ctx, key)
	pause := backoff.Backoff{First: firstPause, Most: lastPause}
	for n := 1; errors.Is(err, reprise.ErrUnavailable) && n < attempts; n++ {
		if pause.Wait(ctx) != nil {
			return
		}
		out, err = c.stream(ctx, key)
	}
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, reprise.ErrUnavailable) || errors.Is(err, reprise.ErrClosed) {
		c.abort(fmt.Errorf("stream %s: %w", key, err))
		return
	}
	c.done.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.result.Failed = append(c.result.Failed, Failure{key, err})
		return
	case out == gone:
		c.result.Gone++
		return
	case out&copied != 0:
		c.result.Copied++
	default:
		c.result.Present++
	}
	if out&moving != 0 {
		c.result.Moving = append(c.result.Moving, key)
	}
}

// failures joins the errors of the first streams that failed.
func (c *copier) failures() error {
	var errs []error
	for _, f := range c.result.Failed[:min(10, len(c.result.Failed))] {
		errs = append(errs, fmt.Errorf("stream %s: %w", f.Key, f.Err))
	}
	return errors.Join(errs...)
}

// reportProgress calls Options.Progress now and then until stop is called, which calls it
// a last time.
func (c *copier) reportProgress() (stop func()) {
	if c.opts.Progress == nil {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(c.opts.ProgressEvery)
		defer ticker.Stop()
		for {
			select {
			case <-end:
				c.opts.Progress(c.progress())
				return
			case <-ticker.C:
				c.opts.Progress(c.progress())
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

func (c *copier) progress() Progress {
	return Progress{Found: c.found.Load(), Done: c.done.Load(), Events: c.events.Load(), Bytes: c.bytes.Load()}
}
