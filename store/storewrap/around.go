package storewrap

import (
	"context"
	"errors"
	"time"

	"reprise"
)

// around hands every call on to the Store inside. A wrapper embeds it and takes over
// what it does in another way.
type around struct{ inner reprise.Store }

// Unwrap returns the Store inside.
func (a around) Unwrap() reprise.Store { return a.inner }

// Create makes a stream; see reprise.Store.
func (a around) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	return a.inner.Create(ctx, info)
}

// Append stores batches; see reprise.Store.
func (a around) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	return a.inner.Append(ctx, reqs)
}

// Read returns a page; see reprise.Store.
func (a around) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	return a.inner.Read(ctx, key, after, maxBytes)
}

// List returns streams; see reprise.Store.
func (a around) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	return a.inner.List(ctx, q)
}

// Remove forgets events or a stream; see reprise.Store.
func (a around) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	return a.inner.Remove(ctx, key, spec)
}

// Close closes the Store inside; see reprise.Store.
func (a around) Close() error { return a.inner.Close() }

// Watch watches a stream; see reprise.Watcher. The error is errors.ErrUnsupported where
// the Store inside is no Watcher.
func (a around) Watch(key reprise.StreamKey, moved func()) (stop func(), err error) {
	if w, ok := a.inner.(reprise.Watcher); ok {
		return w.Watch(key, moved)
	}
	return nil, errors.ErrUnsupported
}

// ConcurrentAppends is that of the Store inside, 1 where it is no reprise.Concurrent.
func (a around) ConcurrentAppends() int {
	if c, ok := a.inner.(reprise.Concurrent); ok {
		return c.ConcurrentAppends()
	}
	return 1
}

// CreateAppend makes a stream with its first batch; see reprise.CreateAppender. The error is errors.ErrUnsupported
// where the Store inside is no CreateAppender.
func (a around) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	if c, ok := a.inner.(reprise.CreateAppender); ok {
		return c.CreateAppend(ctx, info, first)
	}
	return reprise.StreamInfo{}, errors.ErrUnsupported
}

// Sweep removes expired streams; see reprise.Sweeper. The error is errors.ErrUnsupported
// where the Store inside is no Sweeper.
func (a around) Sweep(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
	if s, ok := a.inner.(reprise.Sweeper); ok {
		return s.Sweep(ctx, now, remember, limit)
	}
	return nil, errors.ErrUnsupported
}

// Sizes returns what each tenant keeps; see reprise.Sizer. The error is
// errors.ErrUnsupported where the Store inside is no Sizer.
func (a around) Sizes(ctx context.Context) (map[reprise.Tenant]reprise.Size, error) {
	if s, ok := a.inner.(reprise.Sizer); ok {
		return s.Sizes(ctx)
	}
	return nil, errors.ErrUnsupported
}
