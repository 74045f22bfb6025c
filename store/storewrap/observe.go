package storewrap

import (
	"context"
	"errors"
	"time"

	"reprise"
)

// Call is one call of a Store, for metrics.
type Call struct {
	// Op is "create", "append", "read", "list", "trim", "remove", "watch", "sweep" or "sizes".
	Op string
	// Duration is the time that the Store inside took.
	Duration time.Duration
	// Streams counts the requests of an append, and the streams that were listed or swept; it is 1 for
	// what is about one stream, and 0 for sizes.
	Streams int
	// Batches, Events and Bytes count what was read, or appended: with a new stream, or by requests that were not
	// refused. Bytes are those of the batches as they pass this place among the wrappers.
	Batches, Events, Bytes int
	// Errs are the errors that were returned: none, or one, or one for each request of an append
	// that has failed. errors.Is tells them apart, and so does package problem.
	Errs []error
}

// Observed is a Store whose calls are told. It is safe for concurrent use.
type Observed struct {
	around
	called func(Call)
}

// Observe calls called after each call of inner but Close. It does so in the goroutine of the caller, so called must be
// quick and safe for concurrent use, and must not call the Store.
func Observe(inner reprise.Store, called func(Call)) *Observed {
	return &Observed{around{inner}, called}
}

// end tells of a call that has begun at start.
func (o *Observed) end(c Call, start time.Time, errs ...error) {
	c.Duration = time.Since(start)
	for _, err := range errs {
		if err != nil {
			c.Errs = append(c.Errs, err)
		}
	}
	o.called(c)
}

// Create makes a stream; see reprise.Store.
func (o *Observed) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	start := time.Now()
	kept, err := o.inner.Create(ctx, info)
	o.end(Call{Op: "create", Streams: 1}, start, err)
	return kept, err
}

// CreateAppend makes a stream with its first batch; see reprise.CreateAppender. It is told as a "create", with a
// batch if the stream was made.
func (o *Observed) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	start := time.Now()
	kept, err := o.around.CreateAppend(ctx, info, first)
	if errors.Is(err, errors.ErrUnsupported) {
		return kept, err
	}
	c := Call{Op: "create", Streams: 1}
	if err == nil && kept.Epoch == info.Epoch {
		c.Batches, c.Events, c.Bytes = 1, first.Count, len(first.Bytes)
	}
	o.end(c, start, err)
	return kept, err
}

// Append stores batches; see reprise.Store.
func (o *Observed) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	start := time.Now()
	errs := o.inner.Append(ctx, reqs)
	c := Call{Op: "append", Streams: len(reqs)}
	for i := range reqs {
		if errs == nil || errs[i] == nil {
			c.Batches++
			c.Events += reqs[i].Count
			c.Bytes += len(reqs[i].Bytes)
		}
	}
	o.end(c, start, errs...)
	return errs
}

// Read returns a page; see reprise.Store.
func (o *Observed) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	start := time.Now()
	page, err := o.inner.Read(ctx, key, after, maxBytes)
	c := Call{Op: "read", Streams: 1, Batches: len(page.Batches)}
	for _, b := range page.Batches {
		c.Events += b.Count
		c.Bytes += len(b.Bytes)
	}
	o.end(c, start, err)
	return page, err
}

// List returns streams; see reprise.Store.
func (o *Observed) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	start := time.Now()
	page, err := o.inner.List(ctx, q)
	o.end(Call{Op: "list", Streams: len(page.Streams)}, start, err)
	return page, err
}

// Remove forgets events or a stream; see reprise.Store.
func (o *Observed) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	start := time.Now()
	err := o.inner.Remove(ctx, key, spec)
	o.end(Call{Op: removal(spec), Streams: 1}, start, err)
	return err
}

// removal names what is removed.
func removal(spec reprise.RemoveSpec) string {
	if spec.Trim != 0 {
		return "trim"
	}
	return "remove"
}

// Watch watches a stream; see reprise.Watcher.
func (o *Observed) Watch(key reprise.StreamKey, moved func()) (stop func(), err error) {
	start := time.Now()
	stop, err = o.around.Watch(key, moved)
	o.end(Call{Op: "watch", Streams: 1}, start, err)
	return stop, err
}

// Sweep removes expired streams; see reprise.Sweeper.
func (o *Observed) Sweep(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
	start := time.Now()
	swept, err := o.around.Sweep(ctx, now, remember, limit)
	o.end(Call{Op: "sweep", Streams: len(swept)}, start, err)
	return swept, err
}

// Sizes returns what each tenant keeps; see reprise.Sizer.
func (o *Observed) Sizes(ctx context.Context) (map[reprise.Tenant]reprise.Size, error) {
	start := time.Now()
	sizes, err := o.around.Sizes(ctx)
	o.end(Call{Op: "sizes"}, start, err)
	return sizes, err
}
