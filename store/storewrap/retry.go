package storewrap

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"reprise"
	"reprise/internal/backoff"
	"reprise/internal/wrap"
)

// RetryOptions are the settings of Retry. The zero value of each field means its default.
type RetryOptions struct {
	// Timeout bounds the time of a call with all its tries. A try that is under way at the end is cancelled, except the
	// first try of an append, which the wrapped Store bounds itself. Default: 30 s.
	Timeout time.Duration
	// Wait bounds the pause before the second try. The bound doubles before each further try, up to MaxWait. The pause
	// is a random part of the bound. Defaults: 20 ms, 2 s.
	Wait, MaxWait time.Duration
	// Budget bounds the retries of all calls together, so that retries do not overload a failing Store. It is the
	// number of retries that may be made in a row. Ten successful calls restore one. Default: 100.
	Budget int
}

func (o *RetryOptions) withDefaults() RetryOptions {
	var d RetryOptions
	if o != nil {
		d = *o
	}
	if d.Timeout == 0 {
		d.Timeout = 30 * time.Second
	}
	if d.Wait == 0 {
		d.Wait = 20 * time.Millisecond
	}
	if d.MaxWait == 0 {
		d.MaxWait = 2 * time.Second
	}
	if d.Budget == 0 {
		d.Budget = 100
	}
	return d
}

// retrying is a Store that retries calls after temporary failures. It is safe for concurrent use.
type retrying struct {
	wrap.Around
	opts RetryOptions

	// use is held for reading by each call and for writing by Close.
	use     sync.RWMutex
	closed  bool
	closing chan struct{} // closed when pauses must end
	close   sync.Once

	mu     sync.Mutex
	tenths int // of the remaining retries
}

// Retry retries calls of inner that fail with an error that wraps reprise.ErrUnavailable. It stops when the call
// succeeds, fails with another error, or has used up its time or the budget. It then returns the last error; the next
// call is tried normally. Cancelling the context ends a pause.
//
// A failed append may nevertheless have been stored. If the next try is rejected because of that, Retry reads the batch
// back: if the stored bytes are the same, the append has succeeded. This cannot distinguish two writers without an
// Owner that append the same bytes at the same seq.
//
// A removal without RemoveSpec.Epoch is not retried, because the name may belong to another stream by then. If the
// answer of a try of Sweep was lost, the streams that it removed are not returned.
//
// The error wraps reprise.ErrInvalid if a setting is negative or a wrapper inside must be outside.
func Retry(inner reprise.Store, opts *RetryOptions) (reprise.Store, error) {
	if err := wrap.Place(wrap.Retries, inner); err != nil {
		return nil, err
	}
	o := opts.withDefaults()
	if o.Timeout < 0 || o.Wait < 0 || o.MaxWait < 0 || o.Budget < 0 {
		return nil, fmt.Errorf("%w: a negative setting of Retry", reprise.ErrInvalid)
	}
	return &retrying{
		Around: wrap.Around{Inner: inner}, opts: o, tenths: triesInTenths(o.Budget), closing: make(chan struct{}),
	}, nil
}

func (r *retrying) Layer() wrap.Layer { return wrap.Retries }

// Close closes the wrapped Store; see reprise.Store. A call that waits for its next try makes it at once. A call that
// is under way makes one try that begins after Close, and no more after that.
func (r *retrying) Close() error {
	r.close.Do(func() { close(r.closing) })
	r.use.Lock()
	defer r.use.Unlock()
	r.closed = true
	return r.Inner.Close()
}

// Create creates a stream; see reprise.Store.
func (r *retrying) Create(ctx context.Context, info reprise.StreamInfo) (kept reprise.StreamInfo, err error) {
	err = r.try(ctx, func(ctx context.Context) (err error) {
		kept, err = r.Inner.Create(ctx, info)
		return err
	})
	return kept, err
}

// CreateAppend creates a stream with its first batch; see reprise.CreateAppender. If the answer of a try was lost and
// the next try finds its stream, the stream is returned as created.
func (r *retrying) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (kept reprise.StreamInfo, err error) {
	err = r.try(ctx, func(ctx context.Context) (err error) {
		kept, err = r.Around.CreateAppend(ctx, info, first)
		return err
	})
	return kept, err
}

// Read returns a page; see reprise.Store.
func (r *retrying) Read(ctx context.Context, key reprise.StreamKey, after uint64,
	maxBytes int,
) (page reprise.Page, err error) {
	err = r.try(ctx, func(ctx context.Context) (err error) {
		page, err = r.Inner.Read(ctx, key, after, maxBytes)
		return err
	})
	return page, err
}

