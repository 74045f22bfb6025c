// Package transfer copies streams from one Store to another and checks the contents of a Store. It relies only on the
// contract of reprise.Store.
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
	// Tenant is the tenant whose streams are copied. Default: all tenants.
	Tenant reprise.Tenant
	// Markers copies the marker of the wrappers too, for batches that are copied as they are stored inside the
	// wrappers. Default: each store has its own marker.
	Markers bool
	// Parallel is the number of streams copied at a time. Default: 16.
	Parallel int
	// PageBytes is the number of bytes of a stream read at a time. Default: 256 KiB.
	PageBytes int
	// Progress, if not nil, is called every ProgressEvery and once at the end, by one goroutine at a time.
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

// Progress is the progress of a copy.
type Progress struct {
	// Found is the number of streams to copy, 0 until all are listed.
	Found int64 `json:"found"`
	// Done is the number of streams that are finished, with any outcome.
	Done int64 `json:"done"`
	// Events and Bytes count what this run has appended.
	Events int64 `json:"events"`
	Bytes  int64 `json:"bytes"`
}

// Result is the result of a copy.
type Result struct {
	// Copied counts the streams that were created or appended to, Present those that were already complete. Both are
	// verified.
	Copied  int64 `json:"copied"`
	Present int64 `json:"present"`
	// Gone counts the streams that were removed from the source during the copy.
	Gone int64 `json:"gone"`
	// Events and Bytes count what was appended.
	Events int64 `json:"events"`
	Bytes  int64 `json:"bytes"`
	// Moving lists the streams of the source that others appended to after the copy had caught up. Those events are not
	// copied.
	Moving []reprise.StreamKey `json:"-"`
	// Failed lists the streams that could not be copied.
	Failed []Failure `json:"-"`
}

// Failure is a stream that could not be copied, and why.
type Failure struct {
	Key reprise.StreamKey
	Err error
}

// Copy copies every stream that exists in from when it begins: its epoch, configuration, creation time, owner, window,
// producers and end. Cursors stay valid with the same Keys. Batches are copied as they are, however they were wrapped.
// Copy reads the copied batches from both stores and compares them byte by byte.
//
// An interrupted copy continues where it stopped when it is run again. A stream that others append to is followed until
// the copy has caught up once; run Copy again, or stop the writers before. A stream that exists in to with another
// epoch, or that was appended to there, is not changed: it is one of Result.Failed, with an error that wraps
// reprise.ErrConflict. Marks of expired streams are not copied, since no Store lists them. Streams are created in to in
// the order of their creation, but those that are copied at the same time may change places in lists.
//
// Copy needs memory for the keys of all streams, about 100 bytes each, and for Options.Parallel pages. If a store is
// unavailable, Copy tries again for some seconds and then returns the error. Otherwise the error joins the errors
// of Result.Failed, up to 10 of them. opts may be nil. Copy does not close the stores.
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

// run copies all streams and waits for every goroutine that it has started.
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
	for i := len(keys) - 1; i >= 0 && ctx.Err() == nil; i-- { // oldest first, to keep the order of lists
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

// list returns the keys of all streams, newest first, with or without the marker.
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

// attempts is the number of tries for a stream while a store is unavailable. The pauses between them range from
// firstPause to lastPause and take 6 seconds on average.
const (
	attempts              = 6
	firstPause, lastPause = 400 * time.Millisecond, 16 * firstPause
)

// settle copies one stream and counts the outcome.
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

// reportProgress calls Options.Progress every ProgressEvery until stop is called, which calls it a last time.
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
