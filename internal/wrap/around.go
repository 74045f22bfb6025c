// Package wrap has what Stores around Stores share: passing calls on, the places of wrappers in a stack, and pages of
// batches that have another size inside.
package wrap

import (
	"context"
	"errors"
	"time"

	"reprise"
)

// Around passes every call to the wrapped Store, Inner. A wrapper embeds it and overrides the methods that it changes.
type Around struct{ Inner reprise.Store }

// Unwrap returns the wrapped Store.
func (a Around) Unwrap() reprise.Store { return a.Inner }

// Create creates a stream; see reprise.Store.
func (a Around) Create(ctx context.Context, info reprise.StreamInfo) (reprise.StreamInfo, error) {
	return a.Inner.Create(ctx, info)
}

// Append stores batches; see reprise.Store.
func (a Around) Append(ctx context.Context, reqs []reprise.AppendRequest) []error {
	return a.Inner.Append(ctx, reqs)
}

// Read returns a page; see reprise.Store.
func (a Around) Read(ctx context.Context, key reprise.StreamKey, after uint64, maxBytes int) (reprise.Page, error) {
	return a.Inner.Read(ctx, key, after, maxBytes)
}

// List returns streams; see reprise.Store.
func (a Around) List(ctx context.Context, q reprise.ListQuery) (reprise.ListPage, error) {
	return a.Inner.List(ctx, q)
}

// Remove trims or removes a stream; see reprise.Store.
func (a Around) Remove(ctx context.Context, key reprise.StreamKey, spec reprise.RemoveSpec) error {
	return a.Inner.Remove(ctx, key, spec)
}

// Close closes the wrapped Store; see reprise.Store.
func (a Around) Close() error { return a.Inner.Close() }

// Watch watches a stream; see reprise.Watcher. It returns errors.ErrUnsupported if the wrapped Store is not a Watcher.
func (a Around) Watch(key reprise.StreamKey, moved func()) (stop func(), err error) {
	if w, ok := a.Inner.(reprise.Watcher); ok {
		return w.Watch(key, moved)
	}
	return nil, errors.ErrUnsupported
}

// ConcurrentAppends returns the number of the wrapped Store, or 1 if that is not a reprise.Concurrent.
func (a Around) ConcurrentAppends() int {
	if c, ok := a.Inner.(reprise.Concurrent); ok {
		return c.ConcurrentAppends()
	}
	return 1
}

// CreateAppend creates a stream with its first batch; see reprise.CreateAppender. It returns errors.ErrUnsupported if
// the wrapped Store is not a CreateAppender.
func (a Around) CreateAppend(ctx context.Context, info reprise.StreamInfo,
	first reprise.AppendRequest,
) (reprise.StreamInfo, error) {
	if c, ok := a.Inner.(reprise.CreateAppender); ok {
		return c.CreateAppend(ctx, info, first)
	}
	return reprise.StreamInfo{}, errors.ErrUnsupported
}

// Sweep removes expired streams; see reprise.Sweeper. It returns errors.ErrUnsupported if the wrapped Store is not a
// Sweeper.
func (a Around) Sweep(ctx context.Context, now, remember time.Time, limit int) ([]reprise.StreamInfo, error) {
	if s, ok := a.Inner.(reprise.Sweeper); ok {
		return s.Sweep(ctx, now, remember, limit)
	}
	return nil, errors.ErrUnsupported
}

// Sizes returns the size of each tenant; see reprise.Sizer. It returns errors.ErrUnsupported if the wrapped Store is
// not a Sizer.
func (a Around) Sizes(ctx context.Context) (map[reprise.Tenant]reprise.Size, error) {
	if s, ok := a.Inner.(reprise.Sizer); ok {
		return s.Sizes(ctx)
	}
	return nil, errors.ErrUnsupported
}