// List returns streams; see reprise.Store.
func (r *retrying) List(ctx context.Context, q reprise.ListQuery) (list reprise.ListPage, err error) {
	err = r.try(ctx, func(ctx context.Context) (err error) {
		list, err = r.Inner.List(ctx, q)
		return err
	})
	return list, err
}

// Remove trims or removes a stream; see reprise.Store.
func (r *retrying) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	if spec.Epoch == "" { // Close of the wrapped Store waits for it
		return r.Inner.Remove(ctx, key, spec)
	}
	return r.try(ctx, func(ctx context.Context) error { return r.Inner.Remove(ctx, key, spec) })
}

// Sweep removes expired streams; see reprise.Sweeper. If the answer of a try was lost, the streams that it removed are
// not returned.
func (r *retrying) Sweep(ctx context.Context, now, remember time.Time,
	limit int,
) (swept []reprise.StreamInfo, err error) {
	err = r.try(ctx, func(ctx context.Context) error {
		if len(swept) == limit {
			return nil // an error came with the last of them
		}
		some, err := r.Around.Sweep(ctx, now, remember, limit-len(swept))
		swept = append(swept, some...)
		return err
	})
	return swept, err
}

// Sizes returns the size of each tenant; see reprise.Sizer.
func (r *retrying) Sizes(ctx context.Context) (sizes map[reprise.Tenant]reprise.Size, err error) {
	err = r.try(ctx, func(ctx context.Context) (err error) {
		sizes, err = r.Around.Sizes(ctx)
		return err
	})
	return sizes, err
}

// Append stores batches; see reprise.Store.
func (r *retrying) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	r.use.RLock()
	defer r.use.RUnlock()
	if r.closed {
		return slices.Repeat([]error{reprise.ErrClosed}, len(reqs))
	}
	errs := r.Inner.Append(ctx, reqs)
	if !anyUnavailable(errs) {
		r.succeeded()
		return errs
	}
	a := &doubtful{store: r, all: reqs, errs: slices.Clone(errs), settled: make([]bool, len(reqs))}
	first := true
	_ = r.repeat(ctx, func(ctx context.Context) error { // each request has its own error
		if !first {
			a.again(ctx)
		}
		first = false
		return a.left()
	})
	if ctx.Err() != nil {
		a.fail(context.Cause(ctx))
	}
	return a.result()
}

// try calls f until it returns something other than an error that wraps reprise.ErrUnavailable, or until time or budget
// are used up.
func (r *retrying) try(ctx context.Context, f func(ctx context.Context) error) error {
	r.use.RLock()
	defer r.use.RUnlock()
	if r.closed {
		return reprise.ErrClosed
	}
	return r.repeat(ctx, f)
}

// repeat is try for a caller that holds r.use.
func (r *retrying) repeat(ctx context.Context, f func(ctx context.Context) error) error {
	bounded, cancel := context.WithTimeoutCause(ctx, r.opts.Timeout, errTime)
	defer cancel()
	var last error
	wait := backoff.Backoff{First: r.opts.Wait, Most: r.opts.MaxWait}
	for {
		hurried := last != nil && r.isClosing()
		err := f(bounded)
		switch {
		case errors.Is(err, errTime) && last != nil:
			return last
		case !errors.Is(err, reprise.ErrUnavailable):
			r.succeeded()
			return err
		}
		last = err
		if hurried || !r.mayTry() || !r.pause(bounded, wait.Next()) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return last
		}
	}
}

// errTime is the cause when the time of a call is used up.
var errTime = fmt.Errorf("%w: the time for all tries is up", reprise.ErrUnavailable)

// pause waits until the time has passed or the Store is being closed. It returns false if ctx ends first.
func (r *retrying) pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.closing:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *retrying) isClosing() bool {
	select {
	case <-r.closing:
		return true
	default:
		return false
	}
}

// triesInTenths returns n tries in tenths of a try, the unit that a successful call restores.
func triesInTenths(n int) int { return 10 * min(n, math.MaxInt/10) }

func (r *retrying) mayTry() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tenths < triesInTenths(1) {
		return false
	}
	r.tenths -= triesInTenths(1)
	return true
}

func (r *retrying) succeeded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tenths = min(r.tenths+1, triesInTenths(r.opts.Budget))
}
