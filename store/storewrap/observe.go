package storewrap

import (
	"context"
	"errors"
	"time"

	"reprise"
	"reprise/internal/wrap"
)

// Call is one call of a Store, for metrics.
type Call struct {
	// Op is "create", "append", "read", "list", "trim", "remove", "watch", "sweep" or "sizes".
	Op string
	// Duration is the time that the wrapped Store took.
	Duration time.Duration
	// Streams is the number of requests of an append, or of listed or swept streams. It is 1 for calls about one
	// stream, and 0 for sizes.
	Streams int
	// Batches, Events and Bytes count what was read or appended. Appended batches include a new stream's, and exclude
	// batches of rejected requests. Bytes is the size of the batches at this place among the wrappers.
	Batches, Events, Bytes int
	// Errs are the returned errors: none, one, or one for each failed request of an append. They can be classified with
	// errors.Is or package problem.
	Errs []error
}

// observed is a Store that reports its calls. It is safe for concurrent use.
type observed struct {
	wrap.Around
	called func(Call)
}

// Observe calls called after each call of inner except Close. It uses the goroutine of the caller, so called must be
// quick and safe for concurrent use, and must not call the Store.
func Observe(inner reprise.Store, called func(Call)) reprise.Store {
	return &observed{wrap.Around{Inner: inner}, called}
}

// end reports a call that began at start.
func (o *observed) end(c Call, start time.Time, errs ...error) {
	c.Duration = time.Since(start)
	for _, err := range errs {
		if err != nil {
			c.Errs = append(c.Errs, err)
		}
	}
	o.called(c)
}

// Create creates a stream; see reprise.Store.
func (o *observed) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	start := time.Now()
	kept, err := o.Inner.Create(ctx, info)
	o.end(Call{Op: "create", Streams: 1}, start, err)
	return kept, err
}

// CreateAppend creates a stream with its first batch; see reprise.CreateAppender. It is reported as a "create", with a
// batch if the stream was created.
func (o *observed) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	start := time.Now()
	kept, err := o.Around.CreateAppend(ctx, info, first)
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
func (o *observed) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	start := time.Now()
	errs := o.Inner.Append(ctx, reqs)
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
func (o *observed) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	start := time.Now()
	page, err := o.Inner.Read(ctx, key, after, maxBytes)
	c := Call{Op: "read", Streams: 1, Batches: len(page.Batches)}
	for _, b := range page.Batches {
		c.Events += b.Count
		c.Bytes += len(b.Bytes)
	}
	o.end(c, start, err)
	return page, err
}

// List returns streams; see reprise.Store.
func (o *observed) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	start := time.Now()
	page, err := o.Inner.List(ctx, q)
	o.end(Call{Op: "list", Streams: len(page.Streams)}, start, err)
	return page, err
}

// Remove trims or removes a stream; see reprise.Store.
func (o *observed) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	start := time.Now()
	err := o.Inner.Remove(ctx, key, spec)
	o.end(Call{Op: removal(spec), Streams: 1}, start, err)
	return err
}

// removal returns the Op of a removal.
func removal(spec reprise.RemoveSpec) string {
	if spec.Trim != 0 {
		return "trim"
	}
	return "remove"
}

// Watch watches a stream; see reprise.Watcher.
func (o *observed) Watch(key reprise.StreamKey, moved func()) (stop func(), err error) {
	start := time.Now()
	stop, err = o.Around.Watch(key, moved)
	o.end(Call{Op: "watch", Streams: 1}, start, err)
	return stop, err
}

// Sweep removes expired streams; see reprise.Sweeper.
func (o *observed) Sweep(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
	start := time.Now()
	swept, err := o.Around.Sweep(ctx, now, remember, limit)
	o.end(Call{Op: "sweep", Streams: len(swept)}, start, err)
	return swept, err
}

// Sizes returns the size of each tenant; see reprise.Sizer.
func (o *observed) Sizes(ctx context.Context) (map[reprise.Tenant]reprise.Size, error) {
	start := time.Now()
	sizes, err := o.Around.Sizes(ctx)
	o.end(Call{Op: "sizes"}, start, err)
	return sizes, err
}
