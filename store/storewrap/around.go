package storewrap

import (
	"context"
	"errors"
	"time"

	"reprise"
)

// around passes every call to the wrapped Store. A wrapper embeds it and overrides the methods that it changes.
type around struct{ inner reprise.Store }

// Unwrap returns the wrapped Store.
func (a around) Unwrap() reprise.Store { return a.inner }

// Create creates a stream; see reprise.Store.
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

// Remove trims or removes a stream; see reprise.Store.
func (a around) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	return a.inner.Remove(ctx, key, spec)
}

// Close closes the wrapped Store; see reprise.Store.
func (a around) Close() error { return a.inner.Close() }

// Watch watches a stream; see reprise.Watcher. It returns errors.ErrUnsupported if the wrapped Store is not a Watcher.
func (a around) Watch(key reprise.StreamKey, moved func()) (stop func(), err error) {
	if w, ok := a.inner.(reprise.Watcher); ok {
		return w.Watch(key, moved)
	}
	return nil, errors.ErrUnsupported
}

// ConcurrentAppends returns the number of the wrapped Store, or 1 if that is not a reprise.Concurrent.
func (a around) ConcurrentAppends() int {
	if c, ok := a.inner.(reprise.Concurrent); ok {
		return c.ConcurrentAppends()
	}
	return 1
}

// CreateAppend creates a stream with its first batch; see reprise.CreateAppender. It returns errors.ErrUnsupported if
// the wrapped Store is not a CreateAppender.
func (a around) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	if c, ok := a.inner.(reprise.CreateAppender); ok {
		return c.CreateAppend(ctx, info, first)
	}
	return reprise.StreamInfo{}, errors.ErrUnsupported
}

// Sweep removes expired streams; see reprise.Sweeper. It returns errors.ErrUnsupported if the wrapped Store is not a
// Sweeper.
func (a around) Sweep(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
	if s, ok := a.inner.(reprise.Sweeper); ok {
		return s.Sweep(ctx, now, remember, limit)
	}
	return nil, errors.ErrUnsupported
}

// Sizes returns the size of each tenant; see reprise.Sizer. It returns errors.ErrUnsupported if the wrapped Store is
// not a Sizer.
func (a around) Sizes(ctx context.Context) (map[reprise.Tenant]reprise.Size, error) {
	if s, ok := a.inner.(reprise.Sizer); ok {
		return s.Sizes(ctx)
	}
	return nil, errors.ErrUnsupported
}
